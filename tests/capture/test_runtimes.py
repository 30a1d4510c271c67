"""Where the time of threads went in programs on runtimes of their own: MPI, Rust's channels, tokio."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from iotrail.trail import Trail

# For a loaded machine.
SLACK_NS = 50_000_000
LOUD = "SELECT cause, severity, title FROM diagnosis WHERE severity IN ('high', 'medium')"


def test_ranks_that_spin_in_mpi_wait(build, record) -> None:
    """Rank 0 computes, the others spin in a barrier: their CPU time there is waiting, not computing."""
    if not shutil.which("mpirun"):
        pytest.skip("mpirun is not installed")
    run = record(
        [
            "mpirun",
            "--allow-run-as-root",
            "--oversubscribe",
            "-n",
            "3",
            build("lone.c", "plain", "mpi"),
            "700",
        ]
    )
    assert run.status == 0, run.stderr
    rows = {
        row["pid"]: row
        for row in Trail(run.path).rows_of(
            """SELECT l.pid, s.* FROM time_split AS s JOIN thread_life AS l USING (thread)
            JOIN process AS p ON p.process = s.process WHERE l.tid = l.pid AND p.name LIKE 'lone%'"""
        )
    }
    told = [tuple(map(int, line.split())) for line in run.stdout.splitlines()]
    assert sorted(rank for rank, *_ in told) == [0, 1, 2]
    for rank, pid, computed, waited, spun in told:
        row = rows[pid]
        # What it computed beside that: starting, and between MPI's start and its end.
        assert computed - SLACK_NS <= row["compute_ns"] <= computed + 2 * SLACK_NS, (rank, computed, row)
        assert row["mpi_ns"] >= waited - SLACK_NS, (rank, waited, row)
        assert row["spin_ns"] >= spun - SLACK_NS, (rank, spun, row)
        assert rank == 0 or waited > 300e6


def test_workers_parked_in_a_channel_are_idle(record, tmp_path: Path) -> None:
    """Rust's mpsc::recv parks on a futex: idle, and no finding."""
    program = tmp_path / "channels"
    source = Path(__file__).parent / "programs" / "channels.rs"
    subprocess.run(["rustc", "-O", "--edition", "2021", "-o", program, source], check=True)
    run = record([program, "500"])
    assert run.status == 0, run.stderr
    computed, total = map(int, run.stdout.split())
    assert total == 42
    trail = Trail(run.path)
    rows = trail.rows_of(
        "SELECT l.tid = l.pid AS first, s.* FROM time_split AS s JOIN thread_life AS l USING (thread)"
    )
    assert len(rows) == 4
    for row in rows:
        if row["first"]:
            assert row["compute_ns"] == pytest.approx(computed, abs=SLACK_NS)
        else:
            assert row["idle_ns"] >= 0.9 * row["life_ns"] - SLACK_NS, row
            assert (row["compute_ns"] or 0) <= SLACK_NS
    assert trail.rows_of(f"{LOUD} AND cause <> 'storage_idle'") == []


def test_workers_of_tokio_are_idle(record, native: Path, tmp_path: Path) -> None:
    """A server on tokio (the collector) that nobody talks to: no computing, no finding."""

    def end(recorder: subprocess.Popen) -> None:
        time.sleep(2.5)
        (server,) = Path(f"/proc/{recorder.pid}/task/{recorder.pid}/children").read_text().split()
        os.kill(int(server), signal.SIGTERM)

    run = record(
        [native, "collect", "--listen", "127.0.0.1:0", "-o", tmp_path / "collected.trail"], during=end
    )
    assert run.status == 0, run.stderr
    trail = Trail(run.path)
    rows = trail.rows_of(
        "SELECT l.tid = l.pid AS first, s.* FROM time_split AS s JOIN thread_life AS l USING (thread)"
    )
    workers = [row for row in rows if not row["first"] and row["life_ns"] > 1.5e9]
    assert workers
    for row in workers:
        assert row["idle_ns"] >= 0.8 * row["life_ns"] - SLACK_NS, row
        assert (row["compute_ns"] or 0) <= 0.1 * row["life_ns"] + SLACK_NS, row
    assert trail.rows_of(f"{LOUD} AND cause <> 'storage_idle'") == []

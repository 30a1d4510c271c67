"""What threads did with their time, against what the kernel says of each (CLOCK_THREAD_CPUTIME_ID, getrusage)."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from iotrail.trail import Trail

from .recording import Recording

# Off by this much, for a loaded machine, or by this share.
SLACK_NS = 30_000_000


@dataclass(frozen=True)
class Told:
    """What a thread said of itself at its end."""

    lived: int
    cpu: int
    major_faults: int


def told(run: Recording) -> dict[int, Told]:
    return {
        int(tid): Told(*map(int, rest)) for tid, *rest in (line.split() for line in run.stdout.splitlines())
    }


def split(run: Recording) -> dict[int, dict]:
    """Module time_split by tid."""
    rows = Trail(run.path).rows_of(
        "SELECT l.tid, l.pid, s.* FROM time_split AS s JOIN thread_life AS l USING (thread)"
    )
    for row in rows:
        states = ("compute_ns", "queued_ns", "fault_ns", "io_ns", "sync_ns", "idle_ns", "unknown_ns")
        assert sum(row[state] or 0 for state in states) == row["life_ns"]
        assert all((row[state] or 0) >= -1000 for state in states), row
        assert row["sync_ns"] == sum(
            row[f"{kind}_ns"]
            for kind in ("lock", "condition", "poll", "socket", "pipe", "process", "timer", "mpi", "other")
        )
    return {row["tid"]: row for row in rows}


@pytest.fixture
def times(
    build: Callable[..., Path], record: Callable[..., Recording], work: Path
) -> Callable[..., Recording]:
    def run(story: str, amount: int, threads: int, directory: Path = work, status: int = 0) -> Recording:
        run = record([build("times.c"), directory, story, str(amount), str(threads)])
        assert run.status == status, run.stderr
        return run

    return run


def test_more_computing_threads_than_cores_wait_for_a_cpu(times) -> None:
    """Each thread's computing is its CPU time, and what is left of its life it waited for a CPU."""
    run = times("burn", 300, 8)
    own, found = told(run), split(run)
    assert len(own) == 8
    for tid, thread in own.items():
        row = found[tid]
        assert row["compute_ns"] == pytest.approx(thread.cpu, rel=0.03, abs=SLACK_NS), (thread, row)
        assert row["queued_ns"] == pytest.approx(thread.lived - thread.cpu, rel=0.1, abs=SLACK_NS), (
            thread,
            row,
        )
        assert row["unknown_ns"] <= 0.05 * thread.lived + SLACK_NS


@pytest.fixture
def on_disk() -> Iterator[Path]:
    """A directory whose files can leave the page cache."""
    path = Path(tempfile.mkdtemp(prefix="capture-", dir="/var/tmp"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


def test_reading_a_cold_mapping_is_not_computing(times, on_disk) -> None:
    """Computing is the CPU time; of the rest, what major faults explain is page faults."""
    (on_disk / "mapped").write_bytes(b"x" * (64 << 20))
    import os

    with (on_disk / "mapped").open("rb+") as file:
        os.fsync(file.fileno())
    run = times("fault", 6000, 1, on_disk)
    ((tid, thread),) = told(run).items()
    row = split(run)[tid]
    assert thread.major_faults > 1000, "the file was in the page cache"
    assert row["compute_ns"] == pytest.approx(thread.cpu, rel=0.1, abs=SLACK_NS), (thread, row)
    off = thread.lived - thread.cpu
    assert row["fault_ns"] + row["queued_ns"] >= 0.7 * off - SLACK_NS, (thread, row)
    faults = Trail(run.path).rows_of(
        f"""SELECT CAST(SUM(major_faults) AS BIGINT) AS n FROM thread_time JOIN thread USING (thread)
        WHERE tid = {tid}"""
    )
    assert faults[0]["n"] >= thread.major_faults


def test_a_raw_system_call_is_not_known_and_not_computing(times) -> None:
    run = times("unseen", 400, 2)
    found = split(run)
    for tid, thread in told(run).items():
        assert found[tid]["compute_ns"] == pytest.approx(thread.cpu, abs=SLACK_NS)
        assert found[tid]["unknown_ns"] >= 0.8 * thread.lived - SLACK_NS


@pytest.mark.parametrize("story", ["park", "futex"])
def test_parked_workers_are_idle_and_wait_for_no_lock(times, story: str) -> None:
    """Workers at a condition variable, or parked as Rust's mpsc::recv parks, while the first thread computes."""
    run = times(story, 400, 3)
    found = split(run)
    for tid, thread in told(run).items():
        assert found[tid]["idle_ns"] >= 0.9 * thread.lived - SLACK_NS, (thread, found[tid])
        assert found[tid]["lock_ns"] <= SLACK_NS
    trail = Trail(run.path)
    assert trail.rows_of("SELECT * FROM finding_lock_waits") == []
    (main,) = [row for row in found.values() if row["tid"] == row["pid"]]
    assert main["compute_ns"] == pytest.approx(400e6, rel=0.1, abs=SLACK_NS)
    effort = trail.rows_of("SELECT * FROM effort")[0]
    assert effort["work_ns"] <= 1.2 * 400e6 + main["queued_ns"] + effort["io_ns"] + SLACK_NS


def test_cpu_time_in_a_wait_is_spinning(times) -> None:
    """A spin lock burns CPU in a call that waits: no computing, and no I/O."""
    run = times("spin", 300, 1)
    ((tid, thread),) = told(run).items()
    row = split(run)[tid]
    assert row["compute_ns"] <= SLACK_NS
    assert row["spin_ns"] == pytest.approx(thread.cpu, rel=0.05, abs=SLACK_NS)
    assert row["lock_ns"] == pytest.approx(thread.lived, rel=0.05, abs=SLACK_NS)


def test_a_killed_thread_has_its_cpu_time_up_to_the_last_sample(times) -> None:
    """It made no call and read no clock; the rest is not known, not 0."""
    run = times("kill", 1000, 1, status=137)
    rows = [row for row in split(run).values() if row["tid"] != row["pid"]]
    assert len(rows) == 1
    row = rows[0]
    assert row["compute_ns"] is not None
    assert row["compute_ns"] + row["queued_ns"] >= 0.5 * row["life_ns"], row
    assert row["compute_ns"] <= row["life_ns"]

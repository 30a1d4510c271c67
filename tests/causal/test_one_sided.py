"""One-sided MPI: epochs beside what ranks log of their own calls, the late rank is named; locks of windows are contended for again."""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from iotrail.trail import Trail

from .conftest import HERE, ask
from .order import Arrow, known, missing
from .test_edges import logged

RANKS = 4
ROUNDS = 12
OPENMPI = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe"]
# osc/pt2pt waits in other calls than the others.
STARTS = {
    "openmpi": [*OPENMPI, "-n"],
    "openmpi-pt2pt": [*OPENMPI, "--mca", "osc", "pt2pt", "-n"],
    "mpich": ["mpirun.mpich", "-n"],
}
# Of the 60 ms that a rank sleeps before others can go on what shows at least, ns: there are more ranks than cores.
SEEN = 30_000_000


@pytest.fixture(params=STARTS)
def implementation(request: pytest.FixtureRequest) -> str:
    name = str(request.param)
    needed = (f"mpicc.{name.split('-')[0]}", STARTS[name][0])
    if missing := [program for program in needed if not shutil.which(program)]:
        pytest.skip(f"{', '.join(missing)} not installed")
    if name == "openmpi-pt2pt":
        parts = subprocess.run(["ompi_info"], capture_output=True, text=True, check=True).stdout
        if "MCA osc: pt2pt" not in parts:
            pytest.skip("this Open MPI has no osc/pt2pt")
    return name


@pytest.fixture
def ranks(implementation: str, record: Callable[..., Trail], tmp_path: Path) -> Callable[..., Trail]:
    """Records programs/onesided.c."""
    cache = HERE.parent.parent / ".cache" / "causal"
    cache.mkdir(parents=True, exist_ok=True)
    source = HERE / "programs" / "onesided.c"
    read = source.read_bytes() + source.with_name("log.h").read_bytes()
    compiler = f"mpicc.{implementation.split('-')[0]}"
    program = cache / f"onesided-{compiler}-{hashlib.sha256(read).hexdigest()[:12]}"
    if not program.exists():
        made = program.with_suffix(f".{os.getpid()}")
        subprocess.run([compiler, "-O1", "-Wall", "-o", made, source], check=True)
        made.rename(program)

    def run(how: str, rounds: int, *words: object, ranks: int = RANKS) -> Trail:
        log = tmp_path / "log"
        log.unlink(missing_ok=True)
        return record(*STARTS[implementation], ranks, program, how, rounds, log, *words)

    return run


def offset_of(trail: Trail, log: Path) -> int:
    """What is to be added to CLOCK_MONOTONIC for the trail's times: each rank reads it before it posts."""
    rows = trail.rows_of(
        "SELECT s.ts, t.tid FROM sync_op AS s INNER JOIN thread AS t ON t.thread = s.thread WHERE s.call = 'MPI_Win_post' ORDER BY s.ts"
    )
    read: dict[int, list[int]] = {}
    for line in log.read_text().splitlines():
        what, number, tid, before, _ = line.split()
        times = read.setdefault(int(tid), [])
        if what == "G" and int(number) // RANKS % 2 == 0 and int(before) not in times:
            times.append(int(before))
    begun = {tid: [row["ts"] for row in rows if row["tid"] == tid] for tid in read}
    return min(ts - time for tid in read for ts, time in zip(begun[tid], read[tid], strict=True))


def epochs(trail: Trail) -> list[Arrow]:
    """Edges of epochs, between ranks."""
    rows = trail.rows_of(
        "SELECT g.tid AS giver, s.ts AS since, t.tid AS taker, w.ts + w.dur AS until FROM signal AS s "
        "INNER JOIN wait AS w ON w.edge = s.edge INNER JOIN thread AS g ON g.thread = s.thread "
        "INNER JOIN thread AS t ON t.thread = w.thread WHERE g.tid <> t.tid AND w.kind IN ('exposure', 'access')"
    )
    return [Arrow(**row) for row in rows]


def unexplained(trail: Trail) -> list[dict[str, object]]:
    """Waits for epochs without an edge."""
    return trail.rows_of(
        "SELECT w.* FROM wait_state AS w INNER JOIN thread_life AS t ON t.thread = w.thread "
        "WHERE w.state = 'unexplained' AND w.kind IN ('exposure', 'access')"
    )


@pytest.mark.parametrize("how", ["quiet", "test", "post", "complete", "ring"])
def test_epochs_are_found_and_nothing_else(how: str, ranks: Callable[..., Trail], tmp_path: Path) -> None:
    trail, log = ranks(how, ROUNDS), tmp_path / "log"
    begun, done = logged(log, offset_of(trail, log))
    others = 1 if how == "ring" else RANKS - 1
    assert len(begun) == 2 * ROUNDS * RANKS * others
    arrows = epochs(trail)
    assert missing(begun, known(arrows)) == []
    assert missing(arrows, known(done)) == []
    assert unexplained(trail) == []


# MPI_Win_complete of osc/pt2pt waits for targets that sleep and so are not in MPI.
LATE = [
    (name, how)
    for name in STARTS
    for how in ("post", "complete", "ring")
    if name != "openmpi-pt2pt" or how == "post"
]


@pytest.mark.parametrize(("implementation", "how"), LATE, indirect=["implementation"])
def test_the_late_rank_is_named(how: str, ranks: Callable[..., Trail]) -> None:
    trail = ranks(how, ROUNDS)
    waits = trail.rows_of(
        "SELECT t.rank, c.rank AS cause, w.ts, w.blocked_ns, w.state FROM wait_state AS w "
        "INNER JOIN thread_life AS t ON t.thread = w.thread INNER JOIN thread_life AS c ON c.thread = w.cause_thread "
        f"WHERE w.kind IN ('exposure', 'access') AND w.blocked_ns > {SEEN} ORDER BY w.ts"
    )
    # in a ring the one before it waits until it is let access, the one after it until it has accessed
    waiting = 2 if how == "ring" else RANKS - 1
    assert len(waits) == waiting * ROUNDS, waits
    for round in range(ROUNDS):
        late, these = round % RANKS, waits[waiting * round : waiting * (round + 1)]
        assert {wait["cause"] for wait in these} == {late}, (round, waits)
        if how == "ring":
            expected = {((late - 1) % RANKS, "late post"), ((late + 1) % RANKS, "late complete")}
        else:
            expected = {(rank, f"late {how}") for rank in range(RANKS) if rank != late}
        assert {(wait["rank"], wait["state"]) for wait in these} == expected, (round, waits)


@pytest.mark.parametrize("how", ["exclusive", "shared"])
def test_locks_of_windows_are_contended_for_again(how: str, ranks: Callable[..., Trail]) -> None:
    """Three ranks have the lock for 2 ms each time; then for 4."""
    trail = ranks(how, ROUNDS, 2, ranks=RANKS)
    held = (RANKS - 1) * ROUNDS * 2_000_000
    waits = trail.rows_of(
        "SELECT w.*, s.call FROM wait_state AS w INNER JOIN sync_op AS s ON s.thread = w.thread AND s.ts = w.ts "
        "WHERE w.state = 'lock' AND w.dur > 1000000 AND s.kind = 'mpi'"
    )
    answer = ask(trail.path, "--lock", "2", "--by", "lock", "--cores", str(RANKS), "--samples", "0")
    [case] = answer["cases"]
    unchanged = answer["simulated_ns"]
    if how == "shared":
        assert waits == [] and case["elapsed_ns"] - unchanged < held
        return
    # while one has it the others wait: how often depends on who gets it next
    assert sum(int(str(wait["dur"])) for wait in waits) >= held / 2, waits
    assert unchanged >= held and case["elapsed_ns"] >= 2 * held
    # implementations may have locks of their own
    [curve] = [one for one in answer["curves"] if one["name"].startswith("lock of rank 0 of MPI window ")]
    assert curve["path_ns"] >= 0.9 * held

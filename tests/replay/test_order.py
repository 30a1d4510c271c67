"""A replay keeps the order between threads: what reads what another wrote waits for it, and nothing else waits."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from iotrail.diff.fidelity import Fidelity, fidelity
from iotrail.trail import Trail

from .test_replay import Row, operations

Iotrail = Callable[..., subprocess.CompletedProcess[str]]
Handover = Callable[[str, int], tuple[Path, Path]]
# How the threads of a replay get out of step: no think times, a tenth of them, all at their times, all at once.
JITTER = [
    ("--mode", "think", "--scale", "0.001"),
    ("--mode", "think", "--scale", "0.1"),
    ("--mode", "timed", "--scale", "0.2"),
    ("--mode", "timed", "--scale", "0.001"),
]


@pytest.fixture(scope="module")
def handover(native: Path, tmp_path_factory: pytest.TempPathFactory) -> Handover:
    """Records `handover.py`; the trail and the folder it worked in."""

    def record(kind: str, seed: int = 0) -> tuple[Path, Path]:
        folder = tmp_path_factory.mktemp(kind)
        work, trail = folder / "work", folder / f"{kind}.trail"
        work.mkdir()
        program = Path(__file__).parent / "handover.py"
        command = [native, "record", "-o", trail, "--", sys.executable, "-S", program, kind, seed, work]
        subprocess.run(list(map(str, command)), check=True, timeout=120, capture_output=True)
        return trail, work

    return record


@pytest.fixture
def again(iotrail: Iotrail, tmp_path: Path) -> Callable[..., tuple[Path, Fidelity]]:
    """Replays a trail under tmp_path/root by the binary alone; the trail of that, and how faithful it was."""

    def run(trail: Path, *arguments: str) -> tuple[Path, Fidelity]:
        output = tmp_path / "again.trail"
        iotrail("replay", trail, "--root", tmp_path / "root", "-o", output, "--force", *arguments)
        return output, fidelity(Trail(trail), Trail(output))

    return run


def inside(rows: dict[str, list[Row]]) -> dict[str, list[Row]]:
    return {thread: found for thread, found in rows.items() if found}


@pytest.mark.parametrize(
    ("kind", "seed"), [("threads", 1), ("threads", 2), ("threads", 3), ("processes", 4), ("processes", 5)]
)
def test_what_another_wrote_is_there_when_it_is_read(
    handover: Handover, again: Callable[..., tuple[Path, Fidelity]], tmp_path: Path, kind: str, seed: int
) -> None:
    """Five programs, each replayed four ways, twenty replays in all: every call of every thread ends as it did."""
    trail, work = handover(kind, seed)
    before = inside(operations(trail, work))
    reads = [row for rows in before.values() for row in rows if row[0] == "pread"]
    assert len(before) >= 2 and len(reads) == 24
    for jitter in JITTER:
        output, result = again(trail, *jitter)
        assert inside(operations(output, Path(f"{tmp_path}/root{work}"), "t.name")) == before, jitter
        causes = {row["cause"] for row in result.moved_by_cause}
        assert causes <= {"kernel"} and result.out_of_order == 0


def test_as_fast_as_possible_counts_what_it_broke(
    handover: Handover, again: Callable[..., tuple[Path, Fidelity]]
) -> None:
    """Writer and reader go on at once; what was short was counted."""
    trail, _ = handover("threads", 6)
    _, result = again(trail, "--mode", "afap")
    assert result.matched > 0
    broken = [row for row in result.moved_by_cause if row["cause"] == "order"]
    # the scheduler may have kept the order by chance
    assert not broken or result.out_of_order >= broken[0]["operations"]
    assert not [row for row in result.moved_by_cause if row["cause"] == "unknown"]


def test_threads_without_common_files_do_not_wait(
    handover: Handover, again: Callable[..., tuple[Path, Fidelity]]
) -> None:
    trail, _ = handover("apart", 0)
    for mode in ("think", "timed"):
        _, result = again(trail, "--mode", mode, "--scale", "0.1")
        assert result.out_of_order == 0
        # Of each thread the first operation follows its process's last.
        assert result.waited <= result.threads_a


def test_what_raced_in_the_recording_may_race_again(
    handover: Handover, again: Callable[..., tuple[Path, Fidelity]], tmp_path: Path
) -> None:
    """All bytes are there in any order, and no thread waits for ever."""
    trail, work = handover("race", 0)
    before = inside(operations(trail, work))
    output, result = again(trail, "--mode", "timed", "--scale", "0.01")
    assert inside(operations(output, Path(f"{tmp_path}/root{work}"), "t.name")) == before
    assert result.out_of_order == 0


@pytest.mark.parametrize(
    ("ts", "pos", "waits"), [(2_000_000_001, 0, 1), (100_000_000, 0, 0), (2_000_000_001, 8192, 0)]
)
def test_only_what_had_returned_is_waited_for(
    made: Callable[..., Path], iotrail: Iotrail, tmp_path: Path, ts: int, pos: int, waits: int
) -> None:
    """A read of what a completed write wrote; one that overlapped the write in time; one of another range.

    As fast as possible both begin at once, so the count of what was broken says what the plan held.
    """
    n = 400
    # large writes before it keep the writer busy while the reader begins
    rows: dict[str, list[Any]] = {
        "ts": [*range(n), n, n + ts],
        "dur": [0] * n + [2_000_000_000, 1_000],
        "thread": [1] * n + [1, 2],
        "call": ["pwrite"] * (n + 1) + ["pread"],
        "pos": [1 << 20] * n + [0, pos],
        "length": [1 << 20] * n + [4096, 4096],
        "result": [1 << 20] * n + [4096, 4096],
    }
    trail = made(**rows)
    disk = tmp_path / "disk"
    disk.touch()
    os.truncate(disk, 4 << 20)
    output = tmp_path / "o.trail"
    iotrail("replay", trail, "--target", disk, "--mode", "afap", "-o", output)
    assert fidelity(Trail(trail), Trail(output)).out_of_order == waits

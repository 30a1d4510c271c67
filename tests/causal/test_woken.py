"""Waits that only the kernel explains, beside what programs log of them: all are found, and no others; who waits for nobody, doesn't."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from iotrail.trail import Trail

from ..kernel.recording import IOTRAIL, needs_root, recordings
from .order import known, missing, of_trail
from .test_edges import lifetime, logged, offset_of

COUNT = 30
VIAS = ["ebpf", "tracefs"]


@pytest.fixture
def recorded(
    build: Callable[[str], Path], tmp_path: Path
) -> Callable[[str, str], Iterator[tuple[Trail, Path]]]:
    """`recorded(how, via)`: trails of programs/woken.c, and their logs, until one is whole."""

    def recorded(how: str, via: str) -> Iterator[tuple[Trail, Path]]:
        log = tmp_path / "log"
        command = [build("woken"), how, str(COUNT), log]
        for trail, last in recordings(command, tmp_path, "--causal", "--kernel-via", via):
            if last:
                yield trail, log
                return

    return recorded


def left_out(trail: Trail) -> int:
    """Events that the kernel left out."""
    [[lost]] = trail.query(
        "SELECT COALESCE(SUM(amount), 0) FROM unseen WHERE kind = 'kernel_dropped'"
    ).fetchall()
    return int(lost)


@needs_root
@pytest.mark.parametrize("via", VIAS)
@pytest.mark.parametrize("how", ["signal", "kill", "queue", "messages", "datagram", "futex", "shared"])
def test_who_woke_whom_is_found_and_nothing_else(
    how: str, via: str, recorded: Callable[[str, str], Iterator[tuple[Trail, Path]]]
) -> None:
    [(trail, log)] = recorded(how, via)
    begun, done = logged(log, offset_of(trail, log))
    assert len(begun) == COUNT
    arrows = of_trail(trail)
    # each event that the kernel left out may have been of one
    lost = left_out(trail)
    assert len(missing(begun, known(arrows))) <= min(lost, COUNT // 2)
    own = [arrow for arrow in arrows if not lifetime(trail, arrow)]
    assert missing(own, known(done)) == []
    # of processes that were forked what they share is known, and who sends a signal to whom
    matched = how in ("signal", "kill", "shared")
    assert trail.query(
        "SELECT DISTINCT how FROM wait WHERE edge IS NOT NULL AND kind NOT IN ('begin', 'end')"
    ).fetchall() == [("matched" if matched else "woken",)]
    [[unexplained, blocked]] = trail.query(
        "SELECT SUM(blocked_ns) FILTER (WHERE state = 'unexplained'), SUM(blocked_ns) FROM wait_state"
    ).fetchall()
    assert lost or (unexplained or 0) <= 0.005 * blocked


@needs_root
@pytest.mark.parametrize("via", VIAS)
def test_who_waits_for_time_and_files_waits_for_nobody(
    via: str, recorded: Callable[[str, str], Iterator[tuple[Trail, Path]]]
) -> None:
    [(trail, _)] = recorded("alone", via)
    kinds = trail.query(
        "SELECT kind, how, COUNT(*) AS n FROM wait WHERE kind NOT IN ('begin', 'end') GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    assert kinds == [("sleep", "none", 2 * COUNT), ("timer", "none", 2 * COUNT)]
    # the timers' interrupts are on nobody's account
    contexts = dict(
        trail.query("SELECT context, COUNT(*) AS n FROM wake WHERE waker IS NULL GROUP BY ALL").fetchall()
    )
    assert contexts["interrupt"] >= 4 * COUNT
    [[between]] = trail.query("SELECT COUNT(*) FROM wake WHERE waker IS NOT NULL").fetchall()
    assert between <= 5


@needs_root
def test_an_anonymous_trail_says_it_as_well(
    recorded: Callable[[str, str], Iterator[tuple[Trail, Path]]], tmp_path: Path
) -> None:
    [(trail, _)] = recorded("queue", "ebpf")
    other = tmp_path / "other.trail"
    subprocess.run([*IOTRAIL, "anonymize", trail.path, "-o", other], check=True)
    query = (
        "SELECT context, t.tid IS NULL AS nobody, COUNT(*) AS n FROM wake AS w "
        "LEFT JOIN thread AS t ON t.thread = w.waker GROUP BY ALL ORDER BY ALL"
    )
    said = [[(row[0], row[2]) for row in of.query(query).fetchall()] for of in (trail, Trail(other))]
    assert said[0] == said[1] and len(said[0]) >= 2


@needs_root
def test_without_causality_nobody_asks_who_woke_whom(build: Callable[[str], Path], tmp_path: Path) -> None:
    command = [build("woken"), "queue", "5", tmp_path / "log"]
    trail, _ = next(iter(recordings(command, tmp_path)))
    assert trail.query("SELECT COUNT(*) FROM cpu_slice").fetchall() != [(0,)]
    assert trail.query("SELECT COUNT(*) FROM wake").fetchall() == [(0,)]

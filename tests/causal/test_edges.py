"""Edges beside what programs log of their own hand-overs: all of them are found, and no others."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from iotrail.trail import Trail

from .order import Arrow, known, missing, of_trail

# By how much times of the log and of the trail may differ, ns: a log's lines are written after their times are read.
MARGIN = 5_000


def offset_of(trail: Trail, log: Path) -> int:
    """What is to be added to CLOCK_MONOTONIC for the trail's times: what was taken was written to the log soon after."""
    rows = trail.rows_of(
        "SELECT o.ts, t.tid FROM file_op AS o INNER JOIN thread AS t ON t.thread = o.thread WHERE o.call = 'write' ORDER BY o.ts"
    )
    wrote: dict[int, list[int]] = {}
    for row in rows:
        wrote.setdefault(row["tid"], []).append(row["ts"])
    logged: dict[int, list[tuple[str, int]]] = {}
    for line in log.read_text().splitlines():
        what, _, tid, _, after = line.split()
        logged.setdefault(int(tid), []).append((what, int(after)))
    return min(
        ts - time
        for tid, lines in logged.items()
        for ts, (what, time) in zip(wrote[tid], lines, strict=True)
        if what == "T"
    )


def logged(log: Path, offset: int) -> tuple[list[Arrow], list[Arrow]]:
    """Hand-overs of a log, at the latest (what must be known) and at the earliest (what may be): from when the giver began to give
    until the taker had taken, and from when it had given until the taker began to wait."""
    gave: dict[int, list[tuple[int, int, int]]] = {}
    took: list[tuple[int, int, int, int]] = []
    for line in log.read_text().splitlines():
        what, number, tid, *times = line.split()
        before, after = (int(time) + offset for time in times)
        if what == "G":
            gave.setdefault(int(number), []).append((int(tid), before, after))
        else:
            took.append((int(number), int(tid), before, after))
    begun, done = [], []
    for number, taker, waited, until in took:
        for giver, before, after in gave[number]:
            if giver != taker:
                begun.append(Arrow(giver, before - MARGIN, taker, until + MARGIN))
                done.append(Arrow(giver, after + MARGIN, taker, waited - MARGIN))
    return begun, done


@pytest.mark.parametrize(
    "how",
    [
        "ahead",
        "behind",
        "condition",
        "barrier",
        "pipe",
        "poll",
        "pair",
        "unix",
        "tcp",
        "event",
        "counter",
        "join",
        "shared",
        "meeting",
        "signalfd",
        "sigwait",
        "sigwaitinfo",
        "latch",
    ],
)
def test_hand_overs_are_found_and_nothing_else(
    how: str, build: Callable[[str], Path], record: Callable[..., Trail], tmp_path: Path
) -> None:
    count, log = 60, tmp_path / "log"
    trail = record(build("handover"), how, count, log)
    begun, done = logged(log, offset_of(trail, log))
    assert len(begun) >= count
    arrows = of_trail(trail)
    assert missing(begun, known(arrows)) == []
    # Threads and processes also begin and end, which the log of the others doesn't say.
    own = [arrow for arrow in arrows if how == "join" or not lifetime(trail, arrow)]
    assert missing(own, known(done)) == []
    # an event counter is read once for several
    assert len(own) >= min(count, len({arrow.until for arrow in begun}))


def lifetime(trail: Trail, arrow: Arrow) -> bool:
    """Whether it is of the beginning or the end of a thread."""
    return bool(
        trail.query(
            "SELECT 1 FROM wait AS w INNER JOIN thread AS t ON t.thread = w.thread "
            "WHERE t.tid = $taker AND w.ts + w.dur = $until AND w.kind IN ('begin', 'end')",
            {"taker": arrow.taker, "until": arrow.until},
        ).fetchall()
    )


def test_who_has_a_program_run_waits_for_its_end(
    build: Callable[[str], Path], record: Callable[..., Trail], tmp_path: Path
) -> None:
    """By system(3), pclose(3), waitid(2), and waitpid(2) that returns at once: each child is waited for once, and nobody else is."""
    rounds = 6
    trail = record(build("children"), tmp_path, rounds)
    query = """
        SELECT w.state, w.blocked_ns, c.parent = p.process AS own, w.cause_thread, w.kind, w.ts, w.dur
        FROM wait_state AS w
        INNER JOIN thread_life AS p ON p.thread = w.thread AND p.process_name LIKE 'children%'
        LEFT JOIN thread AS t ON t.thread = w.cause_thread
        LEFT JOIN process AS c ON c.process = t.process
        WHERE w.kind NOT IN ('sleep', 'begin')
        """
    rows = trail.rows_of(query)
    assert [row for row in rows if (row["state"], row["own"]) != ("end", True)] == []
    assert len(rows) == len({row["cause_thread"] for row in rows}) == 5 * rounds
    # that it asks for one that still runs is no wait, so for the fifth of each round it has to wait no more
    assert sum(row["blocked_ns"] > 0 for row in rows) >= 2 * rounds


# Waits that a signal ends: of alarms that are recorded, of one that is set by a system call of its own, of another process.
INTERRUPTED = """
import ctypes, os, select, signal, struct, time
libc = ctypes.CDLL(None)
signal.signal(signal.SIGALRM, lambda *_: None)
reader, writer = os.pipe()
if os.fork() == 0:
    time.sleep(0.4)
    os.write(writer, b"x")
    os._exit(0)
ready = select.epoll()
ready.register(reader, select.EPOLLIN)
signal.setitimer(signal.ITIMER_REAL, 0.05, 0.1)
ready.poll()
signal.setitimer(signal.ITIMER_REAL, 0)
os.read(reader, 1)
signal.alarm(1)
signal.pause()
libc.syscall(38, 0, struct.pack("4q", 0, 0, 0, 100_000), 0)
signal.pause()
waiting = os.getpid()
if os.fork() == 0:
    time.sleep(0.2)
    os.kill(waiting, signal.SIGALRM)
    os._exit(0)
signal.alarm(10)
signal.pause()
"""


def test_what_alarms_interrupt_waits_for_a_time(record: Callable[..., Trail]) -> None:
    trail = record(sys.executable, "-c", INTERRUPTED)
    query = """
        SELECT s.call, s.result, w.kind, w.edge IS NOT NULL AS known, w.until_edge IS NOT NULL AS goes_on
        FROM wait AS w
        INNER JOIN sync_op AS s ON s.thread = w.thread AND s.ts = w.ts AND s.dur = w.dur
        WHERE s.call IN ('epoll_wait', 'pause')
        ORDER BY w.ts
        """
    rows = [tuple(row.values()) for row in trail.rows_of(query)]
    interrupted = [row for row in rows if row[:2] == ("epoll_wait", -1)]
    assert len(interrupted) >= 2 and set(interrupted) == {("epoll_wait", -1, "timer", False, True)}
    pauses = [("timer", False), ("signal", False), ("signal", True)]
    assert rows[len(interrupted) :] == [
        ("epoll_wait", 1, "stream", True, False),
        *(("pause", -1, kind, known, False) for kind, known in pauses),
    ]

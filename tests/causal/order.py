"""Who had to have done what when: from the edges of a trail, and from what a program logs itself.

A clock says of each other thread until when it had done all; clocks are carried along edges, from the giver to the taker.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from iotrail.trail import Trail

# Clocks of threads: what is known of others from a time on.
Known = dict[int, list[tuple[int, dict[int, int]]]]


@dataclass(frozen=True)
class Arrow:
    """`taker` went on at `until` after `giver` had done what it did until `since`. Times in ns."""

    giver: int
    since: int
    taker: int
    until: int


def of_trail(trail: Trail) -> list[Arrow]:
    """Edges between threads, which are named by their system's ids."""
    rows = trail.rows_of(
        "SELECT g.tid AS giver, s.ts AS since, t.tid AS taker, w.ts + w.dur AS until FROM signal AS s "
        "INNER JOIN wait AS w ON w.edge = s.edge INNER JOIN thread AS g ON g.thread = s.thread "
        "INNER JOIN thread AS t ON t.thread = w.thread WHERE g.tid <> t.tid"
    )
    return [Arrow(**row) for row in rows]


def known(arrows: Iterable[Arrow]) -> Known:
    """What threads know, by following arrows in the order of their times."""
    clocks: dict[int, dict[int, int]] = {}
    found: Known = {}
    for arrow in sorted(arrows, key=lambda each: each.until):
        clock = dict(clocks.get(arrow.taker, {}))
        clock[arrow.giver] = max(clock.get(arrow.giver, 0), arrow.since)
        for thread, until in at(found, arrow.giver, arrow.since).items():
            clock[thread] = max(clock.get(thread, 0), until)
        clocks[arrow.taker] = clock
        found.setdefault(arrow.taker, []).append((arrow.until, clock))
    return found


def at(known: Known, thread: int, time: int) -> dict[int, int]:
    """What a thread knows at a time."""
    before = [clock for until, clock in known.get(thread, []) if until <= time]
    return before[-1] if before else {}


def missing(arrows: Iterable[Arrow], known: Known) -> list[Arrow]:
    """Arrows that aren't implied."""
    return [
        arrow for arrow in arrows if at(known, arrow.taker, arrow.until).get(arrow.giver, 0) < arrow.since
    ]

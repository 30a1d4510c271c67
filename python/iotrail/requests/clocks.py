"""Offsets between the clocks of machines: to draw moments on one line and to cut a stretch of time, never to order.

All calls of a trail between two machines leave an interval (module `clock_offset`): nothing is served before it was
called for, nor only after the call returned. Within it one call says more: what a callee served lies in the middle of the
call, as network and queues take about the same time both ways (RFC 5905, section 8); that is wrong by at most half of
what the call lasted longer than its serving, and of the calls of a path that with the least difference counts.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from iotrail.requests.path import Crumb, Path
from iotrail.trail import Trail


@dataclass(frozen=True)
class Offset:
    """`shift` ns added to a node's moments give those of the other's clock; at most `error` ns wrong, None unknown."""

    shift: int
    error: int | None


# (to, at): the offset of node `at` to the clock of node `to`; both ways.
Bounds = Mapping[tuple[str, str], Offset]


def of_trail(trail: Trail) -> dict[tuple[str, str], Offset]:
    """What all calls of the trail, as far as it isn't narrowed, say of the machines that call each other."""
    intervals: dict[tuple[str, str], tuple[int, int | None]] = {}
    for row in trail.rows_of("SELECT node, callee_node, shift_ns, error_ns FROM clock_offset"):
        low, error = row["shift_ns"], row["error_ns"]
        if low is None:
            continue
        high = None if error is None else low + error
        intervals[row["node"], row["callee_node"]] = low, high
    found: dict[tuple[str, str], Offset] = {}
    for (to, at), (low, high) in intervals.items():
        # calls the other way bound it too
        if (back := intervals.get((at, to))) is not None:
            low = low if back[1] is None else max(low, -back[1])
            high = -back[0] if high is None else min(high, -back[0])
        # clocks that drifted leave none: the middle is as good as any, and wrong by that much
        offset = Offset(low, None) if high is None else Offset((low + high) // 2, (abs(high - low) + 1) // 2)
        found[to, at] = offset
        found[at, to] = Offset(-offset.shift, offset.error)
    return found


def placed(bounds: Bounds, root: str) -> dict[str, Offset]:
    """The offset of each machine that calls lead to, to the clock of `root`: along chains of calls, least error first."""
    reached = {root: Offset(0, 0)}
    while True:
        reachable = [
            (at, Offset(reached[to].shift + offset.shift, _sum(reached[to].error, offset.error)))
            for (to, at), offset in bounds.items()
            if to in reached and at not in reached
        ]
        if not reachable:
            return reached
        at, offset = min(reachable, key=lambda found: (_worth(found[1]), found[0]))
        reached[at] = offset


def offsets(path: Path, bounds: Bounds) -> dict[str, Offset]:
    """Each node of a path to the clock of the request's node, within the `bounds` of the whole trail."""
    best: dict[tuple[str, str], Offset] = {}
    for caller in path.crumbs:
        for child in caller.children:
            if child.node != caller.node and (found := _between(caller, child)):
                known = best.get((caller.node, child.node))
                if known is None or _worth(found) < _worth(known):
                    best[caller.node, child.node] = found
    narrowed = dict(bounds)
    for (to, at), own in best.items():
        offset = _within(own, bounds.get((to, at)))
        narrowed[to, at] = offset
        narrowed[at, to] = Offset(-offset.shift, offset.error)
    nodes = {crumb.node for crumb in path.crumbs}
    return {node: offset for node, offset in placed(narrowed, path.root.node).items() if node in nodes}


def _within(own: Offset, bound: Offset | None) -> Offset:
    """One call's estimate where all calls allow it; what they allow where it contradicts them."""
    if bound is None or bound.error is None:
        return own
    low, high = bound.shift - bound.error, bound.shift + bound.error
    if own.error is not None:
        low, high = max(low, own.shift - own.error), min(high, own.shift + own.error)
    return bound if low > high else Offset((low + high) // 2, (high - low + 1) // 2)


def _between(caller: Crumb, callee: Crumb) -> Offset | None:
    call, served = caller.main, callee.main
    if call is None or served is None:
        return None
    if call.dur is None or served.dur is None:
        # only the beginnings are known: the message took no time, at best
        return Offset(call.ts - served.ts, None)
    middle = call.ts + call.dur // 2 - (served.ts + served.dur // 2)
    return Offset(middle, max(0, call.dur - served.dur + 1) // 2)


def _worth(offset: Offset) -> tuple[bool, int]:
    return offset.error is None, offset.error or 0


def _sum(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a + b

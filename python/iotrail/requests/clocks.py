"""Offsets between the clocks of a path's nodes, estimated from its rpcs: to draw them on one line, never to order.

What a callee served lies in the middle of the call, as network and queues take about the same time both ways
(RFC 5905, section 8); the estimate is wrong by at most half of what the call lasted longer than its serving. Of the
calls between two nodes that with the least difference counts.
"""

from dataclasses import dataclass

from iotrail.requests.path import Crumb, Path


@dataclass(frozen=True)
class Offset:
    """`shift` ns added to a node's moments give those of the request's node; at most `error` ns wrong, None unknown."""

    shift: int
    error: int | None


def offsets(path: Path) -> dict[str, Offset]:
    """Each node's offset to the clock of the request's node."""
    best: dict[tuple[str, str], Offset] = {}
    for caller in path.crumbs:
        for child in caller.children:
            if child.node != caller.node and (found := _between(caller, child)):
                known = best.get((caller.node, child.node))
                if known is None or _worth(found) < _worth(known):
                    best[caller.node, child.node] = found
                    best[child.node, caller.node] = Offset(-found.shift, found.error)
    placed = {path.root.node: Offset(0, 0)}
    # least error first along chains of nodes
    while True:
        reachable = [
            (at, Offset(placed[to].shift + offset.shift, _sum(placed[to].error, offset.error)))
            for (to, at), offset in best.items()
            if to in placed and at not in placed
        ]
        if not reachable:
            return placed
        at, offset = min(reachable, key=lambda found: _worth(found[1]))
        placed[at] = offset


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

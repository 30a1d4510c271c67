"""Copies of data: which machines hold a part of a file, and whether a reader asks the least busy of them."""

import heapq
from collections import Counter, defaultdict
from dataclasses import dataclass

from iotrail.whatif.system.recorded import Crumb, Key, Recorded

# Of a file: what the same machines hold.
REGION = 1 << 20
# How many of so many choices must have been for the least busy copy, if that is how they are made. Where two are chosen from
# at random, the chance of that is 1 in 1,000.
_LEAST, _SHARE = 10, 0.95


def storage_nodes(recorded: Recorded) -> list[str]:
    """Machines that hold data: those of the component whose disks read and wrote most."""
    moved: Counter[str] = Counter()
    nodes: dict[str, set[str]] = defaultdict(set)
    for crumb in recorded.crumbs.values():
        if crumb.main is not None:
            for use in crumb.disks:
                moved[crumb.main.component] += use.length
                nodes[crumb.main.component].add(use.node)
    return sorted(nodes[moved.most_common(1)[0][0]]) if moved else []


class About:
    """Which place of a file a breadcrumb is about: its own, or that of what it works for."""

    def __init__(self, recorded: Recorded) -> None:
        self._known: dict[Key, tuple[int, int | None] | None] = {}
        for crumb in recorded.crumbs.values():
            named = [(each.file, each.pos) for each in crumb.services]
            named += ((each.file, each.pos) for each in crumb.accesses)
            self._known[crumb.key] = next(((file, pos) for file, pos in named if file), None)

    def place(self, crumb: Crumb) -> tuple[int, int | None] | None:
        """The file and the offset, None unknown."""
        seen = set()
        at = crumb
        while self._known.get(at.key) is None and len(at.parents) == 1 and at.key not in seen:
            seen.add(at.key)
            at = at.parents[0]
        return self._known.get(at.key)

    def file(self, crumb: Crumb) -> int | None:
        """The file, None unknown."""
        place = self.place(crumb)
        return None if place is None else place[0]


@dataclass(slots=True)
class Choice:
    """How readers chose among copies, where their machines weren't equally busy."""

    made: int = 0
    # of the machine with fewest calls that had no reply yet
    least_busy: int = 0
    # whether reads of one region came from several machines
    several: bool = False

    @property
    def is_by_load(self) -> bool:
        """Whether the least busy copy is chosen."""
        return self.made >= _LEAST and self.least_busy >= _SHARE * self.made


class Copies:
    """Where each region of each file is."""

    def __init__(self, recorded: Recorded) -> None:
        self._nodes = set(storage_nodes(recorded))
        self._about = About(recorded)
        self._recorded = recorded
        self._holders: dict[tuple[int, int], set[str]] = defaultdict(set)
        devs: dict[str, Counter[str]] = defaultdict(Counter)
        for crumb in recorded.crumbs.values():
            for use in crumb.disks:
                devs[use.node][use.dev] += 1
            main = crumb.main
            if main is not None and main.kind == "server" and crumb.node in self._nodes:
                place = self._about.place(crumb)
                if place is not None and place[1] is not None:
                    self._holders[place[0], place[1] // REGION].add(crumb.node)
        self._disks = {node: (node, counts.most_common(1)[0][0]) for node, counts in devs.items()}

    def others(self, node: str, file: int, pos: int) -> list[tuple[str, str]]:
        """Disks of other machines that hold what a machine has."""
        holders = self._holders.get((file, pos // REGION), set())
        return [self._disks[other] for other in sorted(holders - {node}) if other in self._disks]

    def others_of(self, crumb: Crumb) -> list[tuple[str, str]]:
        """Disks of other machines that hold what a breadcrumb is about."""
        place = self._about.place(crumb) if crumb.node in self._nodes else None
        return [] if place is None or place[1] is None else self.others(crumb.node, place[0], place[1])

    def choice(self) -> Choice:
        """How readers chose."""
        found = Choice()
        calls: list[tuple[int, int, str, bool, set[str]]] = []
        read_from: dict[tuple[int, int], set[str]] = defaultdict(set)
        for crumb in self._recorded.crumbs.values():
            main = crumb.main
            served = (child for child in crumb.children if child.node in self._nodes - {crumb.node})
            to = next((child.node for child in served), None)
            if main is None or main.kind != "client" or main.end is None or to is None:
                continue
            file, pos = self._about.place(crumb) or (0, None)
            is_read = "read" in main.op.lower() and pos is not None
            region = file, (pos or 0) // REGION
            if is_read:
                read_from[region].add(to)
            calls.append((main.ts, main.end, to, is_read, self._holders.get(region, set())))
        busy: Counter[str] = Counter()
        ends: list[tuple[int, str]] = []
        for ts, end, to, is_read, holders in sorted(calls, key=lambda call: call[0]):
            while ends and ends[0][0] <= ts:
                busy[heapq.heappop(ends)[1]] -= 1
            loads = [busy[node] for node in holders]
            if is_read and to in holders and min(loads) < max(loads):
                found.made += 1
                found.least_busy += busy[to] == min(loads)
            busy[to] += 1
            heapq.heappush(ends, (end, to))
        found.several = any(len(nodes) > 1 for nodes in read_from.values())
        return found

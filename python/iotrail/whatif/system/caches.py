"""Buffer caches of a system, level by level: what each would hold, miss and fetch with other sizes.

All accesses to a cache, in their recorded order, run through a simulated one (crates/sim/src/cache). What a miss fetched
from the next level is dropped where it is a hit now, and made where a hit is a miss now.
"""

import statistics
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from math import gcd

import numpy as np
import pyarrow as pa

from iotrail.whatif.simulator import simulate_rows
from iotrail.whatif.system.copies import REGION
from iotrail.whatif.system.recorded import Access, Crumb, DiskUse, Key, Recorded

# node, component, cache
Place = tuple[str, str, str]

READS = ("read_hit", "read_miss")
LARGEST_BLOCK = 1 << 20
# Of a cache that never dropped anything: its size isn't known, and it is taken for large enough.
UNLIMITED = 1 << 62
_MOST_BLOCKS = (1 << 32) - 2
# until what is read ahead settles
_ROUNDS = 4


@dataclass(slots=True)
class Group:
    """Accesses of a breadcrumb that follow each other, and what was fetched for them before the next ones."""

    crumb: Crumb
    accesses: list[Access]
    # calls of others that began then, and requests to disks
    calls: list[Crumb] = field(default_factory=list)
    disks: list[DiskUse] = field(default_factory=list)

    @property
    def wanted(self) -> list[Access]:
        """What was asked for: reads; of work that only reads ahead, what it reads."""
        return [access for access in self.accesses if access.kind in READS] or [
            access for access in self.accesses if access.kind == "read_ahead"
        ]

    @property
    def missed(self) -> int:
        """Bytes that weren't there in the record."""
        return sum(access.length for access in self.wanted if access.kind != "read_hit")

    def is_for(self, call: Crumb) -> bool:
        """Whether a call says that it is for bytes of what was asked for."""
        main = call.main
        if main is None or main.file is None or main.pos is None or main.length is None:
            return False
        return any(
            access.file == main.file
            and access.pos < main.pos + main.length
            and main.pos < access.pos + access.length
            for access in self.wanted
        )


@dataclass(slots=True)
class Cache:
    """One buffer cache in the record."""

    place: Place
    accesses: list[Access]
    block: int
    # bytes it held at most; if it dropped any, its size
    held: int
    is_full: bool

    @property
    def name(self) -> str:
        """As it is shown and asked for."""
        node, component, cache = self.place
        return f"{node}/{component}" + ("" if cache == component else f"/{cache}")


@dataclass(slots=True)
class Made:
    """A fetch that the record doesn't have: for an access that was a hit."""

    access: Access
    missed: int
    # of which cache, and of which it fetches; None from a disk
    cache: Place
    behind: Place | None
    # as an access of that one
    there: Access | None


@dataclass(slots=True)
class Outcome:
    """What caches do with the accesses of a record."""

    # bytes of each access that weren't there, by id; what isn't in it didn't happen
    missed: dict[int, int] = field(default_factory=dict)
    dropped: set[Key] = field(default_factory=set)
    # requests to disks that don't happen, by id
    dropped_disks: set[int] = field(default_factory=set)
    # share of the recorded bytes that breadcrumbs, and requests to disks, still fetch
    scale: dict[Key, float] = field(default_factory=dict)
    scale_disks: dict[int, float] = field(default_factory=dict)
    made: list[Made] = field(default_factory=list)


def groups_of(crumb: Crumb) -> list[Group]:
    """A breadcrumb's accesses in groups."""
    happened: list[tuple[int, int, object]] = [(access.ts, 0, access) for access in crumb.accesses]
    happened += ((use.ts, 1, use) for use in crumb.disks)
    for child in crumb.children:
        main = child.main
        if main is not None and main.kind == "client":
            happened.append((main.ts, 1, child))
    happened.sort(key=lambda each: each[:2])
    groups: list[Group] = []
    fetching = False
    for _, _, what in happened:
        if isinstance(what, Access):
            # what a disk read ahead is said after the request
            ahead = fetching and what.kind == "read_ahead" and bool(groups[-1].disks)
            if not groups or (fetching and not ahead):
                groups.append(Group(crumb, []))
                fetching = False
            groups[-1].accesses.append(what)
        elif groups:
            fetching = True
            if isinstance(what, DiskUse):
                groups[-1].disks.append(what)
            elif isinstance(what, Crumb):
                groups[-1].calls.append(what)
    for group in groups:
        # where some calls are for what was missed, the others, as for attributes, fetch nothing
        group.calls = [call for call in group.calls if group.is_for(call)] or group.calls
    return groups


def groups_of_all(recorded: Recorded) -> list[Group]:
    """The groups of all breadcrumbs."""
    return [group for crumb in recorded.crumbs.values() if crumb.key[1] != 0 for group in groups_of(crumb)]


def caches_of(recorded: Recorded) -> list[Cache]:
    """All caches, those that fetch from others before these."""
    found: dict[Place, list[Access]] = defaultdict(list)
    depth: dict[Place, int] = defaultdict(int)
    depths = _depths(recorded)
    for crumb in recorded.crumbs.values():
        for access in crumb.accesses:
            found[access.place].append(access)
            depth[access.place] = max(depth[access.place], depths.get(crumb.key, 0))
    dropped: dict[Place, list[Access]] = defaultdict(list)
    for access in recorded.evictions:
        dropped[access.place].append(access)
    caches = []
    for place in sorted(found, key=lambda place: (depth[place], place)):
        accesses = sorted(found[place], key=lambda access: access.ts)
        block = _block([*accesses, *dropped[place]])
        caches.append(
            Cache(place, accesses, block, _held(accesses, dropped[place], block), bool(dropped[place]))
        )
    return caches


def _block(accesses: list[Access]) -> int:
    """The largest block that all places and lengths are multiples of."""
    common = LARGEST_BLOCK
    for access in accesses:
        common = gcd(common, access.pos, access.length)
    return common


def _blocks(access: Access, block: int) -> range:
    return range(access.pos // block, -(-(access.pos + access.length) // block))


def _held(accesses: list[Access], dropped: list[Access], block: int) -> int:
    """Bytes that a cache holds: as a rule, after it dropped some; without that, all it ever held.

    An access may be noted before what it misses is there, or what it read ahead after it: at times the record has a little more
    in the cache than there is, or less.
    """
    held: set[tuple[int, int]] = set()
    after = []
    for access in sorted([*accesses, *dropped], key=lambda access: (access.ts, access.kind == "evict")):
        blocks = {(access.file, at) for at in _blocks(access, block)}
        if access.kind == "evict":
            held -= blocks
            after.append(len(held))
        else:
            held |= blocks
    return (statistics.median_low(after) if after else len(held)) * block


def _depths(recorded: Recorded) -> dict[Key, int]:
    depths: dict[Key, int] = {}
    waiting = [(crumb, 0) for crumb in recorded.crumbs.values() if not crumb.parents]
    while waiting:
        at, depth = waiting.pop()
        # circles end
        if depths.get(at.key, -1) < depth <= 64:
            depths[at.key] = depth
            waiting += ((child, depth + 1) for child in at.children)
    return depths


class Behind:
    """From which caches others fetch what."""

    def __init__(self, recorded: Recorded, groups: list[Group]) -> None:
        # fetches of a cache's misses, from where: of a MiB of a file, of a file, by component
        self._near: dict[tuple[Place, int, int], Counter[Place]] = defaultdict(Counter)
        self._file: dict[tuple[Place, int], Counter[Place]] = defaultdict(Counter)
        self._component: dict[Place, Counter[str | None]] = defaultdict(Counter)
        # caches that had anything of a file
        self._holders: dict[tuple[str, int], set[Place]] = defaultdict(set)
        for group in groups:
            for access in group.accesses:
                self._holders[access.component, access.file].add(access.place)
            place = group.accesses[0].place
            if group.disks:
                self._component[place][None] += len(group.disks)
            for call in group.calls:
                for crumb in recorded.below(call):
                    for access in crumb.accesses:
                        if access.kind in READS and any(access.file == other.file for other in group.wanted):
                            self._near[place, access.file, access.pos // REGION][access.place] += 1
                            self._file[place, access.file][access.place] += 1
                            self._component[place][access.component] += 1

    def of(self, access: Access) -> Place | None:
        """Where a miss of this access is fetched from, None a disk.

        Where most of its MiB of the file was, or of the file; or else from one of those that have anything of the file.
        """
        place, file, region = access.place, access.file, access.pos // REGION
        known = self._near.get((place, file, region)) or self._file.get((place, file))
        if known:
            return known.most_common(1)[0][0]
        component = next(iter(self._component[place].most_common(1)), (None, 0))[0]
        holders = sorted(self._holders.get((component, file), ())) if component is not None else []
        return holders[(file + region) % len(holders)] if holders else None


def run(
    recorded: Recorded,
    caches: list[Cache],
    groups: list[Group],
    behind: Behind,
    sizes: dict[Place, int],
    policy: str,
    order: dict[int, float],
) -> Outcome:
    """What caches of these sizes (in bytes; others as in the record, unlimited if that wasn't full) do.

    `order` says when an access happens, by id, on the recorded line of time; those that aren't in it when they did.
    """
    outcome = Outcome()
    of_access = {id(access): group for group in groups for access in group.accesses}
    # accesses at the next level, each with that for which it is made
    made: dict[Place, list[tuple[Access, Access]]] = defaultdict(list)
    for cache in caches:
        stream = [access for access in cache.accesses if access.key not in outcome.dropped]
        fetched = [(order.get(id(of), there.ts), there) for of, there in made[cache.place]]
        happened = [*((order.get(id(access), access.ts), access) for access in stream), *fetched]
        stream = [access for _, access in sorted(happened, key=lambda each: each[0])]
        size = sizes.get(cache.place, cache.held if cache.is_full else UNLIMITED)
        blocks = min(max(size // cache.block, 1), _MOST_BLOCKS)
        missed = _settled(stream, blocks, cache.block, policy, of_access)
        outcome.missed.update(missed)
        for group in {id(of_access[at]): of_access[at] for at in missed if at in of_access}.values():
            now = sum(missed.get(id(access), 0) for access in group.wanted)
            before = group.missed
            if before:
                _fetch_again(recorded, group, now / before, outcome)
            elif now and group.wanted[0].kind == "read_hit":
                for access in group.wanted:
                    if missed[id(access)]:
                        _make(access, missed[id(access)], behind, outcome, made)
        for _, access in made[cache.place]:
            if missed[id(access)]:
                outcome.made.append(Made(access, missed[id(access)], cache.place, None, None))
    return outcome


def _settled(
    stream: list[Access], blocks: int, block: int, policy: str, of_access: dict[int, Group]
) -> dict[int, int]:
    """Bytes of each access that aren't there, by id. What was read ahead of a miss isn't read where there is none."""
    missed: dict[int, int] = {}
    for _ in range(_ROUNDS):
        missed = dict(zip(map(id, stream), _missed(stream, blocks, block, policy), strict=True))
        kept = [access for access in stream if _is_read(access, missed, of_access)]
        if len(kept) == len(stream):
            break
        stream = kept
    return missed


def _is_read(access: Access, missed: dict[int, int], of_access: dict[int, Group]) -> bool:
    group = of_access.get(id(access))
    if access.kind != "read_ahead" or group is None or group.wanted[0].kind == "read_ahead":
        return True
    return any(missed.get(id(other)) for other in group.wanted)


def _missed(stream: list[Access], blocks: int, block: int, policy: str) -> list[int]:
    if not stream:
        return []
    ranges = [_blocks(access, block) for access in stream]
    columns = {
        "cache": pa.array(np.zeros(len(stream), np.int64)),
        "file": pa.array([access.file for access in stream], pa.int64()),
        "first": pa.array([each.start for each in ranges], pa.int64()),
        "count": pa.array([len(each) for each in ranges], pa.int64()),
    }
    found = simulate_rows(pa.table(columns), ["accesses", "--policy", policy, "--blocks", str(blocks)])
    missed: list[int] = (found["missed"].to_numpy() * block).tolist()
    return missed


def _fetch_again(recorded: Recorded, group: Group, share: float, outcome: Outcome) -> None:
    """What a recorded miss fetched is fetched, by a share of its bytes."""
    below = [crumb for call in group.calls for crumb in recorded.below(call)]
    if share == 0:
        outcome.dropped.update(crumb.key for crumb in below)
        outcome.dropped_disks.update(id(use) for use in group.disks)
    elif share != 1:
        for crumb in below:
            outcome.scale[crumb.key] = outcome.scale.get(crumb.key, 1.0) * share
        outcome.scale_disks.update((id(use), share) for use in group.disks)


def _make(
    access: Access,
    missed: int,
    behind: Behind,
    outcome: Outcome,
    made: dict[Place, list[tuple[Access, Access]]],
) -> None:
    """Fetch what a hit misses now."""
    place = behind.of(access)
    there = None
    if place is not None:
        _, component, cache = place
        there = Access(
            access.ts, access.key, place[0], component, cache, "read_miss", access.file, access.pos, missed
        )
        made[place].append((access, there))
    outcome.made.append(Made(access, missed, access.place, place, there))

"""What a system would do with its recorded requests: response times and demands, with other caches, disks or places.

Answers what §6 of Stardust (SIGMETRICS 2006) asks by replaying traces of caches and disks, as it does.
`base` says what the record itself holds; a `Change` has been made to a second reading of it (changes.py), and its caches have
other sizes. What a fetch costs that nobody made in the record is the mean of those that were.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace

import numpy as np

from iotrail.errors import TrailError
from iotrail.whatif.system import network as steps
from iotrail.whatif.system.caches import (
    READS,
    Behind,
    Cache,
    Group,
    Made,
    Outcome,
    Place,
    caches_of,
    groups_of_all,
    run,
)
from iotrail.whatif.system.copies import Choice, Copies
from iotrail.whatif.system.network import Disk, Network, Work
from iotrail.whatif.system.recorded import Access, Key, Recorded

# Of caches and response times, each from the other's.
_ROUNDS = 3
_SECTOR = 512


@dataclass(slots=True)
class Cost:
    """A mean fetch of a cache, without the time that disks took."""

    local_ns: int
    cpu_ns: float
    messages: float
    network_bytes_per_byte: float


@dataclass(slots=True)
class Use:
    """What a client's requests use of the machines' resources."""

    disk_requests: float = 0
    disk_bytes: float = 0
    disk_ns: float = 0
    network_bytes: float = 0
    cpu_ns: float = 0

    def add(self, other: "Use", part: float) -> None:
        """A part of another one more."""
        self.disk_requests += part * other.disk_requests
        self.disk_bytes += part * other.disk_bytes
        self.disk_ns += part * other.disk_ns
        self.network_bytes += part * other.network_bytes
        self.cpu_ns += part * other.cpu_ns


@dataclass(slots=True)
class Answer:
    """What a system does."""

    # of each request, ns
    responses: dict[Key, float]
    # by client and machine
    demand: dict[tuple[str | None, str], Use]
    outcome: Outcome | None
    # requests with a reply that would wait for themselves, as the record has it
    circular: int


@dataclass(slots=True)
class _Disks:
    """Which disk a cache's misses are read from, and what a read of it takes."""

    disk: dict[Place, Disk] = field(default_factory=dict)
    service_ns: dict[Disk, int] = field(default_factory=dict)
    places: dict[Disk, list[int]] = field(default_factory=dict)


class System:
    """A recorded system, to be asked with other sizes of caches and other disks."""

    def __init__(self, recorded: Recorded, before: "System | None" = None) -> None:
        """`before`: the same before a change has moved what says how many requests disks serve, and how copies are chosen."""
        self.recorded = recorded
        self.caches = caches_of(recorded)
        self._copies = Copies(recorded)
        self.choice: Choice = self._copies.choice() if before is None else before.choice
        self._servers: dict[Disk, int] = steps.servers(recorded) if before is None else before._servers
        self._groups = groups_of_all(recorded)
        self._costs, self._disks = _costs(recorded, self._groups), _disks(recorded, self._groups)
        self._behind = Behind(recorded, self._groups)
        # by whether clients wait for their replies
        self._networks: dict[bool, Network] = {}

    @property
    def _chosen(self) -> Copies | None:
        return self._copies if self.choice.is_by_load else None

    def answer(
        self, sizes: dict[Place, int] | None, *, policy: str = "lru", on: str | None, closed: bool
    ) -> Answer:
        """Response times and demands, with caches of these sizes; with None those of the record itself.

        Where clients wait for their replies (`closed`), they pass each other after the change: caches run again with the
        order that the response times give, some times.

        Raises:
            SimulationError: the device file of disks is wrong.
            TrailError: a hit is to be a miss, and the record has no miss to say what that costs.
        """
        recorded = self.recorded
        demand: dict[tuple[str | None, str], Use] = {}
        if sizes is None:
            mains = ((crumb.key, crumb.main) for crumb in recorded.requests)
            times = {key: float(main.end - main.ts) for key, main in mains if main and main.end is not None}
            _add_recorded(demand, recorded, None)
            return Answer(times, demand, None, 0)
        base = self._network(closed)
        order: dict[int, float] = {}
        for _ in range(_ROUNDS if closed else 1):
            outcome = run(recorded, self.caches, self._groups, self._behind, sizes, policy, order)
            network, demand = base.copy(), {}
            _leave_out(network, outcome)
            _fetch(network, outcome, self._costs, self._disks, demand, self._chosen)
            done = network.run(on, self._servers)
            order = network.order(done)
        _add_recorded(demand, recorded, outcome)
        responses = network.responses(done)
        return Answer(responses, demand, outcome, len(network.requests) - len(responses))

    def _network(self, closed: bool) -> Network:
        if closed not in self._networks:
            self._networks[closed] = (
                steps.closed(self._network(False)) if closed else steps.build(self.recorded, self._chosen)
            )
        return self._networks[closed]


def _costs(recorded: Recorded, groups: list[Group]) -> dict[Place, Cost]:
    found: dict[Place, list[tuple[float, float, float, float]]] = defaultdict(list)
    for group in groups:
        missed = group.missed
        ends = [use.end for use in group.disks]
        ends += [call.main.end for call in group.calls if call.main is not None and call.main.end is not None]
        if not missed or not ends:
            continue
        below = [crumb for call in group.calls for crumb in recorded.below(call)]
        disk_ns = sum(use.end - use.ts for use in group.disks)
        disk_ns += sum(use.end - use.ts for crumb in below for use in crumb.disks)
        local = max(ends) - max(access.ts for access in group.accesses if access.ts <= max(ends)) - disk_ns
        found[group.accesses[0].place].append(
            (
                max(local, 0),
                sum(crumb.cpu_ns for crumb in below),
                sum(crumb.messages for crumb in below),
                sum(crumb.network_bytes for crumb in below) / missed,
            )
        )
    # a cache that never missed has the costs of the like on other machines
    alike: dict[tuple[str, str], list[tuple[float, float, float, float]]] = defaultdict(list)
    for (_, component, cache), each in found.items():
        alike[component, cache] += each
    costs = {}
    for place in {group.accesses[0].place for group in groups}:
        if known := found.get(place) or alike.get(place[1:]):
            local, cpu, messages, sent = np.mean(known, axis=0)
            costs[place] = Cost(int(local), cpu, messages, sent)
    return costs


def _disks(recorded: Recorded, groups: list[Group]) -> _Disks:
    found = _Disks()
    reads: dict[Disk, list[int]] = defaultdict(list)
    all_of: dict[Disk, list[int]] = defaultdict(list)
    uses: dict[str, Counter[Disk]] = defaultdict(Counter)
    for crumb in recorded.crumbs.values():
        for use in crumb.disks:
            disk = use.node, use.dev
            uses[use.node][disk] += 1
            all_of[disk].append(use.end - use.issued)
            if use.op == "read":
                reads[disk].append(use.end - use.issued)
            if use.length:
                found.places.setdefault(disk, []).append(use.pos)
    everywhere = [time for each in reads.values() for time in each]
    for disk, times in all_of.items():
        # of a disk that read nothing what the others' reads take, or else what it does
        found.service_ns[disk] = int(np.mean(reads.get(disk) or everywhere or times))
    for group in groups:
        place = group.accesses[0].place
        if group.disks:
            found.disk[place] = group.disks[0].node, group.disks[0].dev
        elif place[0] in uses:
            found.disk.setdefault(place, uses[place[0]].most_common(1)[0][0])
    return found


def _leave_out(network: Network, outcome: Outcome) -> None:
    for key in outcome.dropped:
        for number in network.of_crumb.get(key, ()):
            network.delay[number], network.work[number] = 0, None
    for crumb in network.recorded.crumbs.values():
        share = outcome.scale.get(crumb.key, 1.0)
        for use in crumb.disks:
            number = network.of_disk.get(id(use), -1)
            work = network.work[number] if number >= 0 else None
            if work is None:
                continue
            of_disk = share * outcome.scale_disks.get(id(use), 1.0)
            if id(use) in outcome.dropped_disks:
                network.work[number] = None
            elif of_disk != 1 and work.length:
                length = max(_SECTOR, round(work.length * of_disk / _SECTOR) * _SECTOR)
                network.work[number] = replace(work, length=length)


def _fetch(
    network: Network,
    outcome: Outcome,
    costs: dict[Place, Cost],
    disks: _Disks,
    demand: dict[tuple[str | None, str], Use],
    copies: Copies | None,
) -> None:
    """Make the fetches that the record doesn't have: each before the access that waits for it."""
    from_disk = {id(made.access): made for made in outcome.made if made.behind is None}
    for made in outcome.made:
        number = network.of_access.get(id(made.access))
        if number is None:
            # one level further on: part of the fetch that it is made for
            continue
        cost = costs.get(made.cache)
        if cost is None:
            node, component, _ = made.cache
            raise TrailError(
                f"nothing in the record says what a miss of {component} on {node} costs",
                "it never missed; record with a smaller cache, or ask for a larger one",
            )
        done = network.done[number]
        after = [network.append(network.after[number], network.delay[number] + cost.local_ns // 2, done)]
        read = made if made.behind is None else from_disk.get(id(made.there))
        if read is not None:
            disk = disks.disk.get(read.cache)
            if disk is not None and (places := disks.places.get(disk)):
                pos = places[(read.access.pos // 4096 + read.access.file) % len(places)]
                work = Work(disk, "read", pos, read.missed, disks.service_ns.get(disk, 0))
                if copies is not None:
                    work.others = copies.others(disk[0], read.access.file, read.access.pos)
                after = [network.append(after, 0, done, work)]
                _bill(network.recorded, made, disk[0], demand, work, None)
        network.after[number], network.delay[number] = after, cost.local_ns - cost.local_ns // 2
        _bill(network.recorded, made, made.cache[0], demand, None, cost)


def _bill(
    recorded: Recorded,
    made: Made,
    node: str,
    demand: dict[tuple[str | None, str], Use],
    work: Work | None,
    cost: Cost | None,
) -> None:
    use = Use()
    if work is not None:
        use = Use(disk_requests=1, disk_bytes=work.length, disk_ns=work.service_ns)
    if cost is not None:
        use.cpu_ns += cost.cpu_ns
        use.network_bytes += cost.network_bytes_per_byte * made.missed
    for client, part in recorded.clients_of(made.access.key):
        demand.setdefault((client, node), Use()).add(use, part)


def _add_recorded(
    demand: dict[tuple[str | None, str], Use], recorded: Recorded, outcome: Outcome | None
) -> None:
    """Add what the record has, without what caches make needless."""
    for crumb in recorded.crumbs.values():
        if outcome is not None and crumb.key in outcome.dropped:
            continue
        share = 1.0 if outcome is None else outcome.scale.get(crumb.key, 1.0)
        uses = [(crumb.node, Use(network_bytes=crumb.network_bytes * share, cpu_ns=crumb.cpu_ns))]
        for disk in crumb.disks:
            if outcome is None or id(disk) not in outcome.dropped_disks:
                of_disk = share if outcome is None else share * outcome.scale_disks.get(id(disk), 1.0)
                uses.append((disk.node, Use(1, disk.length * of_disk, disk.end - disk.issued)))
        for client, part in recorded.clients_of(crumb.key):
            for node, use in uses:
                demand.setdefault((client, node), Use()).add(use, part)


@dataclass(slots=True)
class Reads:
    """Bytes that were read through a cache, and those of them that it missed."""

    read: float = 0
    missed: float = 0

    @property
    def hit_share(self) -> float | None:
        """Share that it held; None if nothing was read."""
        return 1 - self.missed / self.read if self.read else None


def reads_of(
    recorded: Recorded, caches: list[Cache], outcome: Outcome | None
) -> dict[tuple[Place, str | None], Reads]:
    """What was read, by cache and client (None: of all)."""
    found: dict[tuple[Place, str | None], Reads] = defaultdict(Reads)
    for cache in caches:
        for access in cache.accesses:
            if access.kind not in READS:
                continue
            if outcome is None:
                missed = access.length if access.kind == "read_miss" else 0
            elif id(access) in outcome.missed:
                missed = outcome.missed[id(access)]
            else:
                continue
            _read(found, recorded, cache.place, access, access.length, missed)
    for made in outcome.made if outcome is not None else ():
        if made.there is not None and made.behind is not None and outcome is not None:
            missed = outcome.missed.get(id(made.there), 0)
            _read(found, recorded, made.behind, made.there, made.there.length, missed)
    return dict(found)


def _read(
    found: dict[tuple[Place, str | None], Reads],
    recorded: Recorded,
    place: Place,
    access: Access,
    read: int,
    missed: int,
) -> None:
    clients = [(client, part) for client, part in recorded.clients_of(access.key) if client is not None]
    for client, part in [(None, 1.0), *clients]:
        reads = found[place, client]
        reads.read += part * read
        reads.missed += part * missed

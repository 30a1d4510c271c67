"""A trail of requests as Python objects: breadcrumbs with what they passed, on one line of time.

Clocks of machines are set to that of the machine with most requests, by the least differences that their calls allow
(module clock_offset); the middle of the interval counts.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from iotrail.errors import TrailError
from iotrail.requests import clocks
from iotrail.trail import Trail

Key = tuple[str, int]

_BATCH = 1 << 16


@dataclass(slots=True)
class Service:
    """One `service_op`. Times in ns on the common line; `end` None where it has none."""

    ts: int
    end: int | None
    node: str
    thread: int | None
    kind: str
    component: str
    op: str
    client: str | None
    file: int | None
    pos: int | None
    length: int | None


@dataclass(slots=True)
class Access:
    """One `buffer_op` of a place in a file. `key` is its breadcrumb."""

    ts: int
    key: Key
    node: str
    component: str
    cache: str
    kind: str
    file: int
    pos: int
    length: int

    @property
    def place(self) -> tuple[str, str, str]:
        """Which cache: its machine, component and name."""
        return self.node, self.component, self.cache


@dataclass(slots=True)
class DiskUse:
    """One request to a disk that was completed."""

    ts: int
    issued: int
    end: int
    node: str
    dev: str
    op: str
    pos: int
    length: int


@dataclass(slots=True)
class Crumb:
    """A breadcrumb and what it passed."""

    key: Key
    # where it happens: of its key, until a change moves it
    node: str = ""
    services: list[Service] = field(default_factory=list)
    accesses: list[Access] = field(default_factory=list)
    disks: list[DiskUse] = field(default_factory=list)
    parents: list["Crumb"] = field(default_factory=list)
    # those that work for it alone or with others
    children: list["Crumb"] = field(default_factory=list)
    # what it is; see settle
    main: Service | None = None
    network_bytes: int = 0
    messages: int = 0
    cpu_ns: int = 0

    def __post_init__(self) -> None:
        self.node = self.node or self.key[0]

    @property
    def begins(self) -> list[int]:
        """When what it passed began, in no order."""
        services, accesses, disks = self.services, self.accesses, self.disks
        return [
            *(each.ts for each in services),
            *(each.ts for each in accesses),
            *(each.ts for each in disks),
        ]

    def settle(self) -> None:
        """Say what it is: its serving, or its own work, or its call."""
        order = {"server": 0, "internal": 1, "client": 2}
        self.main = min(self.services, key=lambda each: (order[each.kind], each.ts), default=None)


@dataclass(slots=True)
class Recorded:
    """What a trail holds of a system."""

    crumbs: dict[Key, Crumb]
    # requests of clients, in the order of their arrivals
    requests: list[Crumb]
    # of client, for each breadcrumb: who owes which part of it
    shares: dict[Key, list[tuple[str | None, float]]]
    evictions: list[Access]
    # whether the kernel said what CPU time was: what programs post of it has their waits in it
    knows_cpu: bool
    start: int
    # what an answer doesn't rest on: records that can't be placed, requests without a reply, what the recorder lost
    left_out: dict[str, int]

    def below(self, crumb: Crumb) -> Iterator[Crumb]:
        """A breadcrumb and all that work for it."""
        seen = {crumb.key}
        waiting = [crumb]
        while waiting:
            at = waiting.pop()
            yield at
            for child in at.children:
                if child.key not in seen:
                    seen.add(child.key)
                    waiting.append(child)

    def clients_of(self, key: Key) -> list[tuple[str | None, float]]:
        """Who owes a breadcrumb's cost, and which part of it each."""
        return self.shares.get(key) or [(None, 1.0)]


def read(trail: Trail) -> Recorded:
    """Read the requests of a trail and all that works for them.

    Raises:
        TrailError: it holds no requests, or only a part of them: a sample, or rollups.
    """
    [[sampled]] = trail.query("SELECT COUNT(*) FILTER (WHERE weight <> 1) FROM service_op").fetchall()
    if sampled:
        raise TrailError(
            f"{trail.path}: holds a sample of the requests",
            "what others did at the same time isn't known then; collect all of them",
        )
    [[pruned]] = trail.query("SELECT COALESCE(SUM(n), 0) FROM pruned").fetchall()
    if pruned:
        raise TrailError(
            f"{trail.path}: {pruned:,} records were replaced by rollups",
            "which caches and disks a request used isn't known then; ask a trail that wasn't pruned",
        )
    shift = _shifts(trail)
    crumbs: dict[Key, Crumb] = {}

    def of(node: str, number: int) -> Crumb:
        key = node, number
        found = crumbs.get(key)
        if found is None:
            found = crumbs[key] = Crumb(key)
        return found

    left_out: dict[str, int] = defaultdict(int)
    evictions: list[Access] = []
    for node, number, *rest in _rows(
        trail,
        "SELECT node, crumb, ts, dur, thread, kind, component, op, client, file, pos, length FROM service_op "
        "WHERE crumb <> 0 AND kind <> 'event' ORDER BY ts",
    ):
        ts, dur, thread, kind, component, op, client, file, pos, length = rest
        ts += shift.get(node, 0)
        end = None if dur is None else ts + dur
        of(node, number).services.append(
            Service(ts, end, node, thread, kind, component, op, client, file, pos, length)
        )
    for node, number, *rest in _rows(
        trail,
        "SELECT node, crumb, ts, component, cache, kind, file, pos, length FROM buffer_op "
        "WHERE kind <> 'flush' ORDER BY ts",
    ):
        ts, component, cache, kind, file, pos, length = rest
        if file is None or pos is None or length is None:
            left_out["accesses to caches without a place"] += 1
            continue
        ts += shift.get(node, 0)
        access = Access(ts, (node, number), node, component, cache, kind, file, pos, length)
        (evictions if kind == "evict" else of(node, number).accesses).append(access)
    for node, number, *rest in _rows(
        trail,
        "SELECT d.node, d.crumb, d.ts, d.issued, d.dur, d.dev, d.op, d.pos, d.length FROM disk_op AS d "
        "WHERE COALESCE(d.merged, 0) = 0 AND (d.kind = 'kernel' OR NOT EXISTS (FROM disk_twice AS k WHERE "
        "k.node = d.node AND k.dev = d.dev)) ORDER BY d.ts",
    ):
        ts, issued, dur, dev, op, pos, length = rest
        if dur is None:
            left_out["requests to disks that never completed"] += 1
            continue
        by = shift.get(node, 0)
        issued = ts if issued is None else issued
        of(node, number).disks.append(
            DiskUse(ts + by, issued + by, ts + dur + by, node, dev, op, pos or 0, length or 0)
        )
    for node, number, n, sent in _rows(
        trail,
        "SELECT node, crumb, COUNT(*), CAST(SUM(length) AS BIGINT) FROM network_transmit GROUP BY node, crumb",
    ):
        crumb = of(node, number)
        crumb.messages, crumb.network_bytes = n, sent or 0
    [[knows_cpu]] = trail.query(
        "SELECT COUNT(time_ns) > 0 AND COUNT(*) = COUNT(time_ns) FROM resource_use WHERE resource = 'cpu'"
    ).fetchall()
    for node, number, spent in _rows(
        trail,
        "SELECT node, crumb, CAST(SUM(time_ns) AS BIGINT) FROM resource_use WHERE resource = 'cpu' GROUP BY node, crumb",
    ):
        of(node, number).cpu_ns = spent or 0
    for node, number, parent_node, parent in _rows(
        trail, "SELECT node, crumb, parent_node, parent_crumb FROM crumb_parent"
    ):
        child, above = crumbs.get((node, number)), crumbs.get((parent_node, parent))
        if child is not None and above is not None and child is not above:
            child.parents.append(above)
            above.children.append(child)
    for crumb in crumbs.values():
        crumb.settle()
    shares: dict[Key, list[tuple[str | None, float]]] = defaultdict(list)
    for node, number, client, part in _rows(
        trail,
        "SELECT node, crumb, client, CAST(SUM(hi - lo) AS DOUBLE) / 1073741824 FROM share GROUP BY node, crumb, client",
    ):
        shares[node, number].append((client, part))
    requests = [
        crumb
        for key, crumb in crumbs.items()
        if key[1] != 0 and not crumb.parents and (main := crumb.main) is not None and main.client is not None
    ]
    if not requests:
        raise TrailError(
            f"{trail.path}: no requests of clients",
            "programs post them by the SDK (docs/sdk.md), agents collect those of Ceph and OpenTelemetry",
        )
    requests.sort(key=lambda crumb: crumb.services[0].ts)
    if unanswered := sum(crumb.main is not None and crumb.main.end is None for crumb in requests):
        left_out["requests without a reply, whose response times aren't known"] = unanswered
    for kind, amount, detail in _rows(trail, "SELECT kind, amount, detail FROM loss ORDER BY kind"):
        left_out[detail or kind] = amount
    start = min(ts for crumb in crumbs.values() for ts in crumb.begins)
    return Recorded(crumbs, requests, dict(shares), evictions, knows_cpu, start, dict(left_out))


def _rows(trail: Trail, query: str) -> Iterator[tuple]:  # type: ignore[type-arg]
    relation = trail.query(query)
    with trail.errors(query):
        for batch in relation.to_arrow_reader(_BATCH):
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _shifts(trail: Trail) -> dict[str, int]:
    """What to add to each machine's times to have them on the clock of the machine that calls most."""
    first = trail.rows_of("SELECT node FROM clock_offset GROUP BY node ORDER BY SUM(n) DESC, node LIMIT 1")
    if not first:
        return {}
    reached = clocks.placed(clocks.of_trail(trail), first[0]["node"])
    return {node: offset.shift for node, offset in reached.items()}

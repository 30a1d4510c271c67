"""What waits for what: the points that requests passed as steps, run on disks in virtual time.

A step is a point of a breadcrumb: an end of a service, an access to a cache, a request to a disk. It is ready as long after
the last of what it waits for as in the record. Rules, as of a latency graph (docs/requests.md, "Points and edges"):

- A point waits for the point before it in its breadcrumb, for requests to disks that were done between them, and for
  breadcrumbs below that replied between them.
- A breadcrumb begins after the point of its parent before it, and after what that had waited for by then.
- Work of another breadcrumb on a service's own thread, within it, is waited for: a commit's flush of others' writes.
- A request arrives as long after the last reply to its client as in the record (`closed`), or at its time.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from iotrail.whatif.simulator import simulate_rows
from iotrail.whatif.system.copies import Copies
from iotrail.whatif.system.recorded import Crumb, Key, Recorded

Times = tuple[NDArray[np.float64], NDArray[np.float64]]
Disk = tuple[str, str]

_OPS = {"read": 0, "write": 1, "flush": 2, "discard": 3}


@dataclass(slots=True)
class Work:
    """What a step asks of a disk."""

    disk: Disk
    op: str
    pos: int
    length: int
    service_ns: int
    # disks of which the least busy is asked instead
    others: list[Disk] = field(default_factory=list)


@dataclass(slots=True)
class Network:
    """Steps, by number, and where in them the breadcrumbs are. What lists hold is replaced, never changed in place."""

    recorded: Recorded
    # what a step waits for, how long after that it is ready (ns), what it asks of a disk then
    after: list[list[int]] = field(default_factory=list)
    delay: list[int] = field(default_factory=list)
    work: list[Work | None] = field(default_factory=list)
    # when it was done in the record, on the common line of time
    done: list[int] = field(default_factory=list)
    # first step and reply of each breadcrumb that has points, and all its steps
    span: dict[Key, tuple[int, int]] = field(default_factory=dict)
    of_crumb: dict[Key, list[int]] = field(default_factory=dict)
    # steps of accesses to caches, and of requests to disks, by id
    of_access: dict[int, int] = field(default_factory=dict)
    of_disk: dict[int, int] = field(default_factory=dict)
    # requests in the order of their arrivals, with a reply
    requests: list[tuple[Crumb, int, int]] = field(default_factory=list)

    def append(self, after: list[int], delay: int, done: int, work: Work | None = None) -> int:
        """A new step; its number."""
        self.after.append(after)
        self.delay.append(delay)
        self.work.append(work)
        self.done.append(done)
        return len(self.after) - 1

    def copy(self) -> "Network":
        """The same, to be changed."""
        return replace(
            self, after=list(self.after), delay=list(self.delay), work=list(self.work), done=list(self.done)
        )

    def disks(self) -> list[Disk]:
        """Disks that steps use."""
        works = [work for work in self.work if work is not None]
        return sorted({disk for work in works for disk in (work.disk, *work.others)})

    def responses(self, times: Times) -> dict[Key, float]:
        """Response time of each request in ns."""
        ready, done = times
        return {
            crumb.key: float(done[reply] - ready[arrival])
            for crumb, arrival, reply in self.requests
            if not np.isnan(done[reply])
        }

    def order(self, times: Times) -> dict[int, float]:
        """When accesses to caches happen, by id."""
        _, done = times
        return {
            access: self.recorded.start + float(done[step])
            for access, step in self.of_access.items()
            if not np.isnan(done[step])
        }

    def run(self, on: str | None, servers: dict[Disk, int]) -> Times:
        """When each step is ready and done, in ns from the start of the record; NaN what waits for itself.

        Raises:
            SimulationError: the device file is wrong, or too small.
        """
        numbers = {disk: at for at, disk in enumerate(self.disks())}
        works = self.work
        columns = {
            "delay": pa.array(self.delay, pa.int64()),
            "after": pa.array(self.after, pa.list_(pa.int64())),
            "disk": pa.array([None if work is None else numbers[work.disk] for work in works], pa.int64()),
            "op": pa.array([0 if work is None else _OPS.get(work.op, 0) for work in works], pa.int64()),
            "pos": pa.array([0 if work is None else work.pos for work in works], pa.int64()),
            "length": pa.array([0 if work is None else work.length for work in works], pa.int64()),
            "service": pa.array([0 if work is None else work.service_ns for work in works], pa.int64()),
            "others": pa.array(
                [[] if work is None else [numbers[disk] for disk in work.others] for work in works],
                pa.list_(pa.int64()),
            ),
        }
        arguments = ["steps", "--servers", ",".join(str(servers.get(disk, 1)) for disk in numbers) or "1"]
        if on is not None:
            arguments += ["--on", on]
        found = simulate_rows(pa.table(columns), arguments)
        done = found["done"].to_numpy(zero_copy_only=False).astype(np.float64)
        ready = found["ready"].to_numpy(zero_copy_only=False).astype(np.float64)
        return ready, done


def servers(recorded: Recorded) -> dict[Disk, int]:
    """How many requests each disk served at once at most: its queue is taken for one in the order of arrival."""
    moments: dict[Disk, list[tuple[int, int]]] = defaultdict(list)
    for crumb in recorded.crumbs.values():
        for disk in crumb.disks:
            if disk.end > disk.issued:
                moments[disk.node, disk.dev] += [(disk.issued, 1), (disk.end, -1)]
    most = {}
    for name, changes in moments.items():
        changes.sort()
        most[name] = int(np.max(np.cumsum([change for _, change in changes])))
    return most


def build(recorded: Recorded, copies: Copies | None) -> Network:
    """The steps of all breadcrumbs; requests arrive at their times. With `copies` the least busy one is read."""
    network = Network(recorded)
    nested = _waited_for(recorded)
    order = _Order(recorded, nested)
    events = [_own(crumb) for crumb in order.crumbs]
    for crumb, own in zip(order.crumbs, events, strict=True):
        _points(network, crumb, own, copies)
    for crumb, own in zip(order.crumbs, events, strict=True):
        _wait(network, crumb, own, order)
    for crumb in recorded.requests:
        if crumb.key in network.span:
            first, reply = network.span[crumb.key]
            if crumb.main is not None and crumb.main.end is not None and first != reply:
                network.requests.append((crumb, first, reply))
    for step in range(len(network.after)):
        _delay(network, step)
    return network


def closed(network: Network) -> Network:
    """The same steps, where a request arrives after the last reply to its client."""
    network = network.copy()
    replies: dict[str | None, list[tuple[int, int]]] = defaultdict(list)
    for crumb, _, reply in network.requests:
        assert crumb.main is not None
        replies[crumb.main.client].append((network.done[reply], reply))
    for ends in replies.values():
        ends.sort()
    for crumb, first, reply in network.requests:
        assert crumb.main is not None
        ends = replies[crumb.main.client]
        before = bisect_right(ends, (network.done[first], first)) - 1
        while before >= 0 and ends[before][1] >= reply:
            before -= 1
        if before >= 0:
            network.after[first] = [*network.after[first], ends[before][1]]
            _delay(network, first)
    return network


def _delay(network: Network, step: int) -> None:
    """Say how long after what it waits for a step is ready."""
    done = network.done
    before = max((done[at] for at in network.after[step]), default=network.recorded.start)
    network.delay[step] = 0 if network.work[step] is not None else max(0, done[step] - before)


# An event of a breadcrumb: when, its place among those of one moment, how long what holds it is, what it is.
Event = tuple[int, int, int, str, int]


class _Order:
    """What happens at each breadcrumb, in order: its own points, and what works for it."""

    def __init__(self, recorded: Recorded, nested: dict[Key, list[Crumb]]) -> None:
        self.first: dict[Key, int] = {}
        self.last: dict[Key, int | None] = {}
        self.crumbs = [
            crumb
            for crumb in recorded.crumbs.values()
            if crumb.key[1] != 0 and (crumb.services or crumb.accesses or crumb.disks)
        ]
        for crumb in self.crumbs:
            self.first[crumb.key] = min(crumb.begins)
            main = crumb.main
            self.last[crumb.key] = (
                main.end
                if main is not None
                else max((*(use.end for use in crumb.disks), *(use.ts for use in crumb.accesses)))
            )
        self.nested = nested

    def begins(self, crumb: Crumb) -> list[Crumb]:
        """What works for a breadcrumb, or is waited for by it, and has points."""
        below = (*crumb.children, *self.nested.get(crumb.key, ()))
        return [child for child in below if child.key in self.first]


def _own(crumb: Crumb) -> list[Event]:
    events: list[Event] = []
    for at, service in enumerate(crumb.services):
        long = 0 if service.end is None else service.end - service.ts
        events.append((service.ts, 0 if service.kind == "server" else 3, -long, "service", at))
        if service.end is not None:
            place = 5 if service.kind == "server" else 4 if long == 0 else 1
            events.append((service.end, place, long, "end", at))
    events += ((access.ts, 2, 0, "access", at) for at, access in enumerate(crumb.accesses))
    for at, use in enumerate(crumb.disks):
        events.append((use.ts, 3, use.ts - use.end, "queued", at))
        events.append((use.end, 4 if use.end == use.ts else 1, use.end - use.ts, "done", at))
    events.sort()
    return events


def _points(network: Network, crumb: Crumb, own: list[Event], copies: Copies | None) -> None:
    """Make a breadcrumb's steps, that wait for nothing yet."""
    numbers = []
    others = copies.others_of(crumb) if copies is not None and crumb.disks else []
    first = reply = len(network.after)
    main = crumb.main
    for ts, _, _, what, at in own:
        work = None
        if what == "done":
            use = crumb.disks[at]
            work = Work((use.node, use.dev), use.op, use.pos, use.length, use.end - use.issued)
            if use.op == "read":
                work.others = others
        number = network.append([], 0, ts, work)
        numbers.append(number)
        if what == "access":
            network.of_access[id(crumb.accesses[at])] = number
        elif what == "done":
            network.of_disk[id(crumb.disks[at])] = number
        if main is None or (what == "end" and crumb.services[at] is main):
            reply = number
    network.of_crumb[crumb.key] = numbers
    network.span[crumb.key] = first, reply


def _wait(network: Network, crumb: Crumb, own: list[Event], order: _Order) -> None:
    """Say what a breadcrumb's steps wait for, and when what works for it begins."""
    events: list[tuple[int, int, int, str, object]] = []
    numbers = iter(network.of_crumb[crumb.key])
    first_ts, main = order.first[crumb.key], crumb.main
    # what is served elsewhere begins after the call and replies before its return, whatever clocks say
    call = main if main is not None and main.kind == "client" else None
    for at, (ts, place, _, what, of) in enumerate(own):
        # in steps of 10: between them replies come before what begins
        events.append((ts, place * 10, at, what, (next(numbers), of)))
    for child in order.begins(crumb):
        begin, end = order.first[child.key], order.last[child.key]
        if child.key[0] != crumb.key[0] and call is not None:
            begin = max(begin, call.ts)
            if end is not None and call.end is not None:
                end = max(begin, min(end, call.end))
        elif begin < first_ts:
            # seems to begin before its parent, as after a step of the clock: has no place there
            continue
        events.append((begin, 35, 0, "begin", child))
        if end is not None:
            events.append((end, 5 if end > begin else 36, 0, "reply", child))
    events.sort(key=lambda event: event[:3])
    after = network.after
    front: set[int] = set()
    queued: dict[int, int] = {}
    since: dict[Key, frozenset[int]] = {}
    for _, _, _, what, found in events:
        if isinstance(found, Crumb):
            first, reply = network.span[found.key]
            if what == "begin":
                since[found.key] = frozenset(front)
                after[first].extend(at for at in front if at != first)
            else:
                # what it began after is done when it is
                front -= since.get(found.key, frozenset())
                front.add(reply)
            continue
        assert isinstance(found, tuple)
        number, of = found
        if what == "done":
            after[number].append(queued[of])
            front.discard(queued[of])
            front.add(number)
            continue
        after[number].extend(front)
        front = {number}
        if what == "queued":
            queued[of] = number


def _waited_for(recorded: Recorded) -> dict[Key, list[Crumb]]:
    """Breadcrumbs whose own work was done on the thread of a service, within it, though they don't work for it."""
    by_thread: dict[tuple[str, int], list[tuple[int, int, str, Crumb]]] = defaultdict(list)
    for crumb in recorded.crumbs.values():
        main = crumb.main
        if main is not None and main.thread is not None and main.end is not None:
            by_thread[main.node, main.thread].append((main.ts, main.end, main.kind, crumb))
    nested: dict[Key, list[Crumb]] = defaultdict(list)
    for services in by_thread.values():
        services.sort(key=lambda each: (each[0], -each[1]))
        around: list[tuple[int, Crumb]] = []
        for _, end, kind, crumb in services:
            while around and around[-1][0] < end:
                around.pop()
            if kind == "internal" and around and around[-1][1] not in crumb.parents:
                nested[around[-1][1].key].append(crumb)
            if kind != "client":
                around.append((end, crumb))
    return dict(nested)


def mean_by_client(
    recorded: Recorded, responses: dict[Key, float], only: Iterable[str] = ()
) -> dict[str, tuple[int, float]]:
    """Requests of each client, and their mean response time in ns."""
    times: dict[str, list[float]] = defaultdict(list)
    for crumb in recorded.requests:
        if crumb.key in responses and crumb.main is not None and crumb.main.client is not None:
            times[crumb.main.client].append(responses[crumb.key])
    kept = {client: (len(each), float(np.mean(each))) for client, each in sorted(times.items())}
    names = set(only)
    return {client: found for client, found in kept.items() if not names or client in names}

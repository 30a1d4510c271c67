"""Changes to a system, made to a reading of its record: whose data is where, and in how many copies.

A file is a client's if at least half of what was done with it was for that client.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

from iotrail.errors import UsageError
from iotrail.whatif.system.copies import REGION, About, storage_nodes
from iotrail.whatif.system.recorded import Crumb, DiskUse, Key, Recorded

# What is asked of a machine: operation, file, offset, length.
_Asked = tuple[str, int, int | None, int | None]


def nodes_of(recorded: Recorded, client: str) -> list[str]:
    """Machines that hold a client's files.

    Raises:
        UsageError: there is no such client, or it has no files.
    """
    files = files_of(recorded, client)
    nodes = set(storage_nodes(recorded))
    about = About(recorded)
    return sorted(
        {
            crumb.node
            for crumb in recorded.crumbs.values()
            if crumb.node in nodes and about.file(crumb) in files
        }
    )


def files_of(recorded: Recorded, client: str) -> set[int]:
    """A client's files.

    Raises:
        UsageError: there is no such client, or it has no files.
    """
    clients = sorted({crumb.main.client for crumb in recorded.requests if crumb.main and crumb.main.client})
    if client not in clients:
        raise UsageError(f"no client {client}", f"clients of this trail are {', '.join(clients)}")
    used: dict[int, Counter[str | None]] = defaultdict(Counter)
    about = About(recorded)
    for crumb in recorded.crumbs.values():
        if (file := about.file(crumb)) is not None:
            for name, part in recorded.clients_of(crumb.key):
                used[file][name] += part  # type: ignore[assignment]
    files = {
        file
        for file, by in used.items()
        if 2 * by[client] >= sum(part for name, part in by.items() if name is not None) > 0
    }
    if not files:
        raise UsageError(f"nothing in the trail says which files are {client}'s")
    return files


def move(recorded: Recorded, client: str, to: Mapping[str, str]) -> int:
    """Move a client's files from machines to others. Returns how many files that are.

    Raises:
        UsageError: no such client, a machine that holds no data, or none of the client's files there.
    """
    files = files_of(recorded, client)
    nodes = storage_nodes(recorded)
    for name in (*to, *to.values()):
        if name not in nodes:
            raise UsageError(f"no storage node {name}", f"storage nodes of this trail are {', '.join(nodes)}")
    about = About(recorded)
    disks = _Disks(recorded)
    moved = set()
    for crumb in recorded.crumbs.values():
        file = about.file(crumb)
        if crumb.node in to and file in files:
            moved.add(file)
            _place(crumb, to[crumb.node], disks)
    if not moved:
        raise UsageError(
            f"no files of {client} on {', '.join(to)}",
            f"its files are on {', '.join(nodes_of(recorded, client))}",
        )
    return len(moved)


def encode(recorded: Recorded, client: str, copies: int) -> tuple[int, set[int]]:
    """Keep so many copies of each of a client's files. Returns how many files, and how many copies they had.

    Copies of a file are on neighbours in the order of the machines' names, round; a copy that goes is the last of them, a new
    one is on the next machine. Everything but reads goes to all copies; reads of each MiB of a file to one of them.

    Raises:
        UsageError: no such client, or not so many machines.
    """
    files = files_of(recorded, client)
    nodes = storage_nodes(recorded)
    if not 1 <= copies <= len(nodes):
        raise UsageError(f"--copies: expected 1 to {len(nodes)}, as many as storage nodes, found {copies}")
    about = About(recorded)
    disks = _Disks(recorded)
    # calls of storage nodes, by the one who makes them and what they are about
    calls: dict[Key, dict[_Asked, list[tuple[Crumb, Crumb]]]] = defaultdict(lambda: defaultdict(list))
    holders: dict[int, set[str]] = defaultdict(set)
    for crumb in list(recorded.crumbs.values()):
        for call in crumb.children:
            main = call.main
            served = next(
                (child for child in call.children if child.node in nodes and child.node != call.node), None
            )
            if main is None or main.kind != "client" or served is None:
                continue
            file = about.file(call)
            if file is None or file not in files:
                continue
            calls[crumb.key][main.op, file, main.pos, main.length].append((call, served))
            holders[file].add(served.node)
    wanted = {file: _copies(held, nodes, copies) for file, held in holders.items()}
    before = {len(held) for held in holders.values()}
    next_number = -1
    for key, groups in calls.items():
        parent = recorded.crumbs[key]
        for (op, file, pos, _), group in groups.items():
            held, now = holders[file], wanted[file]
            if "read" in op.lower():
                for _, served in group:
                    _place_read(recorded, served, held, now, (file, pos), disks)
                continue
            there = {served.node: (call, served) for call, served in group}
            # what went to all copies goes to all copies
            if set(there) >= held:
                for node in now:
                    if node not in there:
                        call, served = next(iter(there.values()))
                        next_number = _clone(recorded, parent, call, served, node, next_number, disks)
            for node in set(there) - set(now):
                _drop(recorded, parent, there[node][0])
    return len(wanted), before


def _copies(held: Iterable[str], nodes: list[str], copies: int) -> list[str]:
    """Where copies are: from the one whose neighbour before it has none."""
    at = {nodes.index(node) for node in held}
    first = min((place for place in at if (place - 1) % len(nodes) not in at), default=min(at))
    return [nodes[(first + number) % len(nodes)] for number in range(copies)]


def _place_read(
    recorded: Recorded,
    served: Crumb,
    held: set[str],
    now: list[str],
    region: tuple[int, int | None],
    disks: "_Disks",
) -> None:
    file, pos = region
    turn = file * 0x9E3779B1 + (pos or 0) // REGION
    new = [node for node in now if node not in held]
    node = served.node
    if node not in now:
        node = now[turn % len(now)]
    elif new and (at := turn % len(now)) < len(new):
        node = new[at]
    if node != served.node:
        for crumb in recorded.below(served):
            _place(crumb, node, disks)


def _place(crumb: Crumb, node: str, disks: "_Disks") -> None:
    for access in crumb.accesses:
        access.node = node
    for use in crumb.disks:
        disks.move(use, node)
    crumb.node = node


def _drop(recorded: Recorded, parent: Crumb, call: Crumb) -> None:
    for crumb in list(recorded.below(call)):
        recorded.crumbs.pop(crumb.key, None)
    parent.children = [child for child in parent.children if child is not call]


def _clone(
    recorded: Recorded, parent: Crumb, call: Crumb, served: Crumb, node: str, number: int, disks: "_Disks"
) -> int:
    """Make a call once more, to another machine. Returns the next free number of a breadcrumb."""
    here = {crumb.key for crumb in recorded.below(served)}
    copies: dict[Key, Crumb] = {}
    for crumb in list(recorded.below(call)):
        copy = Crumb((crumb.key[0], number), crumb.node)
        number -= 1
        copy.services = [replace(service) for service in crumb.services]
        copy.settle()
        copy.accesses = [replace(access, key=copy.key) for access in crumb.accesses]
        copy.disks = [replace(use) for use in crumb.disks]
        copy.network_bytes, copy.messages, copy.cpu_ns = crumb.network_bytes, crumb.messages, crumb.cpu_ns
        if crumb.key in here:
            _place(copy, node, disks)
        copies[crumb.key] = recorded.crumbs[copy.key] = copy
        recorded.shares[copy.key] = recorded.shares.get(crumb.key, [])
    for key, copy in copies.items():
        original = recorded.crumbs[key]
        copy.children = [copies[child.key] for child in original.children if child.key in copies]
        copy.parents = [copies.get(above.key, above) for above in original.parents]
    parent.children.append(copies[call.key])
    return number


class _Disks:
    """Disks of machines, and where on them there is room."""

    def __init__(self, recorded: Recorded) -> None:
        devs: dict[str, Counter[str]] = defaultdict(Counter)
        self._end: dict[tuple[str, str], int] = defaultdict(int)
        for crumb in recorded.crumbs.values():
            for use in crumb.disks:
                devs[use.node][use.dev] += 1
                self._end[use.node, use.dev] = max(self._end[use.node, use.dev], use.pos + use.length)
        self._dev = {node: counts.most_common(1)[0][0] for node, counts in devs.items()}
        # of each disk that moves to another: where it begins there
        self._base: dict[tuple[str, str, str], int] = {}

    def move(self, use: DiskUse, node: str) -> None:
        """A request goes to a machine's disk, behind all that is there, in the same order."""
        if use.node == node:
            return
        dev = self._dev[node]
        key = (use.node, use.dev, node)
        if key not in self._base:
            self._base[key] = self._end[node, dev]
            self._end[node, dev] += self._end[use.node, use.dev]
        use.pos += self._base[key]
        use.node, use.dev = node, dev

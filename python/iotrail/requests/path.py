"""The causal path of a request: its breadcrumbs as a tree, their records, and the holes in what was recorded.

Few rows each: a path is what a person looks at. Records are those of module `record`, who works for whom is module
`crumb_parent`; nothing is ordered across clocks but by it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from iotrail.requests import walk
from iotrail.requests.walk import Key
from iotrail.trail import Trail

# What stands for a breadcrumb: its serving, or else its own work, or else its call.
_KINDS = ("server", "internal", "client")
WHOLE = 1 << 30


@dataclass(frozen=True)
class Record:
    """One row of module `record`: times in ns on the clock of its node, lengths in bytes."""

    ts: int
    dur: int | None
    component: str | None
    record: str
    kind: str
    name: str | None
    place: str | None
    client: str | None
    status: int | None
    length: int | None
    issued: int | None
    # of dur on a CPU; None unknown, or no row of cpu_slice
    cpu_ns: int | None
    # name of the process that did it: of a cluster's daemon its member name; None unknown
    process: str | None


@dataclass
class Crumb:
    """A breadcrumb on the path: what it works for, its records by time, and those that work for it."""

    node: str
    crumb: int
    # How it is stitched to what it works for; None the request itself.
    stitched: str | None
    # The part of its cost that is that one's, of 2^30.
    part: int
    # It is on another machine than what it works for.
    across: bool = False
    # It was shown before: it works for several of this path. Its records and children are there.
    again: bool = False
    records: list[Record] = field(default_factory=list)
    children: list["Crumb"] = field(default_factory=list)
    holes: list[str] = field(default_factory=list)
    # a call of what nobody ever recorded the serving of: a database, say, without instruments
    leaf: bool = False

    @property
    def main(self) -> Record | None:
        """The record that stands for it: its first serving, its own work or its call; None if it has none."""
        operations = [r for r in self.records if r.record == "service_op" and r.kind in _KINDS]
        return min(operations, key=lambda r: (_KINDS.index(r.kind), r.ts), default=None)

    @property
    def process(self) -> str | None:
        """Who worked on it; None unknown."""
        return next((r.process for r in ([self.main] if self.main else []) + self.records if r.process), None)

    @property
    def start(self) -> int | None:
        """Its first moment; None if nothing was recorded."""
        return min((r.ts for r in self.records), default=None)

    @property
    def arrived(self) -> int | None:
        """When the request came here: its operation's begin, which CPU time spent on the way to it may precede."""
        return self.main.ts if self.main is not None else self.start

    @property
    def end(self) -> int | None:
        """Its last moment; None if nothing was recorded."""
        return max((r.ts + (r.dur or 0) for r in self.records), default=None)

    @property
    def key(self) -> Key:
        """Node and breadcrumb."""
        return self.node, self.crumb


@dataclass(frozen=True)
class Path:
    """A request and all below it."""

    root: Crumb
    # All breadcrumbs once, the request first.
    crumbs: tuple[Crumb, ...]

    @property
    def holes(self) -> list[str]:
        """What is missing, each with the breadcrumb it concerns."""
        return [f"{name(crumb.key)}: {hole}" for crumb in self.crumbs for hole in crumb.holes]


def name(key: Key) -> str:
    """A breadcrumb as messages name it."""
    return f"{key[1]} on {key[0]}"


def paths(trail: Trail, roots: Sequence[Key]) -> list[Path]:
    """The paths of these breadcrumbs, in their order. Narrows the trail to them."""
    nodes = ", ".join("'" + node.replace("'", "''") + "'" for node, _ in roots)
    crumbs = ", ".join(str(crumb) for _, crumb in roots)
    walk.down(trail, f"SELECT unnest([{nodes}]) AS node, unnest([{crumbs}]) AS crumb")
    walk.keep(trail)
    records: dict[Key, list[Record]] = {}
    for row in trail.query(
        "SELECT r.node, r.crumb, r.ts, r.dur, r.component, r.record, r.kind, r.name, r.place, r.client, r.status, "
        "r.length, r.issued, r.cpu_ns, n.process FROM record AS r "
        # a thread may be told of more than once, by an agent that began anew
        "LEFT JOIN (SELECT t.node, t.thread, COALESCE(MIN(m.member), MIN(p.name)) AS process FROM thread AS t "
        "JOIN process AS p ON p.node = t.node AND p.process = t.process "
        "LEFT JOIN member AS m ON m.node = t.node AND m.process = t.process GROUP BY ALL) AS n "
        "ON n.node = r.node AND n.thread = r.thread "
        # what lasts longer comes first where two begin together: it holds the other
        "ORDER BY r.ts, r.dur DESC NULLS FIRST, r.record, r.kind, r.name"
    ).fetchall():
        records.setdefault((row[0], row[1]), []).append(Record(*row[2:]))
    below: dict[Key, list[tuple[Key, str, int]]] = {}
    for row in trail.query(
        "SELECT parent_node, parent_crumb, node, crumb, kind, hi - lo FROM crumb_parent ORDER BY ts, node, crumb"
    ).fetchall():
        below.setdefault((row[0], row[1]), []).append(((row[2], row[3]), row[4], row[5]))
    found = [_path(root, records, below) for root in roots]
    _mark_leaves(trail, found)
    for path in found:
        for crumb in path.crumbs:
            crumb.holes += _holes(crumb, records)
    return found


def _mark_leaves(trail: Trail, found: Sequence[Path]) -> None:
    """Calls without a serving are leaves where no call of that kind in the whole trail has one, else something is missing."""
    open_calls = [
        crumb for path in found for crumb in path.crumbs if not crumb.again and _calls_nobody(crumb)
    ]
    if not open_calls:
        return
    served = {
        (row["component"], row["op"])
        for row in trail.rows_of(
            f"""SELECT DISTINCT c.component, c.op
            FROM ({trail.source("service_op")}) AS c
            JOIN ({trail.source("stitch")}) AS s ON s.parent_node = c.node AND s.parent_crumb = c.crumb
            WHERE c.kind = 'client' AND s.kind = 'rpc'"""
        )
    }
    for crumb in open_calls:
        made = {
            (r.component, r.name) for r in crumb.records if r.record == "service_op" and r.kind == "client"
        }
        crumb.leaf = served.isdisjoint(made)


def _calls_nobody(crumb: Crumb) -> bool:
    calls = any(r.record == "service_op" and r.kind == "client" for r in crumb.records)
    return calls and not any(child.stitched == "rpc" for child in crumb.children)


def _path(root: Key, records: dict[Key, list[Record]], below: dict[Key, list[tuple[Key, str, int]]]) -> Path:
    """The tree below a breadcrumb, depth first without recursion: a path may be deeper than Python's stack."""
    first = Crumb(*root, stitched=None, part=WHOLE)
    shown: dict[Key, Crumb] = {}
    todo: list[tuple[Crumb, tuple[Key, ...]]] = [(first, ())]
    while todo:
        crumb, ancestors = todo.pop()
        if crumb.key in shown:
            crumb.again = True
            crumb.records = shown[crumb.key].records
            if crumb.key in ancestors:
                shown[ancestors[-1]].holes.append(
                    f"{name(crumb.key)} works for it, and it for that one: stitches lead in a circle"
                )
            continue
        shown[crumb.key] = crumb
        crumb.records = records.get(crumb.key, [])
        crumb.children = [
            Crumb(*key, kind, part, across=key[0] != crumb.node)
            for key, kind, part in below.get(crumb.key, [])
        ]
        todo += [(child, (*ancestors, crumb.key)) for child in reversed(crumb.children)]
    return Path(first, tuple(shown.values()))


def _holes(crumb: Crumb, records: dict[Key, list[Record]]) -> list[str]:
    """What is missing at one breadcrumb."""
    if not crumb.records:
        if crumb.stitched is None:
            return ["other breadcrumbs work for it, but no record of it is in the trail"]
        return [f"stitched to the path ({crumb.stitched}), but no record of it is in the trail"]
    found = []
    for record in crumb.records:
        if record.dur is None and record.record in ("service_op", "disk_op"):
            found.append(f"{what(record)} never ended: its reply is missing")
    served = [r for r in crumb.records if r.record == "service_op" and r.kind == "server"]
    if len(served) > 1:
        found.append(f"served {len(served)} times: the number was used again, or the message came twice")
    if _calls_nobody(crumb) and not crumb.leaf:
        found.append("a call whose serving nobody recorded")
    for child in crumb.children:
        begin = min((r.ts for r in records.get(child.key, [])), default=None)
        if child.node == crumb.node and begin is not None and crumb.start is not None and begin < crumb.start:
            found.append(f"{name(child.key)}, which works for it, began before it")
    return found


def what(record: Record) -> str:
    """A record in words: who did what."""
    match record.record:
        case "service_op":
            return f"{record.component} {'calls ' if record.kind == 'client' else ''}{record.name}"
        case "buffer_op":
            return f"{record.component} {record.place} {record.name}"
        case "network_transmit":
            return f"{record.component} → {record.place}"
        case "disk_op":
            return f"{record.place} {record.name}" + (" (kernel)" if record.kind == "kernel" else "")
        case "cpu_slice":
            return "CPU" if record.kind == "kernel" else "thread"
        case _:
            return str(record.name)

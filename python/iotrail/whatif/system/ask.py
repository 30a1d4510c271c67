"""`iotrail whatif ram`, `move`, `merge` and `encode`: what clients of a system would see and use after a change."""

import gc
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import rich.box
from rich.table import Table

from iotrail import units
from iotrail.errors import UsageError
from iotrail.terminal import Console, Text
from iotrail.trail import Trail
from iotrail.whatif.cache import check_policies
from iotrail.whatif.system import changes, model
from iotrail.whatif.system.caches import UNLIMITED, Cache, Place
from iotrail.whatif.system.copies import Choice
from iotrail.whatif.system.model import Answer, Reads, System, Use
from iotrail.whatif.system.recorded import Recorded, read

# What a table shows of a row, by the name of the column.
_Columns = dict[str, Callable[[dict[str, Any]], str]]


@dataclass(frozen=True)
class Options:
    """What all of these verbs take."""

    # device file of the disks; None: requests take as long as in the record
    on: str | None
    as_json: bool


@dataclass(slots=True)
class _Case:
    """A system: as recorded, or changed."""

    name: str
    recorded: Recorded
    closed: Answer
    opened: Answer
    reads: dict[tuple[Place, str | None], Reads]


@contextmanager
def _without_collection() -> Iterator[None]:
    """No garbage collection until the answer: what is read is kept, and each collection would look at all of it."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@_without_collection()
def ram(trail: Trail, *, cache: str | None, sizes: Sequence[int], policy: str, options: Options) -> None:
    """Print what a cache of other sizes would bring.

    Raises:
        UsageError: there is no such cache, or several and none is named.
        TrailError: the trail holds no requests, or not all of them.
    """
    check_policies([policy])
    system = System(read(trail))
    chosen = _choose(system.caches, cache)
    cases = [_case("as recorded", system, None, options), _case("simulated", system, {}, options, policy)]
    for size in sizes:
        if size < max(each.block for each in chosen):
            raise UsageError(f"--size: expected at least a block, {chosen[0].block} bytes, found {size}")
        changed = {each.place: size for each in chosen}
        cases.append(_case(units.size(size), system, changed, options, policy))
    notes = [_said(system.caches), _said_of(system.choice)]
    names = ", ".join(each.name for each in chosen)
    _answer(
        f"caches {names}: {policy}", cases, {each.place for each in chosen}, notes, system.recorded, options
    )


@_without_collection()
def move(
    trail: Trail, *, client: str, sources: Sequence[str], targets: Sequence[str], options: Options
) -> None:
    """Print what a client's files on other machines would bring.

    Raises:
        UsageError: no such client or machine, or none of the client's files there.
        TrailError: the trail holds no requests, or not all of them.
    """
    recorded = read(trail)
    sources = list(sources) or changes.nodes_of(recorded, client)
    if len(targets) != len(sources):
        raise UsageError(
            f"--to: expected {units.counted(len(sources), 'machine')}, one for each of {', '.join(sources)}, "
            f"found {len(targets)}"
        )
    to = dict(zip(sources, targets, strict=True))
    said = ", ".join(f"{source} → {target}" for source, target in to.items() if source != target)
    _changed(trail, recorded, f"{client}'s files: {said}", lambda found: _move(found, client, to), options)


@_without_collection()
def merge(trail: Trail, *, client: str, other: str, options: Options) -> None:
    """Print what another client's files on the machines of a client's would bring both.

    Raises:
        UsageError: no such client, or nothing to merge.
        TrailError: the trail holds no requests, or not all of them.
    """
    recorded = read(trail)
    theirs, ours = changes.nodes_of(recorded, other), changes.nodes_of(recorded, client)
    away = [node for node in theirs if node not in ours]
    if not away:
        raise UsageError(f"all files of {other} are on machines of {client}: {', '.join(ours)}")
    free = [node for node in ours if node not in theirs] or ours
    to = {node: free[at % len(free)] for at, node in enumerate(away)}
    said = ", ".join(f"{source} → {target}" for source, target in to.items())
    _changed(trail, recorded, f"{other}'s files: {said}", lambda found: _move(found, other, to), options)


@_without_collection()
def encode(trail: Trail, *, client: str, copies: int, options: Options) -> None:
    """Print what another number of copies of a client's files would bring.

    Raises:
        UsageError: no such client, or not so many machines.
        TrailError: the trail holds no requests, or not all of them.
    """

    def change(found: Recorded) -> str:
        files, before = changes.encode(found, client, copies)
        return f"{units.counted(files, 'file')} of {client}: {' or '.join(map(str, sorted(before)))} → {copies} copies"

    _changed(trail, read(trail), f"{client}'s files in {copies} copies", change, options)


def _move(found: Recorded, client: str, to: dict[str, str]) -> str:
    return f"{units.counted(changes.move(found, client, to), 'file')} of {client} moved"


def _changed(
    trail: Trail, recorded: Recorded, title: str, change: Callable[[Recorded], str], options: Options
) -> None:
    system = System(recorded)
    sizes = {cache.place: cache.held if cache.is_full else UNLIMITED for cache in system.caches}
    cases = [_case("as recorded", system, None, options), _case("simulated", system, sizes, options)]
    changed = read(trail)
    said = change(changed)
    cases.append(_case("changed", System(changed, system), sizes, options))
    notes = [said, _said(system.caches), _said_of(system.choice)]
    _answer(title, cases, None, notes, recorded, options)


def _case(
    name: str, system: System, sizes: dict[Place, int] | None, options: Options, policy: str = "lru"
) -> _Case:
    closed, opened = (
        system.answer(sizes, policy=policy, on=options.on, closed=closed) for closed in (True, False)
    )
    reads = model.reads_of(system.recorded, system.caches, closed.outcome)
    return _Case(name, system.recorded, closed, opened, reads)


def _choose(caches: list[Cache], name: str | None) -> list[Cache]:
    known = sorted({cache.place[1] for cache in caches} | {cache.name for cache in caches})
    if not caches:
        raise UsageError("the trail has no accesses to buffer caches (buffer_op)")
    if name is None:
        components = {cache.place[1:] for cache in caches}
        if len(components) > 1:
            raise UsageError("--cache: expected which", f"caches of this trail are {', '.join(known)}")
        return caches
    chosen = [cache for cache in caches if name in (cache.name, cache.place[1], "/".join(cache.place[1:]))]
    if not chosen:
        raise UsageError(f"no cache {name}", f"caches of this trail are {', '.join(known)}")
    return chosen


def _said(caches: list[Cache]) -> str:
    full = [f"{cache.name} {units.size(cache.held)}" for cache in caches if cache.is_full]
    rest = [cache.name for cache in caches if not cache.is_full]
    parts = [f"sizes in the record: {', '.join(full)}"] if full else []
    if rest:
        parts.append(f"never full, so of unknown size: {', '.join(rest)}")
    return "; ".join(parts)


def _said_of(choice: Choice) -> str:
    found = f"{choice.least_busy:,} of {choice.made:,} times, where machines weren't equally busy"
    if choice.is_by_load:
        return f"reads go to the least busy copy: that was so {found}"
    if choice.several:
        rest = f", from the least busy one {found}" if choice.made else ""
        return (
            f"reads of the same MiB came from several copies{rest}: each is taken to come from the machine that it came from in "
            "the record"
        )
    return ""


def _clients(cases: list[_Case]) -> dict[str, list[Any]]:
    clients: dict[str, list[Any]] = {}
    for crumb in cases[0].recorded.requests:
        if crumb.main is not None and crumb.main.client is not None:
            clients.setdefault(crumb.main.client, []).append(crumb.key)
    return dict(sorted(clients.items()))


def _mean(responses: dict[Any, float], keys: list[Any]) -> tuple[float | None, float | None]:
    times = [responses[key] for key in keys if key in responses]
    if not times:
        return None, None
    return float(np.mean(times)), float(np.quantile(times, 0.99, method="inverted_cdf"))


def _record(case: _Case, client: str, keys: list[Any], places: set[Place] | None) -> dict[str, Any]:
    """One client in one case."""
    mean, p99 = _mean(case.closed.responses, keys)
    open_mean, _ = _mean(case.opened.responses, keys)
    use = Use()
    for (name, _), each in case.closed.demand.items():
        if name == client:
            use.add(each, 1)
    reads = Reads()
    for (place, name), part in case.reads.items():
        if name == client and places is not None and place in places:
            reads.read += part.read
            reads.missed += part.missed
    return {
        "case": case.name,
        "client": client,
        "requests": len(keys),
        "mean_ns": mean,
        "p99_ns": p99,
        "mean_at_recorded_times_ns": open_mean,
        "hit_share": reads.hit_share,
        **asdict(use),
        "cpu_ns": use.cpu_ns if case.recorded.knows_cpu else None,
    }


def _answer(
    title: str,
    cases: list[_Case],
    places: set[Place] | None,
    notes: list[str],
    recorded: Recorded,
    options: Options,
) -> None:
    if circular := max(case.closed.circular for case in cases):
        notes = [
            *notes,
            f"{units.counted(circular, 'request')} would wait for itself, as the record has it: left out",
        ]
    clients = _clients(cases)
    rows = [_record(case, client, keys, places) for case in cases for client, keys in clients.items()]
    caches = [
        {
            "case": case.name,
            "cache": "/".join(place),
            "read_bytes": reads.read,
            "missed_bytes": reads.missed,
            "hit_share": reads.hit_share,
        }
        for case in cases
        for (place, name), reads in sorted(case.reads.items(), key=lambda each: each[0][0])
        if name is None
    ]
    if options.as_json:
        found = {
            "change": title,
            "notes": [note for note in notes if note],
            "clients": rows,
            "caches": caches,
            "left_out": recorded.left_out,
        }
        print(json.dumps(found))
        return
    console = Console(piped=120)
    console.print(Text(title))
    hits: _Columns = {} if places is None else {"hits": lambda row: _share(row["hit_share"])}
    console.print(_table(rows, {**hits, **_RESPONSES}))
    console.print(
        "Response times if each client waits for its last reply before a request as in the record; the last column is their mean "
        "if none waits. Simulated is the same model without the change: compare with that."
        + ("" if places is None else " Hits: share of the bytes read that these caches held."),
        style="dim",
    )
    console.print(_table(rows, _DEMANDS))
    for note in notes:
        if note:
            console.print(Text(note), style="dim")
    for what, count in recorded.left_out.items():
        console.print(Text(f"left out: {count:,} {what}"), style="dim")


def _table(rows: list[dict[str, Any]], columns: _Columns) -> Table:
    table = Table(box=rich.box.SIMPLE_HEAD)
    for name in ("", "client", *columns):
        table.add_column(name, justify="left" if name in ("", "client") else "right", no_wrap=True)
    before = None
    for row in rows:
        if before is not None and before != row["case"]:
            table.add_section()
        case = "" if before == row["case"] else row["case"]
        table.add_row(*map(Text, (case, row["client"], *(show(row) for show in columns.values()))))
        before = row["case"]
    return table


def _share(share: float | None) -> str:
    return "–" if share is None else units.human(share, "share")


def _time(ns: float | None) -> str:
    return "–" if ns is None else units.duration(ns)


_RESPONSES: _Columns = {
    "requests": lambda row: f"{row['requests']:,}",
    "mean": lambda row: _time(row["mean_ns"]),
    "p99": lambda row: _time(row["p99_ns"]),
    "none waits": lambda row: _time(row["mean_at_recorded_times_ns"]),
}
_DEMANDS: _Columns = {
    "disk I/Os": lambda row: f"{row['disk_requests']:,.0f}",
    "disk": lambda row: units.size(row["disk_bytes"]),
    "disk time": lambda row: _time(row["disk_ns"]),
    "sent": lambda row: units.size(row["network_bytes"]),
    "CPU time": lambda row: _time(row["cpu_ns"]),
}

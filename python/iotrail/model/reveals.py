"""What a model file still tells about the requests that it was fitted to, computed from the file itself.

Counts alone don't say much about an original, but some of a model's tables keep exact values: sizes of requests, ends of
addresses, the whole time, and, in part, when and where the largest runs were.
"""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from iotrail import units
from iotrail.model.diagram import first_address
from iotrail.model.fit import Model
from iotrail.model.source import DISKS, FILES

# Parts of the whole time that the beginnings of the largest runs are known in: MOMENTS in crates/model/src/model.rs.
MOMENTS = 1 << 16
_DIRECTIONS = {"r": "read", "w": "write", "d": "discard"}
# The only texts of a file besides the names of its fields, and what it is of: anything else could be a name, a path or a date.
_KNOWN_TEXTS = frozenset((*_DIRECTIONS, DISKS, FILES))
# Runs and sizes shown as text; --json has all.
_MOST = 8


@dataclass(frozen=True)
class DeviceRevealed:
    """A device: the exact end of its addresses, and how long the longest of its finest ranges is."""

    device: int
    reach_bytes: int
    finest_bytes: int
    states_used: int


@dataclass(frozen=True)
class RunRevealed:
    """One of the largest runs. It began between `from_ns` and `until_ns` after the first request, in the range of addresses from
    `first_bytes` until `end_bytes`; or, with `within_run`, exactly `within_bytes` after the beginning of that one of them, before it if that is negative."""

    from_ns: int
    until_ns: int
    device: int
    first_bytes: int
    end_bytes: int
    direction: str
    requests: int
    bytes: int
    request_sizes: list[int]
    within_run: int | None
    within_bytes: int | None


@dataclass(frozen=True)
class SizeRevealed:
    """A size that the file has, and how many requests it counts with it: an exact one, or the mean of rarer ones near each other."""

    bytes: int
    requests: int


@dataclass(frozen=True)
class Revealed:
    """All that a file tells exactly."""

    requests: int
    length_ns: int
    # the clock's step
    tick_ns: int
    devices: list[DeviceRevealed]
    # no address is known better, except for those of the largest runs to each other
    finest_bytes: int
    # how well beginnings of the largest runs are known
    run_time_step_ns: float
    largest: list[RunRevealed]
    sizes: list[SizeRevealed]
    least_size_requests: int | None
    kept_splits: int
    finest_split_ns: float | None
    distance_classes: list[int]
    # with a count each: between ranges of addresses, and between devices
    transitions: int
    # counts over time: how many parts, and requests of the shortest one
    parts: int
    least_part_requests: int | None
    # CPU time (ns) and bytes through sockets of the programs, in all; of what is unknown nothing
    load: dict[str, int]
    # texts of the file that are no field's name, nor r, w, d, disks or files: none in a model
    texts: list[str]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def reveal(model: Model) -> Revealed:
    """What a model tells."""
    rate, levels = model["rate"], model["levels"]
    ranges = 4**levels
    devices = [
        DeviceRevealed(number, each["reach_bytes"], -(-each["reach_bytes"] // ranges), len(each["states"]))
        for number, each in enumerate(model["devices"])
    ]
    sizes = _sizes(model)
    splits = [level for level, _, _ in rate["kept"]]
    over_time = [
        part[0] for name in ("distances", "states", "sizes", "lengths", "jumps") for part in model[name]
    ]
    return Revealed(
        requests=sum(rate["counts"]),
        length_ns=rate["length_ns"],
        tick_ns=rate["tick_ns"],
        devices=devices,
        finest_bytes=min(each.finest_bytes for each in devices),
        run_time_step_ns=rate["length_ns"] / MOMENTS,
        largest=[_run(row, model) for row in model["largest"]],
        sizes=[SizeRevealed(size, count) for size, count in sorted(sizes.items())],
        least_size_requests=min(sizes.values(), default=None),
        kept_splits=len(splits),
        finest_split_ns=rate["length_ns"] / 2 ** (max(splits) + 1) if splits else None,
        distance_classes=sorted({row[0] for _, part in model["distances"] for row in part}),
        transitions=len(model["next_device"]["transitions"])
        + sum(len(chain["transitions"]) for each in model["devices"] for _, _, chain in each["chains"]),
        parts=max(len(model[name]) for name in ("distances", "states", "sizes", "lengths", "jumps")),
        least_part_requests=min(over_time, default=None),
        load=dict(model.get("load", {})),
        texts=sorted(set(_texts(model)) - _KNOWN_TEXTS),
    )


def _run(row: list[Any], model: Model) -> RunRevealed:
    moment, device, number, direction, size, others, within, _ = row
    length_ns, ranges = model["rate"]["length_ns"], 4 ** model["levels"]
    reach = model["devices"][device]["reach_bytes"]
    return RunRevealed(
        from_ns=moment * length_ns // MOMENTS,
        until_ns=(moment + 1) * length_ns // MOMENTS,
        device=device,
        first_bytes=first_address(reach, ranges, number),
        end_bytes=first_address(reach, ranges, number + 1),
        direction=_DIRECTIONS[direction],
        requests=1 + sum(count for _, count in others),
        bytes=size + sum(each * count for each, count in others),
        request_sizes=sorted({size, *(each for each, _ in others)}),
        within_run=within[0] if within else None,
        within_bytes=within[1] if within else None,
    )


def _sizes(model: Model) -> dict[int, int]:
    """Exact sizes of requests, and how many are counted with each.

    Requests that begin a run are in `sizes`, those that continue one in `next_sizes`, those of the largest in `largest`. What the
    other tables name too is one of these, or of a request that isn't counted there.
    """
    counts: dict[int, int] = {}

    def add(size: int, count: int) -> None:
        counts[size] = counts.get(size, 0) + count

    for _, table in model["sizes"]:
        for size, count in _rows(table):
            add(size, count)
    for _, _, size, count in _rows(model["next_sizes"]):
        add(size, count)
    for run in model["largest"]:
        add(run[4], 1)
        for size, count in run[5]:
            add(size, count)
    states = (state["sizes"] for device in model["devices"] for state in device["states"])
    for table in (model["lengths_by_size"], model["alignment"], *states):
        for row in _rows(table):
            add(row[0], 0)
    for _, before, _, _ in _rows(model["next_sizes"]):
        add(before, 0)
    return {size: max(count, 1) for size, count in counts.items()}


def _rows(table: dict[str, list[Any]]) -> Iterator[Any]:
    for rows in table.values():
        yield from rows


def _texts(value: Any) -> Iterator[str]:
    """All strings of values; the names of fields are the format's (`load` refuses others), keys of tables are directions."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)


def show(found: Revealed) -> Iterator[str]:
    """Lines of text."""
    yield "What this file tells about the original:"
    yield f"  total time: {found.length_ns:,} ns ({units.duration(found.length_ns)}), clock step {units.duration(found.tick_ns)}"
    yield f"  requests: {found.requests:,}"
    yield f"  {units.counted(len(found.devices), 'device')}, each with the end of its addresses to the byte:"
    for each in found.devices:
        yield (
            f"    device {each.device}: {each.reach_bytes:,} B ({units.size(each.reach_bytes)}), requests in "
            f"{units.counted(each.states_used, 'range')} of {units.size(each.finest_bytes)}"
        )
    yield f"  sizes of requests, exact, or the mean of rarer ones: {_some((f'{each.bytes:,} B' for each in found.sizes), len(found.sizes))}"
    if found.least_size_requests is not None:
        yield (f"    the rarest counts {units.counted(found.least_size_requests, 'request')}")
    yield from _show_runs(found)
    splits = f"  arrivals: {units.counted(found.kept_splits, 'interval')} whose halves have exact counts"
    yield splits + (
        f", the finest halves are {units.duration(found.finest_split_ns)}" if found.finest_split_ns else ""
    )
    yield f"  places: exact counts of requests in each range, and of {units.counted(found.transitions, 'transition')} between ranges or devices"
    yield (
        f"  LRU distances: {units.counted(len(found.distance_classes), 'class', 'classes')}; counts over time in up to "
        f"{units.counted(found.parts, 'part')}"
        + (
            f", the shortest of {units.counted(found.least_part_requests, 'request')}"
            if found.least_part_requests is not None
            else ""
        )
    )
    if found.load:
        amounts = (f"{name.replace('_', ' ')} {amount:,}" for name, amount in found.load.items())
        yield f"  what programs took meanwhile: {', '.join(amounts)}"
    yield "What it doesn't hold:"
    if found.texts:
        yield f"  expected no texts but r, w, d, disks and files, found {', '.join(map(repr, found.texts))}"
    else:
        yield "  no text but the names of its fields, r, w, d, disks and files: so no path, and no name of a file, program or machine"
    yield "  no date: times count from the first request"
    yield "  no content of requests"
    exact = [each for each in found.devices if each.finest_bytes <= 1]
    if exact:
        yield f"  but addresses of device {', '.join(str(each.device) for each in exact)} to the byte: its ranges are no longer"
    else:
        yield f"  no address finer than a range: {units.size(found.finest_bytes)} where ranges are shortest"


def _show_runs(found: Revealed) -> Iterator[str]:
    runs = found.largest
    if not runs:
        yield "  no run is kept one by one"
        return
    yield (
        f"  {units.counted(len(runs), 'run')} kept one by one: the beginning to 1/{MOMENTS:,} of the total time "
        f"({units.duration(found.run_time_step_ns)}), the size to the byte"
    )
    for number, run in sorted(enumerate(runs), key=lambda each: -each[1].bytes)[:_MOST]:
        where = f"device {run.device}, {units.size(run.first_bytes)} to {units.size(run.end_bytes)}"
        if run.within_run is not None:
            assert run.within_bytes is not None
            side = "before" if run.within_bytes < 0 else "after"
            where += f", {abs(run.within_bytes):,} B {side} the beginning of run {run.within_run}"
        yield (
            f"    run {number} at {units.duration(run.from_ns)}: {run.direction}, {units.counted(run.requests, 'request')}, "
            f"{run.bytes:,} B; {where}"
        )
    if len(runs) > _MOST:
        yield f"    and {len(runs) - _MOST:,} more; --json has all"


def _some(names: Iterable[str], count: int) -> str:
    named = list(names)
    more = f" and {count - _MOST:,} more" if count > _MOST else ""
    return ", ".join(named[:_MOST]) + more

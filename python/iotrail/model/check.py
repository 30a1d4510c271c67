"""`iotrail model check`: how close a model's requests are to those of a trail.

Both are described by one program (crates/model/src/describe.rs) and run on one simulated device. Beside each deviation
stands that of the trail's halves from each other, which no model of the whole can be held to beat.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from iotrail.model.fit import Model, draw, written
from iotrail.trail import Trail
from iotrail.whatif.device import requests
from iotrail.whatif.simulator import ask_of

Description = dict[str, Any]
_BATCH = 1 << 17
# Requests that are described as a whole; halves of fewer say nothing.
_FEWEST = 100


@dataclass(frozen=True)
class Line:
    """One figure: of the trail, of the model's requests, and how far these are off. None is unknown."""

    name: str
    unit: str
    original: float | None
    synthetic: float | None
    # relative to the original, or, of what is a share, the difference
    deviation: float | None
    # the same of the trail's second half against the first
    halves: float | None


def check(model: Model, trail: Trail, *, seed: int, on: str | None, node: str | None = None) -> list[Line]:
    """All figures, with response times on a device if one is named.

    Raises:
        TrailError: there are no requests with a known time and place.
    """
    query, _ = requests(trail, node)
    with trail.errors(query):
        original = trail.query(query).to_arrow_reader(_BATCH).read_all()
    with written(model) as path:
        with draw(path, seed=seed) as batches:
            synthetic = _as_requests(pa.Table.from_batches(list(batches)))
        pages = _describe(original, path, None)["pages"]
        both = [_describe(table, path, pages) for table in (original, synthetic)]
        halves: list[Description] | None = None
        if len(original) >= _FEWEST:
            middle = len(original) // 2
            parts = [original[:middle], original[middle:]]
            fewer = _describe(parts[0], path, None)["pages"]
            halves = [_describe(table, path, fewer) for table in parts]
    lines = _compare(both, halves)
    if on is not None:
        times = [_respond(table, on) for table in (original, synthetic)]
        in_halves = [_respond(table, on) for table in parts] if halves else None
        lines += _compare_times(times, in_halves)
    return lines


def _as_requests(drawn: pa.Table) -> pa.Table:
    """Drawn requests with the columns that a trail's have."""
    count = len(drawn)
    return pa.table(
        {
            "ts": drawn["ts"],
            "dur": pa.nulls(count, pa.int64()),
            **{name: drawn[name] for name in ("device", "op", "pos", "length")},
            "flags": pc.multiply(drawn["op"], 0),
        }
    )


def _describe(table: pa.Table, model: Path, pages: int | None) -> Description:
    words = ["model", "describe", "--model", str(model)]
    return ask_of(table.to_reader(_BATCH), words if pages is None else [*words, "--pages", str(pages)])


def _respond(table: pa.Table, on: str) -> dict[str, float]:
    """Mean and 99th percentile of response times at recorded arrivals, ms, by operation."""
    found = ask_of(table.to_reader(_BATCH), ["simulate", "device", "--on", on, "--fold"])
    outcome = found["simulated"][0]["arrivals_recorded"]
    return {
        f"{name} of {each['op']}s": each[key] / 1e6
        for each in outcome["times"]
        for name, key in (("mean response", "mean_ns"), ("99 % response", "p99_ns"))
    }


def _relative(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None or one == 0 else other / one - 1


def _difference(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else other - one


def _figures(one: Description) -> dict[str, tuple[str, float | None, bool]]:
    """Name -> unit, value, whether it is a share."""
    requests, length = one["requests"], one["length_ns"]
    placed = one["sizes"]
    moved = sum(row[2] for row in placed)
    of = {d: sum(row[2] for row in placed if row[0] == d) for d in "rwd"}
    going_on = dict(map(tuple, one["going_on"]))

    def share(count: int) -> float | None:
        return count / moved if moved else None

    figures: dict[str, tuple[str, float | None, bool]] = {
        "requests": ("", requests, False),
        "requests per second": ("1/s", requests / length * 1e9 if length else None, False),
        "reads": ("%", share(of["r"]), True),
        "mean size": ("KiB", sum(row[1] * row[2] for row in placed) / moved / 1024 if moved else None, False),
        "mean gap": ("ms", None if one["gap_ns"] is None else one["gap_ns"] / 1e6, False),
    }
    for ranks, count in going_on.items():
        figures[f"go on with one of the last {ranks} runs"] = ("%", share(count), True)
    for width, value in one["dispersion"]:
        figures[f"dispersion at {width / 1e9:g} s"] = ("", value, False)
    figures["working set"] = ("MiB", one["pages"] * 4096 / (1 << 20), False)
    figures["uses of pages"] = ("", one["uses"], False)
    return figures


def _distance(one: Description, other: Description, key: str) -> float | None:
    """Half the sum of absolute differences of shares: how many requests are of another kind."""
    rows = [{tuple(row[:-1]): row[-1] for row in each[key]} for each in (one, other)]
    totals = [sum(each.values()) for each in rows]
    if not all(totals):
        return None
    kinds = rows[0].keys() | rows[1].keys()
    off: float = sum(
        abs(rows[0].get(kind, 0) / totals[0] - rows[1].get(kind, 0) / totals[1]) for kind in kinds
    )
    return off / 2


def _curve(one: Description, other: Description, key: str, policy: str | None = None) -> float | None:
    """Mean absolute difference of miss ratios over sizes."""
    misses: list[dict[Any, float]] = [
        {tuple(row[:-1]): row[-1] / each["uses"] for row in each[key] if policy in (None, row[0])}
        for each in (one, other)
        if each["uses"]
    ]
    if len(misses) < 2:
        return None
    sizes = misses[0].keys() & misses[1].keys()
    off: float = sum(abs(misses[0][size] - misses[1][size]) for size in sizes)
    return off / len(sizes) if sizes else None


def _compare(both: list[Description], halves: list[Description] | None) -> list[Line]:
    original, synthetic = map(_figures, both)
    first, second = map(_figures, halves) if halves else ({}, {})
    lines = []
    for name, (unit, value, is_share) in original.items():
        off = _difference if is_share else _relative
        floor = off(first[name][1], second[name][1]) if halves else None
        lines.append(Line(name, unit, value, synthetic[name][1], off(value, synthetic[name][1]), floor))

    def add(name: str, distance: Any) -> None:
        floor = distance(*halves) if halves else None
        lines.append(Line(name, "%", None, None, distance(*both), floor))

    add("requests of another size", lambda a, b: _distance(a, b, "sizes"))
    add("transitions between other states", lambda a, b: _distance(a, b, "transitions"))
    add("miss ratios of LRU caches", lambda a, b: _curve(a, b, "lru"))
    for policy in sorted({row[0] for row in both[0]["others"]}):

        def curve(one: Description, other: Description, name: str = policy) -> float | None:
            return _curve(one, other, "others", name)

        add(f"miss ratios of {policy} caches", curve)
    return lines


def _compare_times(times: list[dict[str, float]], halves: list[dict[str, float]] | None) -> list[Line]:
    original, synthetic = times
    lines = []
    for name, value in original.items():
        other = synthetic.get(name)
        floor = _relative(halves[0].get(name), halves[1].get(name)) if halves else None
        lines.append(Line(name, "ms", value, other, _relative(value, other), floor))
    return lines

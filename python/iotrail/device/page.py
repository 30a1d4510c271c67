"""The page of `iotrail device show --html`: seek curve, transfer rate by position, time by size, values, residuals."""

import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from iotrail import units
from iotrail.page import Html, document, figures, table, tag
from iotrail.page.colours import FIRST, SECOND
from iotrail.page.plot import Axis, Drawing, Plot, linear, octaves

# Milliseconds and bytes in one of each unit of device files.
_MS = {"ns": 1e-6, "us": 1e-3, "ms": 1.0, "s": 1e3}
_BYTES = {
    **{unit: 1000.0**power for power, unit in enumerate(("B", "kB", "MB", "GB", "TB"))},
    **{unit: 1024.0**power for power, unit in enumerate(("B", "KiB", "MiB", "GiB", "TiB"))},
}
_NARROW = 480


def render(device: Mapping[str, Any], short: Callable[[Any], str]) -> bytes:
    """The page of what `iotrail-native device show` says; `short` shows a value in one line."""
    values = {each["key"]: each for each in device["values"]}
    measured: Mapping[str, Mapping[str, list[float]]] = device["measured"]
    title = f"{device['device']}: {device['kind']}, {units.size(device['capacity'])}"
    drawings = [
        *_seek(values, measured.get("seek")),
        *_rate(values, device["capacity"], measured.get("rate")),
    ]
    for operation in ("read", "write"):
        if sizes := measured.get(f"{operation}_size"):
            drawings += _sizes(operation, values, sizes)
    if depth := measured.get("depth"):
        drawings.append(_depth(values, depth))
    parts = [tag("p", title, of="verdict"), figures(drawings) if drawings else "", _values(device, short)]
    return document("device show", title, parts)


def _values(device: Mapping[str, Any], short: Callable[[Any], str]) -> Html:
    def cells(each: Mapping[str, Any]) -> tuple[str, ...]:
        value, error, unit = each["value"], each["error"], each["unit"] or ""
        # the drawings show lists; one would make the table too wide
        shown = f"{len(value)} rows" if isinstance(value, list) else short(value)
        if error is not None:
            error = f"up to ± {max(error, default=0)}" if isinstance(error, list) else f"± {short(error)}"
        return each["key"], shown, "" if isinstance(value, list) else unit, error or "", each["source"]

    names = ("value", "", "unit", "standard error", "source")
    return tag("h2", "Values") + table(names, map(cells, device["values"]), left=(2, 4), wrap=4)


def _ms(values: Mapping[str, Any], key: str) -> float | None:
    """A time in ms."""
    value = values.get(key)
    if value is None or isinstance(value["value"], list):
        return None
    if value["unit"] == "rpm":
        return 60e3 / float(value["value"])
    return float(value["value"]) * _MS[value["unit"]]


def _rate_of(values: Mapping[str, Any], key: str) -> float:
    """Bytes per second."""
    return float(values[key]["value"]) * _BYTES[values[key]["unit"].removesuffix("/s")]


def _milliseconds(value: float) -> str:
    return f"{value:g} ms"


def _around(values: Iterable[float]) -> tuple[float, float]:
    """From below the least to above the most, 0 included."""
    numbers = [0.0, *values]
    low, high = min(numbers), max(numbers)
    room = 0.08 * (high - low or 1.0)
    return low - (room if low < 0 else 0), high + room


def _shares() -> Axis:
    return linear(0, 1, lambda share: f"{share:.0%}")


def _seek(values: Mapping[str, Any], points: Mapping[str, list[float]] | None) -> list[Drawing]:
    """The curve with the seeks it was fitted to, and what it misses of them."""
    curve = [_ms(values, f"disk.seek.curve.{key}") for key in "abcd"]
    tabled = values.get("disk.seek.table")
    at = np.concatenate((np.geomspace(1e-5, 0.01, 30), np.linspace(0.01, 1, 200)))
    caption = "Seek time by distance"
    if None not in curve:
        a, b, c, d = (part or 0.0 for part in curve)
        e = float(values["disk.seek.curve.e"]["value"])
        times = np.where(at <= e, a + b * np.sqrt(at), c + d * at)
        note = f"a + b·√x up to {e:.3g} of all cylinders, c + d·x beyond"
    elif tabled:
        units_ = dict(part.split(" ") for part in tabled["unit"].split(", "))
        at = np.array([point["distance"] for point in tabled["value"]], dtype=float)
        times = np.array([point["time"] for point in tabled["value"]]) * _MS[units_["time"]]
        note = f"{len(at)} points"
    else:
        return []
    seen = [] if points is None else [(x, y / 1e6) for x, y in _pairs(points, "distance", "time_ns")]
    plot = Plot(
        _shares(), linear(*_around([*times.tolist(), *(y for _, y in seen)]), _milliseconds), width=_NARROW
    )
    plot.line(at.tolist(), times.tolist(), FIRST)
    if seen:
        plot.dots(seen, SECOND, 0.9, width=5)
        note += f"; dots: {len(seen)} measured"
    drawings = [plot.drawing(caption, note)]
    if points is not None and "residual_ns" in points:
        drawings.append(
            _residuals(_shares(), _pairs(points, "distance", "residual_ns"), "measured seeks less the curve")
        )
    return drawings


def _pairs(points: Mapping[str, list[float]], x: str, y: str) -> list[tuple[float, float]]:
    return list(zip(points.get(x, []), points.get(y, []), strict=False))


def _residuals(x: Axis, points: list[tuple[float, float]], note: str) -> Drawing:
    """What a line misses, in µs."""
    scaled = [(at, rest / 1e3) for at, rest in points]
    plot = Plot(x, linear(*_around(rest for _, rest in scaled), lambda us: f"{us:g} µs"), width=_NARROW)
    plot.line([x.low, x.high], [0, 0], FIRST, dashed=True)
    plot.dots(scaled, SECOND, 0.9, width=5)
    spread = math.sqrt(sum(rest**2 for _, rest in scaled) / max(len(scaled), 1))
    return plot.drawing("Residuals", f"{note}; root mean square {spread:.3g} µs")


def _rate(
    values: Mapping[str, Any], capacity: int, points: Mapping[str, list[float]] | None
) -> list[Drawing]:
    """Rate of the medium by place."""
    zones, revolution = values.get("disk.zones"), _ms(values, "disk.revolution")
    if zones is None or revolution is None:
        return []
    sector = float(values["disk.sector"]["value"]) * _BYTES[values["disk.sector"]["unit"]]
    heads = int(values["disk.heads"]["value"])
    ends, rates = [0.0], []
    for zone in zones["value"]:
        track = zone["sectors_per_track"] * sector
        ends.append(ends[-1] + zone["cylinders"] * heads * track)
        rates.append(track / revolution * 1e3)
    seen = [] if points is None else _pairs(points, "pos_bytes", "sequential_bytes_per_s")
    y = linear(*_around([*rates, *(rate for _, rate in seen)]), lambda rate: f"{rate / 1e6:g} MB/s")
    plot = Plot(linear(0, capacity / 1e9, lambda gb: f"{gb:g} GB"), y, width=_NARROW, left=70)
    edges = [min(end, capacity) / 1e9 for end in ends]
    xs = [x for pair in itertools.pairwise(edges) for x in pair]
    plot.line(xs, [rate for rate in rates for _ in range(2)], FIRST)
    note = f"of the medium: {len(rates)} zone{'s' if len(rates) != 1 else ''}"
    if seen:
        plot.dots([(pos / 1e9, rate) for pos, rate in seen], SECOND, 0.9, width=5)
        note += "; dots: sequential reads measured, switches of tracks included"
    return [plot.drawing("Transfer rate by position", note)]


def _sizes(operation: str, values: Mapping[str, Any], points: Mapping[str, list[float]]) -> list[Drawing]:
    """Time by size."""
    seen = [(size, time / 1e6) for size, time in _pairs(points, "length_bytes", "time_ns")]
    base = _ms(values, f"fixed.{operation}")
    if not seen or base is None:
        return []
    most = max(size for size, _ in seen)
    x = linear(0, most * 1.02, units.size, binary=True)
    lines = [base, base + most / _rate_of(values, "fixed.rate") * 1e3]
    plot = Plot(x, linear(*_around([*lines, *(time for _, time in seen)]), _milliseconds), width=_NARROW)
    plot.line([0, most], lines, FIRST)
    plot.dots(seen, SECOND, 0.9, width=5)
    drawings = [plot.drawing(f"Time of a {operation} by size", "one at a time; dots: medians measured")]
    if "residual_ns" in points:
        rest = _pairs(points, "length_bytes", "residual_ns")
        drawings.append(_residuals(x, rest, f"medians of {operation}s less the line"))
    return drawings


def _depth(values: Mapping[str, Any], points: Mapping[str, list[float]]) -> Drawing:
    """Throughput by depth, with what the values say."""
    seen = _pairs(points, "queue_depth", "reads_per_s")
    places = [(math.log2(depth), rate) for depth, rate in seen]
    x = octaves(0, max(x for x, _ in places) or 1.0, lambda depth: f"{depth:g}")
    servers, base = float(values["fixed.servers"]["value"]), _ms(values, "fixed.read") or 0.0
    each = base / 1e3 + 4096 / _rate_of(values, "fixed.rate")
    at = np.linspace(0, x.high, 60)
    rates = [min(2.0**depth, servers) / each for depth in at]
    y = linear(*_around([*rates, *(rate for _, rate in seen)]), lambda rate: f"{units.decimal(rate)}/s")
    plot = Plot(x, y, width=_NARROW, left=70)
    plot.line(at.tolist(), rates, FIRST)
    plot.dots(places, SECOND, 0.9, width=5)
    return plot.drawing(
        "Reads per second by queue depth", "4 KiB at random; dots: measured; line: as the values say"
    )

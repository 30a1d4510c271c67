"""The page of `iotrail model check --html`: the table, and the original beside the synthetic requests in drawings."""

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from iotrail import units
from iotrail.model import check_text as shown
from iotrail.model.check import Check
from iotrail.model.figures import PAGE_BYTES, Description
from iotrail.page import Html, document, figures, table, tag
from iotrail.page.colours import DIM, FIRST, SECOND
from iotrail.page.plot import Axis, Drawing, Plot, linear, octaves

# Steps of a map's colours.
_SHADES = 10
_HEIGHT = 220
# Share of all addresses from which on a device is named beside a map.
_NAMED = 0.07
# Share of a plot's height that is less than a pixel.
_SEEN = 0.002
# Of the original, the synthetic requests and the baseline.
_COLOURS = (FIRST, SECOND, DIM)

Points = tuple[list[float], list[float]]


def render(result: Check, model: str, trail: str) -> bytes:
    """The page of a model file and the trail that it is compared with."""
    beyond = [each.name for each in result.figures if each.beyond]
    known = [each for each in result.figures if each.beyond is not None]
    verdict = (
        f"{len(beyond)} of {len(known)} figures deviate beyond the noise floor and 5 %"
        if known
        else shown.NO_NOISE
    )
    parts = [
        tag(
            "p",
            tag("span", "──", of="first"),
            f" original: {trail}",
            Html("<br>"),
            tag("span", "╌╌", of="second"),
            f" synthetic: {model}",
            Html("<br>"),
            tag("span", "──", of="dim"),
            " baseline: the original's aggregates only",
        ),
        tag("p", verdict, of="verdict"),
        *draw_maps([("original", result.original), ("synthetic", result.synthetic)], result.reaches_bytes),
        tag("h2", "Curves"),
        figures(filter(None, (_misses(result), _gaps(result), _dispersion(result), _rates(result)))),
        tag("h2", "Figures"),
        _table(result),
        *(tag("p", note, of="note") for note in shown.notes(result)),
    ]
    return document("model check", trail, parts)


def _table(result: Check) -> Html:
    several = any(each.deviation_range for each in result.figures)

    def rows() -> Iterator[list[str]]:
        for section, some in itertools.groupby(result.figures, lambda each: each.section):
            yield [tag("b", section), *[""] * (6 + several)]
            for each in some:
                off = shown.deviation(each.deviation, each)
                yield [
                    each.name,
                    shown.value(each.original, each),
                    shown.value(each.synthetic, each),
                    tag("span", f"{off} *", of="worse") if each.beyond else off,
                    *([shown.spread(each)] if several else []),
                    shown.noise(each),
                    shown.value(each.baseline, each),
                    shown.deviation(each.baseline_deviation, each),
                ]

    names = ["", "original", "synthetic", "deviation", *(["over seeds"] if several else [])]
    return table([*names, "noise floor", "baseline", "deviation"], rows(), wrap=None)


def draw_maps(described: Sequence[tuple[str, Description]], reaches_bytes: list[int]) -> list[Html]:
    """Requests over time and offset, of each workload beside the others, in shades of one scale.

    All were described over one time and with these reaches; of reaches that are too many to draw there is nothing.
    """
    most = max((count for _, each in described for _, _, count in each["over_time"]["cells"]), default=0)
    if not most:
        return []
    drawings = [_map(each["over_time"], reaches_bytes, most, name) for name, each in described]
    alike = "both" if len(described) == 2 else "all"
    return [
        tag("h2", "Requests by offset and time"),
        tag("p", "Requests in a cell: 1 ", _scale(), f" {most:,}, by ratio, in {alike}", of="note"),
        figures(drawings),
    ]


def _scale() -> Html:
    """The shades, from few requests to many, in a line of text."""
    width = 12
    boxes = "".join(
        f'<rect x="{shade * width}" width="{width}" height="{width}" fill="{FIRST}" fill-opacity="{_opacity(shade):.2f}"/>'
        for shade in range(_SHADES)
    )
    drawn = Drawing("scale of shades", width * _SHADES, width, boxes).svg()
    return Html(
        f'<span style="display:inline-block;width:{width * _SHADES}px;vertical-align:-2px">{drawn}</span>'
    )


def _time_axis(length_ns: int) -> Axis:
    """From 0 on, with marks in round numbers of one unit."""
    unit = next(
        (each for each in ("h", "min", "s", "ms", "µs") if length_ns >= 2 * units.NANOSECONDS[each]), "ns"
    )
    ns = units.NANOSECONDS[unit]
    axis = linear(0, max(length_ns, 1) / ns, lambda value: f"{value:g} {unit}" if value else "0")
    return Axis(0, axis.high * ns, tuple((at * ns, words) for at, words in axis.marks))


def _opacity(shade: int) -> float:
    return 0.12 + 0.88 * shade / (_SHADES - 1)


def _map(over_time: dict[str, Any], reaches: list[int], most: int, name: str) -> Drawing:
    reach = max(sum(reaches), 1)
    width, height = over_time["length_ns"] / over_time["columns"], reach / over_time["rows"]
    offsets = linear(0, reach, units.size, binary=True)
    if len(reaches) > 1:
        # one above the other: a mark where each begins that has room for its name
        begins = itertools.accumulate(reaches[:-1], initial=0)
        marks = (
            (float(begin), f"device {number}")
            for number, (begin, of) in enumerate(zip(begins, reaches, strict=True))
            if of >= _NAMED * reach
        )
        offsets = Axis(0, reach, tuple(marks))
    plot = Plot(_time_axis(over_time["length_ns"]), offsets, height=_HEIGHT, left=70)
    shades: list[list[tuple[float, float, float, float]]] = [[] for _ in range(_SHADES)]
    for column, row, count in over_time["cells"]:
        share = math.log(count) / math.log(most) if most > 1 else 1.0
        cell = (column * width, (column + 1) * width, row * height, (row + 1) * height)
        shades[round(share * (_SHADES - 1))].append(cell)
    for shade, cells in enumerate(shades):
        plot.cells(cells, FIRST, _opacity(shade))
    return plot.drawing(name)


def _draw(
    caption: str, x: Axis, y: Axis, lines: Iterable[Points], note: str = "", left: float = 58
) -> Drawing:
    """Lines of the original, the synthetic requests and, if it is there, the baseline, which lies below both."""
    plot = Plot(x, y, height=_HEIGHT, left=left)
    original, synthetic, *rest = zip(lines, _COLOURS, strict=False)
    for (xs, ys), colour in (*rest, original, synthetic):
        plot.line(xs, ys, colour, dashed=colour == SECOND)
    return plot.drawing(caption, note)


def _all(result: Check) -> tuple[Description, ...]:
    assert result.baseline is not None, "the page is of a trail and its model"
    return result.original, result.synthetic, result.baseline


def _bounds(lines: Iterable[Points], axis: int) -> tuple[float, float]:
    values = [value for points in lines for value in points[axis]]
    low, high = min(values), max(values)
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _misses(result: Check) -> Drawing | None:
    lines = [
        (
            [math.log2(pages * PAGE_BYTES) for pages, _ in each["lru"]],
            [misses / each["uses"] for _, misses in each["lru"]],
        )
        for each in _all(result)
        if each["uses"]
    ]
    if len(lines) < len(_COLOURS):
        return None
    x = octaves(*_bounds(lines, 0), units.size, binary=True)
    return _draw("LRU miss ratio", x, linear(0, 1, "{:.0%}".format), lines, "by size of the cache")


def _gaps(result: Check) -> Drawing | None:
    described = [each["gap_buckets"] for each in _all(result)]
    low = min((_log_of_first_seen(each) for each in described if each), default=math.inf)
    if not math.isfinite(low):
        return None
    lines = [_steps(each, low) for each in described if each]
    high = max(max(_bounds(lines, 0)), low + 0.1)
    plotted = [([*xs, high], [*ys, 1.0]) for xs, ys in lines]
    x = octaves(low, high, units.duration)
    return _draw("Inter-arrival times", x, linear(0, 1, "{:.0%}".format), plotted, "share up to a time")


def _log_of_first_seen(buckets: list[tuple[int, int]]) -> float:
    """Logarithm of the time above 0 up to which there is a share that can be seen."""
    least, below = _SEEN * sum(count for _, count in buckets), 0
    for ns, count in buckets:
        below += count
        if ns > 0 and below >= least:
            return math.log2(ns)
    return math.inf


def _steps(buckets: list[tuple[int, int]], low: float) -> Points:
    """A distribution function; steps too small to see are left out."""
    total, below, drawn = sum(count for _, count in buckets), 0, 0.0
    xs, ys = [low], [0.0]
    for ns, count in buckets:
        x, share = max(math.log2(max(ns, 1)), low), (below + count) / total
        below += count
        if share - drawn >= _SEEN or below == total:
            xs += [x, x]
            ys += [ys[-1], share]
            drawn = share
    return xs, ys


def _dispersion(result: Check) -> Drawing | None:
    lines = []
    for each in _all(result):
        known = [(width, value) for width, value in each["dispersion"] if value]
        lines.append(([math.log2(width) for width, _ in known], [math.log2(value) for _, value in known]))
    if not lines[0][0]:
        return None
    y_low, y_high = _bounds(lines, 1)
    # 1 is what a Poisson process has
    y = octaves(min(y_low, -1.0), max(y_high, 1.0), lambda value: f"{value:,g}", most=6)
    x = octaves(*_bounds(lines, 0), units.duration)
    return _draw("Index of dispersion", x, y, lines, "by width of the window; of a Poisson process 1")


def _rates(result: Check) -> Drawing | None:
    over_time = [each["over_time"] for each in (result.original, result.synthetic)]
    length = over_time[0]["length_ns"]
    slices = len(over_time[0]["requests"])
    if not length:
        return None
    each_s = length / slices / 1e9
    middles = [(number + 0.5) * length / slices for number in range(slices)]
    lines = [(middles, [count / each_s for count in each["requests"]]) for each in over_time]
    top = max(max(ys) for _, ys in lines) or 1.0
    return _draw("Requests per second", _time_axis(length), linear(0, top, units.decimal), lines)

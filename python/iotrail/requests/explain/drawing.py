"""What a client asks for and how busy resources were, drawn: Stardust's figure 11, and the utilization beside which it
is read."""

import math
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from iotrail.errors import IotrailError
from iotrail.moments import written
from iotrail.page.colours import DIM, FIRST, SECOND, WORSE
from iotrail.page.plot import Axis, Drawing, Plot, beside, linear, sheet
from iotrail.report import write_whole
from iotrail.requests.explain.command import Explanation
from iotrail.requests.explain.pattern import COLUMNS, ROWS, Cell, Pattern
from iotrail.requests.explain.resources import SATURATED, Resource, Window
from iotrail.units import duration, size

# Resources that are drawn.
MOST_RESOURCES = 24
# Shades up to what happened most often.
_SHADES = 4
# Pixels that reads are drawn above their place, and writes below, where there are both.
_APART = 2.0
# Bars of a distribution.
_BINS = 20
_HEIGHT = 320


def asked(pattern: Pattern) -> list[Drawing]:
    """When which bytes were accessed, and how large the accesses were."""
    time = linear(0, max(pattern.lasts_ns, 1), duration)
    places = Plot(time, linear(0, max(pattern.span_bytes, 1), size, binary=True), width=660, height=_HEIGHT)
    _draw(places, pattern, lambda cell: (cell.row + 0.5) / ROWS * places.y.high)
    rows = [cell.size_row for cell in pattern.cells]
    octaves = linear(min(rows), max(rows) + 1, lambda octave: size(2.0**octave), most=10)
    # a mark of a whole octave stands for a size
    octaves = Axis(
        octaves.low, octaves.high, tuple(mark for mark in octaves.marks if mark[0] == int(mark[0]))
    )
    sizes = Plot(time, octaves, width=480, height=_HEIGHT)
    _draw(sizes, pattern, lambda cell: cell.size_row + 0.5)
    kinds = {cell.kind for cell in pattern.cells}
    symbols = [
        f"{symbol}: {kind}s" for kind, symbol in (("read", "dots"), ("write", "crosses")) if kind in kinds
    ]
    return [
        places.drawing("Bytes of all files over time", "; ".join([*symbols, "the stronger, the more"])),
        sizes.drawing("Sizes over time", "the largest at each place"),
    ]


def _draw(plot: Plot, pattern: Pattern, height: Callable[[Cell], float]) -> None:
    """Each kind's cells in shades."""
    counts: dict[tuple[str, float, float], int] = {}
    for cell in pattern.cells:
        key = cell.kind, (cell.column + 0.5) / COLUMNS * plot.x.high, height(cell)
        counts[key] = counts.get(key, 0) + cell.n
    most = max(counts.values())
    shades: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for (kind, x, y), n in counts.items():
        shades.setdefault((kind, math.ceil(n / most * _SHADES)), []).append((x, y))
    # where both are, a dot stands on a cross
    apart = _APART if len({kind for kind, _ in shades}) > 1 else 0.0
    for (kind, shade), places in sorted(shades.items(), key=lambda item: item[0][1]):
        opacity = 0.4 + 0.6 * shade / _SHADES
        if kind == "read":
            plot.dots(places, FIRST, opacity, raised=apart)
        else:
            plot.crosses(places, SECOND, opacity, raised=-apart)


def used(resource: Resource, window: Window) -> Drawing:
    """The share in use over time, and beside it how often it was how large."""
    every, lasts = window.every_ns, window.end_ts - window.start_ts
    series = np.nan_to_num(resource.series)
    top = max(1.0, float(series.max()))
    shares = linear(0, top, "{:.0%}".format, most=4)
    over_time = Plot(linear(0, lasts, duration), shares, width=430, height=120)
    # the window begins in the first bucket
    begins = np.arange(len(series) + 1) * every - window.start_ts % every
    over_time.steps(np.clip(begins, 0, lasts).tolist(), series.tolist(), FIRST, 0.75)
    counts, edges = np.histogram(series, bins=_BINS, range=(0, top))
    parts = counts / counts.sum()
    across = linear(0, float(parts.max()), "{:.0%}".format, most=2)
    spread = Plot(across, Axis(0, top, ()), width=130, height=120, left=12)
    for part, low, high in zip(parts, edges, edges[1:], strict=False):
        if part:
            spread.box((0, part), (low, high), DIM)
    for plot in (over_time, spread):
        plot.line([plot.x.low, plot.x.high], [SATURATED, SATURATED], WORSE, dashed=True)
    drawings = [over_time.drawing(""), spread.drawing("")]
    return beside(
        resource.name, drawings, f"at least {SATURATED:.0%} in {resource.saturated or 0:.0%} of the time"
    )


def known(resources: Iterable[Resource]) -> list[Resource]:
    """Those whose capacity is known: the others have no share in use."""
    return [resource for resource in resources if resource.largest is not None]


def when(window: Window) -> str:
    """From when to when, on which clock."""
    return f"{written(window.start_ts)} to {written(window.end_ts)} on the clock of {window.node}"


def write(found: Explanation, path: Path) -> None:
    """Draw both into a file."""
    panels = [used(resource, found.window) for resource in known(found.resources)[:MOST_RESOURCES]]
    rows = [asked(found.pattern)] if found.pattern else []
    rows += [panels[at : at + 2] for at in range(0, len(panels), 2)]
    if not rows:
        raise IotrailError(
            f"nothing to draw: {found.client} neither reads nor writes, and no utilization is known",
            "iotrail explain without --svg",
        )
    write_whole(path, sheet(f"{found.client}, {when(found.window)}", rows), "--svg")
    print(path)

"""Arrivals as a picture: a panel a point, the share of times between arrivals below a time, on a logarithmic axis.

The measured distribution as steps, the best exponential and the best of all families as curves: Stardust (SIGMETRICS
2006), figure 12.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from iotrail import distributions, page
from iotrail.distributions import Fit
from iotrail.errors import IotrailError
from iotrail.page import Html, tag
from iotrail.page.colours import FIRST, SECOND, TEXT
from iotrail.page.plot import BOTTOM, RIGHT, Drawing, Plot, linear, octaves, sheet, words
from iotrail.report import write_whole
from iotrail.requests.arrivals_text import said, title
from iotrail.units import decimal, duration

if TYPE_CHECKING:
    from iotrail.requests.arrivals import Point

_CURVE = 160


def write(points: list[Point], path: Path, *, force: bool) -> None:
    """Draw the points into a file; what is there is replaced only by force."""
    page.check_drawing(path, force=force)
    drawn = panels(points)
    if not drawn:
        raise IotrailError("nothing to draw: one arrival at each point", "iotrail arrivals without --svg")
    write_whole(path, sheet("Times between arrivals", [[panel] for panel in drawn]), "--svg")
    print(path)


def panels(points: list[Point]) -> list[Drawing]:
    """A drawing of each point that has times between arrivals."""
    return [_panel(point) for point in points if point.buckets]


def parts(points: list[Point]) -> list[Html]:
    """The points in a page."""
    rows = [
        (
            Html(f"{tag('b', title(p))}<br>{tag('span', said(p.prediction), of='note')}"),
            f"{p.n:,}",
            "–" if p.rate is None else decimal(p.rate),
            *("–" if ns is None else duration(ns) for ns in (p.mean_ns, p.p50_ns, p.p99_ns)),
            "–" if p.cv is None else f"{p.cv:.2f}",
            "–" if p.fits is None else "yes" if p.fits.is_exponential else "no",
            "–" if p.fits is None else p.fits.best.family,
        )
        for p in points
    ]
    names = ("arrivals at", "n", "a second", "mean between", "p50", "p99", "cv", "exponential", "best fit")
    return [
        page.table(names, rows, left={7, 8}),
        tag("h2", "Times between arrivals: share below a time"),
        page.figures(replace(panel, note="") for panel in panels(points)),
        tag("p", "steps: measured; curves: the best exponential, and the best of all families", of="note"),
    ]


def _panel(point: Point) -> Drawing:
    low = math.log2(max(point.buckets[0][0], 1))
    high = max(math.log2(max(point.max_ns or 1, 2)), low + 0.1)
    plot = Plot(octaves(low, high, duration), linear(0, 1, "{:.0%}".format), height=220)
    total, below = sum(n for _, n in point.buckets), 0
    steps = [(low, 0.0)]
    for ns, n in point.buckets:
        across = math.log2(max(ns, 1))
        steps.append((across, below / total))
        below += n
        steps.append((across, below / total))
    steps.append((high, 1.0))
    plot.line([x for x, _ in steps], [y for _, y in steps], TEXT)
    drawn: list[tuple[Fit, str]] = []
    if point.fits is not None:
        drawn.append((point.fits.exponential, SECOND))
        if point.fits.best is not point.fits.exponential:
            drawn.append((point.fits.best, FIRST))
    times = np.linspace(low, high, _CURVE)
    for row, (fitted, colour) in enumerate(drawn):
        plot.line(times, distributions.cumulative(fitted, 2**times), colour, dashed=colour == SECOND)
        at = plot.width - RIGHT - 6, plot.height - BOTTOM - 8 - 15 * row
        plot.parts.append(words(*at, f"{fitted.family}, distance {fitted.distance:.3f}", "end", colour))
    return plot.drawing(title(point), said(point.prediction))

"""Arrivals as a picture: a panel a point, the share of times between arrivals below a time, on a logarithmic axis.

The measured distribution as steps, the best exponential and the best of all families as curves: Stardust (SIGMETRICS
2006), figure 12.
"""

from __future__ import annotations

import html
import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from iotrail.errors import IotrailError
from iotrail.report import write_whole
from iotrail.requests import fit
from iotrail.requests.arrivals_text import said, title
from iotrail.requests.fit import Fit
from iotrail.units import duration

if TYPE_CHECKING:
    from iotrail.requests.arrivals import Point

# A panel's drawing and the room around it, in pixels.
_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 640, 200, 56, 44, 52
_CURVE = 160


def write(points: list[Point], path: Path, *, force: bool) -> None:
    """Draw the points into a file; what is there is replaced only by force."""
    if path.exists() and not force:
        raise IotrailError(f"{path} exists", "--force replaces it")
    panels = [point for point in points if point.buckets]
    if not panels:
        raise IotrailError("nothing to draw: one arrival at each point", "iotrail arrivals without --svg")
    each = _TOP + _HEIGHT + _BOTTOM
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LEFT + _WIDTH + 24}" height="{each * len(panels)}" '
        'font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for number, point in enumerate(panels):
        lines += [f'<g transform="translate({_LEFT},{number * each + _TOP})">', *_panel(point), "</g>"]
    try:
        write_whole(path, "\n".join([*lines, "</svg>", ""]).encode())
    except OSError as error:
        raise IotrailError(f"{path}: {os.strerror(error.errno or 0)}") from error
    print(path)


def _panel(point: Point) -> list[str]:
    least = np.log10(max(point.buckets[0][0], 1))
    most = max(np.log10(max(point.max_ns or 1, 2)), least + 0.1)

    def across(ns: float) -> float:
        return float((np.log10(max(ns, 1.0)) - least) / (most - least) * _WIDTH)

    def down(share: float) -> float:
        return float((1 - share) * _HEIGHT)

    lines = [
        _text(0, -26, title(point), 'font-weight="bold"'),
        _text(0, -10, said(point.prediction), 'fill="#555"'),
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="none" stroke="#999"/>',
    ]
    for share in (0, 0.25, 0.5, 0.75, 1):
        lines.append(_text(-6, down(share) + 4, f"{share:.0%}", 'text-anchor="end"'))
    for decade in range(int(np.ceil(least)), int(np.floor(most)) + 1):
        x = across(10.0**decade)
        lines.append(f'<path d="M{x:.1f} 0V{_HEIGHT}" stroke="#eee"/>')
        lines.append(_text(x, _HEIGHT + 16, duration(10.0**decade), 'text-anchor="middle"'))
    total, below, steps = sum(n for _, n in point.buckets), 0, [f"M0 {_HEIGHT}"]
    for ns, n in point.buckets:
        below += n
        steps.append(f"H{across(ns):.1f}V{down(below / total):.1f}")
    lines.append(
        f'<path class="measured" d="{"".join(steps)}H{_WIDTH}" fill="none" stroke="black" stroke-width="1.5"/>'
    )
    if point.fits is None:
        return lines
    drawn: list[tuple[Fit, str]] = [(point.fits.exponential, "#c0392b")]
    if point.fits.best is not point.fits.exponential:
        drawn.append((point.fits.best, "#2471a3"))
    legend = 0
    for fitted, colour in drawn:
        times = np.logspace(least, most, _CURVE)
        shares = fit.distribution(fitted, times)
        curve = " ".join(f"{across(t):.1f},{down(s):.1f}" for t, s in zip(times, shares, strict=True))
        lines.append(
            f'<polyline class="fit" points="{curve}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
        )
        lines.append(
            _text(
                legend, _HEIGHT + 36, f"{fitted.family}, distance {fitted.distance:.3f}", f'fill="{colour}"'
            )
        )
        legend += 240
    return lines


def _text(x: float, y: float, words: str, style: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{html.escape(words)}</text>'

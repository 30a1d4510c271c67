"""Arrivals on a terminal: figures, bars of an octave each beside what the fitted distribution has there, models."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iotrail import distributions
from iotrail.distributions import LEVEL, Fit, Fits
from iotrail.requests.queueing import Prediction
from iotrail.terminal import WIDE, Console, Text
from iotrail.units import counted, decimal, duration
from iotrail.visible import one_line

if TYPE_CHECKING:
    from iotrail.requests.arrivals import Point

_WIDTH = 48
# Bars at either end that hold less than this share are drawn as one.
_TAIL = 0.005
_NAMES = {"request": "requests at", "message": "messages sent by", "disk": "requests of disk"}
# parameters that are no times
_PURE = {"shape", "sigma", "share"}


def title(point: Point) -> str:
    """Which point it is."""
    return f"{_NAMES[point.level]} {point.place} on {point.node}"


def show(points: list[Point]) -> None:
    """Print them."""
    console = Console(piped=WIDE)
    for number, point in enumerate(points):
        rate = "" if point.rate is None else f", {decimal(point.rate)} a second"
        console.print(Text("\n" * (number > 0) + one_line(title(point)), style="bold").append(
            f": {counted(point.n, 'arrival')}{rate}", style="not bold"
        ))  # fmt: skip
        if point.mean_ns is None or point.p50_ns is None or point.p99_ns is None:
            continue
        cv = "" if point.cv is None else f", cv {point.cv:.2f}"
        console.print(
            f"between them: mean {duration(point.mean_ns)}{cv}, p50 {duration(point.p50_ns)}, "
            f"p99 {duration(point.p99_ns)}"
        )
        if point.fits is None:
            console.print(Text("too few, or all at once: no distribution is fitted", style="dim"))
        else:
            for line in _fitted(point.fits):
                console.print(line)
            for line in bars(point.buckets, point.fits.best):
                console.print(Text(line, style="cyan"))
        console.print(Text(said(point.prediction), style="dim" if point.prediction.refused else ""))


def _fitted(fits: Fits) -> list[str]:
    exponential, best = fits.exponential, fits.best
    answer = "yes" if fits.is_exponential else "no"
    lines = [
        f"exponential: {answer} (Kolmogorov-Smirnov {exponential.distance:.3f}, {_p(fits.exponential_p)})"
    ]
    if best is not exponential:
        words = ", ".join(
            f"{name} {value:.3g}" if name in _PURE else f"{name} {duration(value)}"
            for name, value in best.parameters.items()
        )
        judged = "" if fits.p >= LEVEL * 1.001 else ", which it isn't either"
        lines.append(
            f"best fit: {best.family} ({words}), Kolmogorov-Smirnov {best.distance:.3f}, {_p(fits.p)}{judged}; "
            f"AIC {exponential.aic - best.aic:,.0f} less than the exponential's"
        )
    return lines


def _p(p: float) -> str:
    return f"p {p:.2g}" if p >= 0.001 else "p < 0.001"


def bars(buckets: tuple[tuple[int, int], ...], fitted: Fit) -> list[str]:
    """A line an octave: from, bar, how many; `|` where the fitted distribution's bar would end."""
    octaves: dict[int, int] = {}
    for least, n in buckets:
        octave = max(least, 1).bit_length() - 1
        octaves[octave] = octaves.get(octave, 0) + n
    total = sum(octaves.values())
    first, last = min(octaves), max(octaves)
    while first < last and sum(n for o, n in octaves.items() if o <= first) < _TAIL * total:
        first += 1
    while last > first and sum(n for o, n in octaves.items() if o >= last) < _TAIL * total:
        last -= 1
    counts = [0.0] * (last - first + 1)
    for octave, n in octaves.items():
        counts[min(max(octave, first), last) - first] += n
    edges = np.array([0.0, *(2.0**o for o in range(first + 1, last + 1)), np.inf])
    expected = np.diff(distributions.cumulative(fitted, edges)) * total
    most = max(*counts, float(expected.max()))
    lines = []
    for row, count in enumerate(counts):
        bar = ("█" * round(count / most * _WIDTH)).ljust(_WIDTH + 1)
        mark = round(float(expected[row]) / most * _WIDTH)
        start = "0 ns" if row == 0 else duration(float(edges[row]))
        lines.append(f"{start:>9} {bar[:mark]}|{bar[mark + 1 :]} {count:,.0f}")
    return lines


def said(prediction: Prediction) -> str:
    """The prediction beside what was measured, or why there is none."""
    measured = "" if prediction.measured_ns is None else f", measured {duration(prediction.measured_ns)}"
    if prediction.refused is not None or prediction.response_ns is None:
        return f"response time: not predicted{measured}: {prediction.refused}"
    bound, off = "at most " if prediction.bound else "", ""
    if prediction.measured_ns is not None and not prediction.bound:
        off = f" ({prediction.response_ns / prediction.measured_ns - 1:+.1%})"
    at = f"{prediction.model} at {prediction.utilisation:.0%} utilisation"
    if prediction.servers != 1:
        at += f" of {prediction.servers}"
    return f"response time: {bound}{duration(prediction.response_ns)} by {at}{measured}{off}"

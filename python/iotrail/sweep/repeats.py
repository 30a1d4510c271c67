"""When a sample was measured often enough, and what its values say."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from iotrail.sweep.spec import Repeats

CONFIDENCE = 0.95
# Two groups of values are two modes if they lie apart by so many times what they vary, and each has at least two.
_APART = 4.0
# What values of one group vary at least, as a share of them: smaller differences are of no consequence.
_LEAST_SPREAD = 0.005


@dataclass(frozen=True)
class Sampled:
    """Values of one setting: their mean, its 95 % interval (None from one value alone), and `state`: `ok`, `wide` if the
    interval is wider than asked for, `two modes`, or `failed` if none was measured."""

    value: float | None
    low: float | None
    high: float | None
    state: str


def summarize(values: Sequence[float], repeats: Repeats) -> Sampled:
    """What measured values say. Of values in two modes the larger group's mean counts, of equal groups the higher."""
    if not values:
        return Sampled(None, None, None, "failed")
    if len(values) == 1:
        return Sampled(values[0], None, None, "ok")
    groups = modes(values)
    if len(groups) > 1:
        chosen = max(groups, key=lambda group: (len(group), np.mean(group)))
        return Sampled(float(np.mean(chosen)), float(min(values)), float(max(values)), "two modes")
    mean, half = float(np.mean(values)), half_width(values)
    return Sampled(mean, mean - half, mean + half, "wide" if half > repeats.within * abs(mean) else "ok")


def half_width(values: Sequence[float]) -> float:
    """Half the 95 % interval of the mean of two values and more, by Student's t."""
    error = float(np.std(values, ddof=1) / np.sqrt(len(values)))
    return float(stats.t.ppf((1 + CONFIDENCE) / 2, len(values) - 1)) * error


def modes(values: Sequence[float]) -> list[list[float]]:
    """The values in one group, or in two that lie apart."""
    ordered = sorted(values)
    if len(ordered) < 4:
        return [ordered]
    at = int(np.argmax(np.diff(ordered))) + 1
    low, high = ordered[:at], ordered[at:]
    if min(len(low), len(high)) < 2:
        return [ordered]
    spread = max(np.std(low, ddof=1), np.std(high, ddof=1), _LEAST_SPREAD * abs(np.mean(ordered)))
    return [low, high] if high[0] - low[-1] > _APART * spread else [ordered]


def is_enough(values: Sequence[float], tries: int, repeats: Repeats) -> bool:
    """Whether a setting needs no further measurement; `tries` counts failed ones too."""
    if tries >= repeats.most:
        return True
    if len(values) < repeats.least:
        return False
    if len(values) < 2:
        return repeats.least < 2
    return half_width(values) <= repeats.within * abs(float(np.mean(values)))

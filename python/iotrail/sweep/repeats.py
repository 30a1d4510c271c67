"""When a sample was measured often enough, and what its values say."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from iotrail.sweep.spec import Repeats

CONFIDENCE = 0.95
# Two groups of values lie apart by so many times what they vary; there are two modes if each has at least two.
_APART = 4.0
# What values of one group vary at least, as a share of them: smaller differences are of no consequence.
_LEAST_SPREAD = 0.005
# Measurements that fail before a setting is given up, if none has succeeded.
_MOST_FAILED = 2


@dataclass(frozen=True)
class Sampled:
    """Values of one setting: their mean, its 95 % interval (None from one value alone), and `state`: `ok`, `wide` if the
    interval is wider than asked for, `two modes`, or `failed` if none was measured."""

    value: float | None
    low: float | None
    high: float | None
    state: str


def summarize(values: Sequence[float], repeats: Repeats) -> Sampled:
    """What measured values say. A value that lies apart from all others doesn't count. Of values in two modes the larger
    group's mean counts, of equal groups the higher."""
    if not values:
        return Sampled(None, None, None, "failed")
    if len(values) == 1:
        return Sampled(values[0], None, None, "ok")
    chosen, *others = modes(values)
    mean, half = float(np.mean(chosen)), half_width(chosen)
    if others and len(others[0]) > 1:
        return Sampled(mean, float(min(values)), float(max(values)), "two modes")
    return Sampled(mean, mean - half, mean + half, "wide" if half > repeats.within * abs(mean) else "ok")


def half_width(values: Sequence[float]) -> float:
    """Half the 95 % interval of the mean of two values and more, by Student's t."""
    error = float(np.std(values, ddof=1) / np.sqrt(len(values)))
    return float(stdtrit(len(values) - 1, (1 + CONFIDENCE) / 2)) * error


def modes(values: Sequence[float]) -> list[list[float]]:
    """The values in one group, or in two that lie apart, the larger one (of equal ones the higher) first."""
    ordered = sorted(values)
    if len(ordered) < 4:
        return [ordered]
    at = int(np.argmax(np.diff(ordered))) + 1
    groups = sorted((ordered[:at], ordered[at:]), key=lambda group: (-len(group), -group[0]))
    spread = max(*(float(np.std(group)) for group in groups), _LEAST_SPREAD * abs(float(np.mean(ordered))))
    return groups if ordered[at] - ordered[at - 1] > _APART * spread else [ordered]


def is_enough(values: Sequence[float], failed: int, repeats: Repeats) -> bool:
    """Whether a setting needs no further measurement; `failed` are those that failed."""
    if len(values) + failed >= repeats.most or (failed >= _MOST_FAILED and not values):
        return True
    if len(values) < max(repeats.least, 2):
        return len(values) >= repeats.least
    return summarize(values, repeats).state == "ok"

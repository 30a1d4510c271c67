"""Compare simulated service times with measured ones."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from iotrail.device.demerit import demerit
from iotrail.device.observed import Ints, Observed


@dataclass(frozen=True)
class ClassComparison:
    """One class of requests. Times in ns."""

    count: int
    measured_mean: float
    simulated_mean: float
    demerit: float


@dataclass(frozen=True)
class Comparison:
    """All requests, and those classes of which there are any. Times in ns."""

    count: int
    measured_mean: float
    simulated_mean: float
    demerit: float
    classes: dict[str, ClassComparison]


def compare(requests: Observed, simulated: Sequence[Ints]) -> Comparison:
    """Compare with one or more simulations of the same requests, which count as one of so many times the size."""
    classes = {}
    for name, chosen in requests.classes.items():
        if chosen.any():
            times = np.concatenate([run[chosen] for run in simulated])
            classes[name] = _compare(requests.service[chosen], times)
    all_ = _compare(requests.service, np.concatenate(list(simulated)))
    return Comparison(all_.count, all_.measured_mean, all_.simulated_mean, all_.demerit, classes)


def _compare(measured: Ints, simulated: Ints) -> ClassComparison:
    return ClassComparison(
        len(measured), float(measured.mean()), float(simulated.mean()), demerit(measured, simulated)
    )

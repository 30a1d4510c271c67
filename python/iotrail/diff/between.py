"""Do two sides of several runs differ by more than the runs of one side differ among themselves?

Runs of one program differ by more than what one run shows inside: where its files lie on the disk, which pages are
cached, how busy the neighbours are. So the unit is the run: each gives one figure of a call, and two sides are compared
by the t-test of two means. Three runs a side leave four degrees of freedom, and a call whose three figures happen to
lie close together would look certain. So the variance of a call is moderated by that of all calls (empirical Bayes:
Smyth, Linear models and empirical Bayes methods for assessing differential expression, Statistical Applications in
Genetics and Molecular Biology 3(1), 2004): a call's own variance, and the one its error inside of the runs and the usual
spread between runs lead to expect, each by its degrees of freedom. How much the latter counts is estimated from how
unlike the calls' variances are.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

from iotrail.diff.noise import CONFIDENCE, Estimate

# The expected variance counts at most as much as that of so many degrees of freedom, and at least so many.
MOST_FREEDOM, LEAST_FREEDOM = 6.0, 1.0
# Standard deviations between runs that are believed at all: logarithms of times.
LEAST_SPREAD, MOST_SPREAD = 0.01, 1.0


@dataclass(frozen=True)
class Sample:
    """A figure of each run of both sides, in logarithms where it is a time."""

    a: NDArray[np.float64]
    b: NDArray[np.float64]
    # Variance of one run's figure by what varies inside of it; None if that can't be told.
    within: float | None

    @property
    def freedom(self) -> int:
        return len(self.a) + len(self.b) - 2

    @property
    def variance(self) -> float:
        """Between runs of a side."""
        around = float(((self.a - self.a.mean()) ** 2).sum() + ((self.b - self.b.mean()) ** 2).sum())
        return around / self.freedom


@dataclass(frozen=True)
class Usual:
    """What is expected of the variance between runs: beside that within, and worth how many degrees of freedom."""

    spread: float
    freedom: float


def usual(samples: Sequence[Sample], typical: float) -> Usual:
    """What the samples have in common; with few of them, `typical` speaks as one more."""
    known = [
        (s.variance, s.within or 0.0, s.freedom) for s in samples if s.freedom > 0 and s.within is not None
    ]
    known.append((typical**2, 0.0, max((s.freedom for s in samples), default=1)))
    variance, within, freedom = (np.array(column, dtype=float) for column in zip(*known, strict=True))
    # the logarithm of a mean square is below that of what it estimates by this much (Smyth, section 6.2)
    bias = special.digamma(freedom / 2) - np.log(freedom / 2)
    logs = np.log(np.maximum(variance, 1e-12)) - bias

    def unlike(spread: float) -> NDArray[np.float64]:
        return np.asarray(logs - np.log(spread**2 + within))

    def off(spread: float) -> float:
        return float(np.mean(unlike(spread)))

    if off(LEAST_SPREAD) <= 0:
        spread = LEAST_SPREAD
    elif off(MOST_SPREAD) >= 0:
        spread = MOST_SPREAD
    else:
        spread = float(optimize.brentq(off, LEAST_SPREAD, MOST_SPREAD))
    apart = unlike(spread)
    excess = float(np.mean(apart**2 - special.polygamma(1, freedom / 2)))
    return Usual(spread, _freedom_of(excess))


def _freedom_of(excess: float) -> float:
    """The degrees of freedom d of which trigamma(d/2) is this, within bounds."""

    def off(freedom: float) -> float:
        return float(special.polygamma(1, freedom / 2)) - excess

    if off(MOST_FREEDOM) >= 0:
        return MOST_FREEDOM
    if off(LEAST_FREEDOM) <= 0:
        return LEAST_FREEDOM
    return float(optimize.brentq(off, LEAST_FREEDOM, MOST_FREEDOM))


def compare_means(sample: Sample, expected: Usual | None) -> Estimate:
    """The difference of B's mean from A's. Without an expected variance the sample's own is all there is."""
    value = float(sample.b.mean() - sample.a.mean())
    own = sample.freedom
    if expected is None:
        if own < 1:
            return Estimate(value, -math.inf, math.inf, None)
        freedom, variance = float(own), sample.variance
    else:
        prior = expected.spread**2 + (sample.within or 0.0)
        freedom = own + expected.freedom
        variance = (expected.freedom * prior + own * (sample.variance if own else 0.0)) / freedom
    error = math.sqrt(variance * (1 / len(sample.a) + 1 / len(sample.b)))
    if error <= 1e-12 * abs(value) or error == 0:
        return Estimate(value, value, value, 0.0 if value else 1.0)
    margin = float(special.stdtrit(freedom, (1 + CONFIDENCE) / 2)) * error
    p = 2 * float(special.stdtr(freedom, -abs(value) / error))
    return Estimate(value, value - margin, value + margin, p)

"""Is a difference of two runs more than noise? Tests on slices of the runs, and how many tests may err.

Latencies of a run are autocorrelated and drift, so that tests which take millions of calls as independent
(Kolmogorov-Smirnov, Mann-Whitney) call everything significant. Here a run is a series of slices; the i-th slices of
two runs did the same work, and their differences are a series whose mean is the effect. The mean's error is estimated
from how much the series varies *slowly*: the average power of its first cosine waves, which is the EWC estimator of
the long-run variance (Lazarus, Lewis, Stock, Watson: HAR Inference: Recommendations for Practice, Journal of Business
& Economic Statistics 36(4), 2018, section 3). The statistic has Student's t distribution with as many degrees of
freedom as waves. A neighbour who slows a third of one run thus widens the interval instead of making a difference;
one stall of any length never is one.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import fft
from scipy.special import stdtr, stdtrit

Series = NDArray[np.float64]

# Waves: 0.41 K^(2/3) is what section 3.2 there recommends for K slices; fewer than six would leave no power for
# calls so rare that their slices lie far apart in time.
WAVES = 0.41
LEAST_WAVES = 6
# Counts that fall into fewer slices than this show no rate over time that could vary.
LEAST_OCCUPIED = 8.0
# Confidence of intervals that are shown.
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Estimate:
    """A difference with its confidence interval and the probability of one as large by noise alone.

    `p` is None if there is too little to judge by; low and high are then infinite.
    """

    value: float
    low: float
    high: float
    p: float | None

    def scaled(self, factor: float) -> "Estimate":
        """In another unit."""
        low, high = sorted((self.low * factor, self.high * factor))
        return Estimate(self.value * factor, low, high, self.p)


def mean(differences: ArrayLike, beyond: float = 0.0) -> Estimate:
    """The mean of a series of differences, in order of time. `p` is of one that exceeds `beyond` in size."""
    series = np.asarray(differences, dtype=float)
    count = len(series)
    value = float(series.mean()) if count else 0.0
    if count < 2:
        return Estimate(value, -np.inf, np.inf, None)
    error = math.sqrt(wander(series) / count)
    # what rounding of the transform leaves of a constant series
    if error <= 1e-12 * abs(value):
        return Estimate(value, value, value, 0.0 if abs(value) > beyond else 1.0)
    spread = float(stdtrit(waves(count), (1 + CONFIDENCE) / 2)) * error
    over = abs(value) - beyond
    p = 2 * float(stdtr(waves(count), -over / error)) if over > 0 else 1.0
    return Estimate(value, value - spread, value + spread, p)


def waves(count: int) -> int:
    """How many cosine waves tell the noise of so many slices: the degrees of freedom."""
    return min(count - 1, max(LEAST_WAVES, round(WAVES * math.pow(count, 2 / 3))))


def wander(series: Series) -> float:
    """How much a series of two or more varies slowly: its long-run variance."""
    transformed = fft.dct(series, type=2, norm="ortho")
    return float((transformed[1 : waves(len(series)) + 1] ** 2).mean())


def share(part_a: Series, whole_a: Series, part_b: Series, whole_b: Series) -> Estimate:
    """The difference of two shares. Slices weigh by what they hold: a ratio's error is that of its linearised
    residuals (Cochran, Sampling Techniques, 1977, section 6.4)."""
    share_a, residual_a = _linearised(part_a, whole_a)
    share_b, residual_b = _linearised(part_b, whole_b)
    return mean(residual_b - residual_a + (share_b - share_a))


def _linearised(part: Series, whole: Series) -> tuple[float, Series]:
    value = float(part.sum() / whole.sum())
    return value, (part - value * whole) / whole.mean()


def occupied(counts: Series) -> float:
    """In how many slices counts lie, as if evenly: Kish's effective size."""
    squares = float((counts**2).sum())
    return float(counts.sum()) ** 2 / squares if squares else 0.0


def merged(series: Series, slices: int) -> Series:
    """Neighbouring slices averaged, so that `slices` are left; both are powers of two."""
    return np.asarray(series.reshape(slices, -1).mean(axis=1), dtype=float)


def discoveries(probabilities: Sequence[float]) -> list[float]:
    """Each test's probability adjusted so that of those at most q, a share of at most q errs: Benjamini and
    Hochberg, Journal of the Royal Statistical Society B 57(1), 1995."""
    given = np.asarray(probabilities, dtype=float)
    order = np.argsort(given)[::-1]
    # scipy.stats has this, and takes half a second to load
    least = np.minimum.accumulate(given[order] * len(given) / np.arange(len(given), 0, -1))
    adjusted = np.empty_like(given)
    adjusted[order] = np.minimum(least, 1)
    found: list[float] = adjusted.tolist()
    return found

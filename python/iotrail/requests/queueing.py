"""The mean response time that a queueing model predicts at a point, or why none may.

Models are chosen by what was measured, as section 6 of Stardust (SIGMETRICS 2006) asks: "a system should be able to
either predict when not to predict or choose the queueing model among many that best fits". Formulas are those of
Kleinrock, Queueing Systems I, 1975 (M/M/1 3.2, M/M/c 3.5, M/G/1 5.7: Pollaczek and Khinchine) and Kingman, On Queues
in Heavy Traffic, Journal of the Royal Statistical Society B 24, 1962 (an upper bound for G/G/1).
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from iotrail import distributions
from iotrail.distributions import Fits

Times = NDArray[np.float64]

# Fewer arrivals say too little of their distribution.
LEAST_ARRIVALS = 100
# Times are autocorrelated if Ljung and Box's test says so (of ranks, as few long times would hide the others) and one
# of these lags' correlations is at least so large: with many times, the least one is significant.
LAGS = 10
LEAST_CORRELATION = 0.05


@dataclass(frozen=True)
class Prediction:
    """What a model says. Times in ns; None where it refuses."""

    # M/M/1, M/G/1, M/M/c, G/G/1
    model: str | None
    response_ns: float | None
    # the response is at most this: the model gives no more
    bound: bool
    # share of time that a server works, 0 to 1; requests served at once at most
    utilisation: float | None
    servers: int | None
    measured_ns: float | None
    # why there is no prediction
    refused: str | None


@dataclass(frozen=True)
class Arrivals:
    """What is known of a point: moments and times in ns, in order of arrival."""

    ts: NDArray[np.int64]
    gaps: Times
    # of those whose service is known: when it ended, how long it was, how long they were there
    end: NDArray[np.int64]
    service: Times
    response: Times
    fits: Fits | None


def predict(at: Arrivals) -> Prediction:
    """The prediction for a point."""
    measured = float(at.response.mean()) if len(at.response) else None
    if not len(at.service):
        return _refuse("nothing says when service began: waiting and service can't be told apart", measured)
    if at.fits is None or len(at.ts) < LEAST_ARRIVALS:
        return _refuse(f"{len(at.ts):,} arrivals are too few: it takes {LEAST_ARRIVALS}", measured)
    if not (at.response > at.service).any():
        return _refuse("nothing ever waited, or nothing says when service began", measured)
    rate, mean = 1 / float(at.gaps.mean()), float(at.service.mean())
    servers = most_at_once(at.end - at.service.astype(np.int64), at.end)
    load = rate * mean / servers
    if load >= 1:
        return _refuse(f"utilisation is {load:.2f}: a queue that grows has no mean", measured, load, servers)
    for what, times in (("arrivals", at.gaps), ("service times", at.service)):
        if (r := autocorrelation(times)) is not None:
            reason = f"{what} are autocorrelated (up to {r:+.2f}): no model here knows that"
            return _refuse(reason, measured, load, servers)
    if servers > 1:
        if not at.fits.is_exponential or not distributions.fit(at.service).is_exponential:
            which = "service times" if at.fits.is_exponential else "arrivals"
            reason = f"up to {servers} are served at once, and {which} aren't exponential as M/M/c has them"
            return _refuse(reason, measured, load, servers)
        return Prediction(
            "M/M/c", mean + _wait_mmc(rate, mean, servers), False, load, servers, measured, None
        )
    if at.fits.is_exponential:
        memoryless = distributions.fit(at.service).is_exponential
        spread = 1.0 if memoryless else float(at.service.std() / mean) ** 2
        wait = mean * load / (1 - load) * (1 + spread) / 2
        model = "M/M/1" if memoryless else "M/G/1"
        return Prediction(model, mean + wait, False, load, servers, measured, None)
    bound = rate * (float(at.gaps.var()) + float(at.service.var())) / (2 * (1 - load))
    return Prediction("G/G/1", mean + bound, True, load, servers, measured, None)


def _refuse(
    reason: str, measured: float | None, load: float | None = None, servers: int | None = None
) -> Prediction:
    return Prediction(None, None, False, load, servers, measured, reason)


def _wait_mmc(rate: float, mean: float, servers: int) -> float:
    """Erlang's C, from his B by its recursion."""
    offered, blocked = rate * mean, 1.0
    for k in range(1, servers + 1):
        blocked = offered * blocked / (k + offered * blocked)
    load = offered / servers
    waits = blocked / (1 - load * (1 - blocked))
    return waits * mean / (servers * (1 - load))


def most_at_once(begin: NDArray[np.int64], end: NDArray[np.int64]) -> int:
    """How many intervals overlap at most; one that ends when another begins doesn't."""
    moments = np.concatenate((end, begin))
    steps = np.concatenate((np.full(len(end), -1), np.full(len(begin), 1)))
    return int(np.cumsum(steps[np.lexsort((steps, moments))]).max())


def autocorrelation(times: Times) -> float | None:
    """The largest correlation of times with those up to LAGS before; None if that may be chance or is of no
    consequence. Ljung and Box, Biometrika 65, 1978."""
    count = len(times)
    if count <= 2 * LAGS:
        return None
    ranks = stats.rankdata(times)
    ranks = (ranks - ranks.mean()) / max(float(ranks.std()), 1e-12)
    found = np.array([float((ranks[k:] * ranks[:-k]).sum()) / count for k in range(1, LAGS + 1)])
    statistic = count * (count + 2) * float((found**2 / (count - np.arange(1, LAGS + 1))).sum())
    largest = float(found[np.abs(found).argmax()])
    if stats.chi2.sf(statistic, LAGS) >= distributions.LEVEL or not abs(largest) >= LEAST_CORRELATION:
        return None
    return largest if math.isfinite(largest) else None

"""In which layer the samples of a cluster leave the expectation first.

A layer gives the one below a workload, and the one above a throughput. Where each metric of a layer is as expected, so is what
it was given; the first that isn't, from the application down, is where to look. But a layer can follow another one: a slower disk
has more requests to sort, and streams of which less is read have shorter windows. So a layer of which is known what it should have
done with just what it was given comes first if it did something else, and last if it did that.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from iotrail.anomaly.space import Flags, Values

# Metrics from the application down; the throughput of a layer is the effect and no cause.
Metric = tuple[str, str]
# What a layer did over what it should have done with just what it was given: bytes that are asked for at a time, when as much was
# read; the time that a device took for the same requests.
OWN_WORK: Sequence[Metric] = (("readahead", "asked_ratio"), ("device", "service_ratio"))

# A metric has left the expectation if it is off by as much as an anomaly is, and further than in all but few samples outside
# all clusters …
LEAST = float(np.log(1 / 0.9))
_FEW_OUTSIDE = 0.2
# … in most samples of a cluster.
_MOST_INSIDE = 0.5


@dataclass(frozen=True)
class Deviation:
    """A metric that isn't as expected: medians over the cluster's samples, and the shares of samples that are as far off,
    inside and outside of clusters (None if none are outside)."""

    layer: str
    metric: str
    measured: float
    expected: float
    inside: float
    outside: float | None


def find_deviations(
    metrics: Sequence[Metric],
    measured: Mapping[Metric, Values],
    expected: Mapping[Metric, Values],
    inside: Flags,
    outside: Flags,
) -> list[Deviation]:
    """The metrics that have left the expectation in a cluster: `OWN_WORK` first, others by layer in the order of `metrics`, from the
    application down, of one layer the furthest off first, but last those of layers whose own work is as expected.

    `measured` and `expected` have for each metric a value a sample, NaN where there is none; `inside` are the samples of the
    cluster, `outside` those of no cluster. Values of 0 are as expected if both are.
    """
    found = []
    cleared = set()
    for metric in metrics:
        if metric not in measured or metric not in expected:
            continue
        one, other = measured[metric], expected[metric]
        known = ~(np.isnan(one) | np.isnan(other))
        if not (known & inside).any():
            continue
        signed, least = _distance(one, other), LEAST
        off = np.abs(signed)
        rest = None
        if (known & outside).any():
            usual = float(np.quantile(off[known & outside], 1 - _FEW_OUTSIDE, method="higher"))
            least = max(least, usual)
            rest = float((off[known & outside] > least).mean())
        share = float((off[known & inside] > least).mean())
        if metric in OWN_WORK and (
            float((off[known & inside] > LEAST).mean()) <= _MOST_INSIDE
            # more than expected in some samples and less in others is no cause
            or abs(float(np.median(signed[known & inside]))) <= LEAST
        ):
            cleared.add(metric[0])
        elif share > _MOST_INSIDE:
            found.append(
                Deviation(
                    *metric,
                    measured=float(np.median(one[known & inside])),
                    expected=float(np.median(other[known & inside])),
                    inside=share,
                    outside=rest,
                )
            )
    layers = list(dict.fromkeys(layer for layer, _ in metrics))

    def rank(one: Deviation) -> tuple[int, int, float]:
        own = 0 if (one.layer, one.metric) in OWN_WORK else 2 if one.layer in cleared else 1
        return own, layers.index(one.layer), -_ratio(one)

    return sorted(found, key=rank)


def _ratio(one: Deviation) -> float:
    """How far off, as the logarithm of a ratio; 0 where one is 0."""
    return float(abs(np.log(one.measured / one.expected))) if min(one.measured, one.expected) > 0 else 0.0


def _distance(measured: Values, expected: Values) -> Values:
    """How far values are from the expected ones, as the logarithm of a ratio; of a value and 0, infinitely."""
    with np.errstate(divide="ignore", invalid="ignore"):
        off = np.log(measured / expected)
    infinite = np.where(measured == expected, 0.0, np.where(measured > expected, np.inf, -np.inf))
    return np.where((measured <= 0) | (expected <= 0), infinite, off)

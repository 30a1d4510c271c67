"""How sure a cluster is: whether chance could have made it, the interval of its loss, and how far each face could be off.

Samples chosen because others near them were slow are no evidence: give uniform ones. A cluster is compared with the best
boxes that the same search finds in the errors of the fit, dealt to the samples at random; the largest of many such gains
follow a Gumbel distribution (Dwass, Modified randomization tests for nonparametric hypotheses, Annals of Mathematical
Statistics 28, 1957; Gumbel, Statistics of extremes, 1958).
"""

from dataclasses import dataclass, replace

import numpy as np

from iotrail.anomaly.pursuit import Fit, Pursuit
from iotrail.anomaly.space import Box, Codes, Space, Values

# Times the errors are dealt at random.
PERMUTATIONS = 39
# Samples of the bootstrap that gives the interval of losses, and the interval's share.
RESAMPLED = 400
CONFIDENCE = 0.95
# Chance above which a cluster is not reported, and below which so few permutations don't tell how small it is.
LEVEL = 0.01
LEAST_CHANCE = 1e-4
# A face could as well be where the samples are less than e³ = 20 times less likely.
_AS_LIKELY = 3.0


@dataclass(frozen=True)
class Cluster:
    """Settings with a loss of one cause.

    `loss` is 1 - measured / expected that the cause takes, from `low` to `high` with 95 % confidence; `samples` are inside;
    `chance` is the probability of so clear a box if losses had nothing to do with settings, at least `LEAST_CHANCE`; `smallest` and `largest` are the
    boxes with all faces as far in and out as the samples allow.
    """

    box: Box
    loss: float
    low: float
    high: float
    samples: int
    gain: float
    chance: float
    smallest: Box
    largest: Box


def find_clusters(
    space: Space, codes: Codes, losses: Values, threshold: float = 0.1, seed: int = 1
) -> list[Cluster]:
    """Clusters of samples whose loss is at least `threshold`, the largest gain first.

    `codes` are uniform samples, `losses` log(expected / measured) of each; `seed` is that of the permutations.
    """
    if len(codes) == 0:
        return []
    pursuit = Pursuit(space, codes, losses)
    fit = pursuit.run()
    least = -np.log1p(-threshold)
    if not any(height >= least for height in fit.heights):
        return []
    rng = np.random.default_rng(seed)
    location, scale = _null(pursuit, fit, rng)
    intervals = _intervals(pursuit, fit, rng)
    clusters = []
    for at, (box, height) in enumerate(zip(fit.boxes, fit.heights, strict=True)):
        rest = pursuit.fit([*fit.boxes[:at], *fit.boxes[at + 1 :]], fit.noise)
        gain = fit.score - rest.score
        # What a Gumbel distribution has beyond.
        chance = max(float(-np.expm1(-np.exp(-(gain - location) / scale))), LEAST_CHANCE)
        if height < least or chance > LEVEL:
            continue
        smallest, largest = _faces(pursuit, fit, at)
        low, high = intervals[:, at]
        clusters.append(
            Cluster(
                box=box,
                loss=float(-np.expm1(-height)),
                low=float(-np.expm1(-low)),
                high=float(-np.expm1(-high)),
                samples=int(fit.inside[at].sum()),
                gain=float(gain),
                chance=chance,
                smallest=smallest,
                largest=largest,
            )
        )
    return sorted(clusters, key=lambda cluster: -cluster.gain)


def _null(pursuit: Pursuit, fit: Fit, rng: np.random.Generator) -> tuple[float, float]:
    """Location and scale of the largest gains in errors that have nothing to do with settings."""
    variance = fit.noise.error**2 + fit.noise.spread**2 * (fit.inside.T @ fit.heights**2)
    errors = (pursuit.losses - fit.fitted) / np.sqrt(variance) * fit.noise.error
    gains = []
    for _ in range(PERMUTATIONS):
        dealt = pursuit.with_losses(rng.permutation(errors))
        empty = dealt.fit([], replace(fit.noise, spread=0.0))
        found = dealt.find_box(empty)
        gains.append(found[1] if found else -pursuit.cost)
    scale = max(float(np.std(gains, ddof=1)) * np.sqrt(6) / np.pi, 0.5)
    return float(np.mean(gains)) - np.euler_gamma * scale, scale


def _intervals(pursuit: Pursuit, fit: Fit, rng: np.random.Generator) -> Values:
    """Low and high heights of each box, (2, boxes), from samples drawn again."""
    drawn = []
    for _ in range(RESAMPLED):
        at = rng.integers(len(pursuit.codes), size=len(pursuit.codes))
        drawn.append(pursuit.heights(fit, at))
    tail = (1 - CONFIDENCE) / 2
    return np.asarray(np.quantile(np.array(drawn), [tail, 1 - tail], axis=0))


def _faces(pursuit: Pursuit, fit: Fit, which: int) -> tuple[Box, Box]:
    """A box with each dimension's set as small and as large as the samples allow, one dimension at a time."""
    gains = pursuit.gains(fit, which, float(fit.heights[which]))
    smallest, largest = list(fit.boxes[which]), list(fit.boxes[which])
    for at in pursuit.varied:
        sets = pursuit.space.dimensions[at].sets
        likely = pursuit.sums(gains, fit.boxes[which], at)
        chosen = fit.boxes[which][at]
        good = np.flatnonzero(likely >= likely[chosen] - _AS_LIKELY)
        inner = [index for index in good if not (sets[index] & ~sets[chosen]).any()]
        outer = [index for index in good if not (sets[chosen] & ~sets[index]).any()]
        smallest[at] = int(min(inner, key=lambda index: int(sets[index].sum())))
        largest[at] = int(max(outer, key=lambda index: int(sets[index].sum())))
    return tuple(smallest), tuple(largest)

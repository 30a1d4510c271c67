"""How sure a cluster is: whether chance could have made it, the interval of its loss, and how far each face could be off.

Samples chosen because others near them were slow place faces, and prove nothing. Either of two tests does:

- Of uniform samples a cluster is compared with the best boxes that the same search finds in the errors of the fit, dealt to the
  samples at random; the largest of many such gains follow a Gumbel distribution (Dwass, Modified randomization tests for
  nonparametric hypotheses, Annals of Mathematical Statistics 28, 1957; Gumbel, Statistics of extremes, 1958). Where other
  samples were chosen, the losses of the box itself are dealt, too.
- Of pairs measured after the cluster was found, one setting inside and one outside, the mean difference is compared with that
  of errors of the fit, dealt to as many pairs at random. Neither faces nor heights were fitted to pairs.

With both, the smaller chance counts twice (Bonferroni).
"""

from dataclasses import dataclass, replace

import numpy as np

from iotrail.anomaly.faces import Pairs
from iotrail.anomaly.pursuit import FEWEST_SAMPLES, Fit, Pursuit
from iotrail.anomaly.space import Box, Codes, Flags, Space, Values

# Times the errors are dealt at random.
PERMUTATIONS = 39
# Times errors are dealt to pairs: ten times what tells the least chance.
_DEALT = 100_000
_AT_ONCE = 10_000
# What a difference counts at most, in standard deviations of an error: one that is wrong proves nothing.
_FAR = 5.0
# Fewest pairs that prove a cluster: of fewer, one wrong measurement would.
FEWEST_PAIRS = 3
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
    `uniform` of them uniform; `chance` is the probability of so clear a box if losses had nothing to do with settings, at least `LEAST_CHANCE`; `pairs`
    is how many measured pairs of settings it rests on; `smallest` and `largest` are the boxes with all faces as far in and out as
    the samples allow.
    """

    box: Box
    loss: float
    low: float
    high: float
    samples: int
    uniform: int
    pairs: int
    gain: float
    chance: float
    smallest: Box
    largest: Box


def find_candidates(space: Space, codes: Codes, losses: Values, threshold: float = 0.1) -> list[Box]:
    """Boxes whose loss is at least `threshold`, proven or not; arguments as of `find_clusters`."""
    if len(codes) == 0:
        return []
    fit = Pursuit(space, codes, losses).run()
    least = -np.log1p(-threshold)
    return [box for box, height in zip(fit.boxes, fit.heights, strict=True) if height >= least]


def find_clusters(
    space: Space,
    codes: Codes,
    losses: Values,
    threshold: float = 0.1,
    seed: int = 1,
    *,
    uniform: Flags | None = None,
    pairs: Pairs | None = None,
) -> list[Cluster]:
    """Clusters of samples whose loss is at least `threshold`, the largest gain first.

    `codes` are samples, `losses` log(expected / measured) of each; `uniform` says which were drawn uniformly (None: all).
    `pairs` were measured after the samples. `seed` is that of the permutations.
    """
    found = judge_candidates(space, codes, losses, threshold, seed, uniform=uniform, pairs=pairs)
    return [cluster for cluster in found if cluster.chance <= LEVEL]


def judge_candidates(
    space: Space,
    codes: Codes,
    losses: Values,
    threshold: float = 0.1,
    seed: int = 1,
    *,
    uniform: Flags | None = None,
    pairs: Pairs | None = None,
) -> list[Cluster]:
    """All boxes of samples whose loss is at least `threshold`, those that chance could have made, too; arguments as of
    `find_clusters`."""
    if len(codes) == 0:
        return []
    pursuit = Pursuit(space, codes, losses)
    fit = pursuit.run()
    least = -np.log1p(-threshold)
    if not any(height >= least for height in fit.heights):
        return []
    rng = np.random.default_rng(seed)
    uniform = np.ones(len(codes), dtype=bool) if uniform is None else uniform
    null = _null(pursuit, fit, rng) if uniform.all() else None
    intervals = _intervals(pursuit, fit, rng)
    clusters = []
    for at, (box, height) in enumerate(zip(fit.boxes, fit.heights, strict=True)):
        if height < least:
            continue
        gain = _gain(pursuit, fit, at)
        across, by_pairs = _chance_of_pairs(pursuit, fit, at, pairs, rng)
        if by_pairs is not None and 2 * by_pairs <= LEVEL:
            # Smaller it may be, but not larger, whatever uniform samples say.
            chance = 2 * by_pairs
        else:
            chance = _chance_of_some(pursuit, fit, at, uniform, rng) if null is None else _beyond(gain, *null)
            chance = chance if by_pairs is None else min(2 * chance, 2 * by_pairs, 1.0)
        chance = max(chance, LEAST_CHANCE)
        smallest, largest = _faces(pursuit, fit, at)
        low, high = intervals[:, at]
        clusters.append(
            Cluster(
                box=box,
                loss=float(-np.expm1(-height)),
                low=float(-np.expm1(-low)),
                high=float(-np.expm1(-high)),
                samples=int(fit.inside[at].sum()),
                uniform=int((fit.inside[at] & uniform).sum()),
                pairs=across,
                gain=float(gain),
                chance=chance,
                smallest=smallest,
                largest=largest,
            )
        )
    return sorted(clusters, key=lambda cluster: -cluster.gain)


def _gain(pursuit: Pursuit, fit: Fit, which: int) -> float:
    """By how much a fit explains more than one without a box does, in nats."""
    return fit.score - pursuit.fit([*fit.boxes[:which], *fit.boxes[which + 1 :]], fit.noise).score


def _chance_of_pairs(
    pursuit: Pursuit, fit: Fit, which: int, pairs: Pairs | None, rng: np.random.Generator
) -> tuple[int, float | None]:
    """How many fresh pairs are across the faces of a box, and the probability of so large a mean difference of their losses if
    the box had none; None of too few pairs."""
    if pairs is None:
        return 0, None
    across = np.flatnonzero(pairs.across(pursuit.space, fit.boxes, which) & pairs.is_fresh)
    if len(across) < FEWEST_PAIRS:
        return len(across), None
    # Both sides are in the same other boxes: what those take cancels, and adds to the error of both.
    others = [at for at in range(len(fit.boxes)) if at != which]
    squares = np.zeros(len(across))
    for at in others:
        squares += pursuit.space.contains(fit.boxes[at], pairs.inside[across]) * fit.heights[at] ** 2
    deviations = np.sqrt(fit.noise.error**2 + fit.noise.spread**2 * squares)
    difference = (pairs.losses_inside[across] - pairs.losses_outside[across]) / deviations
    variance = fit.noise.error**2 + fit.noise.spread**2 * (fit.inside.T @ fit.heights**2)
    errors = (pursuit.losses - fit.fitted) / np.sqrt(variance)
    # The mean of pairs, each as exact as its deviation is small.
    weights = 1 / deviations
    told = float(np.clip(difference, -_FAR, _FAR) @ weights)
    reached = 0
    for _ in range(_DEALT // _AT_ONCE):
        dealt = rng.choice(errors, size=(2, _AT_ONCE, len(across)))
        reached += int((np.clip(dealt[0] - dealt[1], -_FAR, _FAR) @ weights >= told).sum())
    return len(across), (reached + 1) / (_DEALT + 1)


def _null(pursuit: Pursuit, fit: Fit, rng: np.random.Generator) -> tuple[float, float]:
    """Location and scale of the largest gains in errors that have nothing to do with settings."""
    variance = fit.noise.error**2 + fit.noise.spread**2 * (fit.inside.T @ fit.heights**2)
    return _largest_gains(
        pursuit, (pursuit.losses - fit.fitted) / np.sqrt(variance) * fit.noise.error, fit, rng
    )


def _chance_of_some(
    pursuit: Pursuit, fit: Fit, which: int, uniform: Flags, rng: np.random.Generator
) -> float:
    """The probability that uniform samples have so clear a box if losses had nothing to do with settings. Others chose the box, so
    that its own losses may be chance, too: they are dealt with the errors."""
    proof = Pursuit(pursuit.space, pursuit.codes[uniform], pursuit.losses[uniform])
    some = proof.fit(fit.boxes, fit.noise)
    inside, height = some.inside[which], some.heights[which]
    # Of fewer the search makes no box, wherever they are dealt to.
    if inside.sum() < FEWEST_SAMPLES:
        return 1.0
    squares = some.inside.T @ some.heights**2 - inside * height**2
    deviations = np.sqrt(some.noise.error**2 + some.noise.spread**2 * squares)
    errors = (proof.losses - some.fitted + inside * height) / deviations * some.noise.error
    return _beyond(_gain(proof, some, which), *_largest_gains(proof, errors, some, rng))


def _beyond(gain: float, location: float, scale: float) -> float:
    """What a Gumbel distribution has beyond."""
    return float(-np.expm1(-np.exp(-(gain - location) / scale)))


def _largest_gains(
    pursuit: Pursuit, errors: Values, fit: Fit, rng: np.random.Generator
) -> tuple[float, float]:
    """Location and scale of the largest gains in errors that are dealt to samples."""
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
        # by the samples alone: that a set is simpler to say makes it no likelier here
        likely = pursuit.sums(gains, fit.boxes[which], at) + pursuit.costs[at]
        chosen = fit.boxes[which][at]
        good = np.flatnonzero(likely >= likely[chosen] - _AS_LIKELY)
        inner = [index for index in good if not (sets[index] & ~sets[chosen]).any()]
        outer = [index for index in good if not (sets[chosen] & ~sets[index]).any()]
        smallest[at] = int(min(inner, key=lambda index: int(sets[index].sum())))
        largest[at] = int(max(outer, key=lambda index: int(sets[index].sum())))
    return tuple(smallest), tuple(largest)

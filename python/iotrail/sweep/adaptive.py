"""Which settings to measure next: where fits that the samples leave open disagree most.

Query by committee (Seung, Opper and Sompolinsky, COLT 1992). A member is a fit of causes (`iotrail.anomaly.pursuit`) to
resampled samples: it has the boxes of the fit to all samples, each with faces drawn by how likely they are in a resample
(Gibbs sampling: Geman and Geman, IEEE PAMI 6, 1984), and around samples that the fit doesn't explain boxes of its own. A batch
is chosen one setting after the other; what the members would agree on after one is measured doesn't count for the next (the
update of an ensemble Kalman filter: Whitaker and Hamill, Monthly Weather Review 130, 2002).

Chosen settings are no uniform samples: they place faces, and prove nothing. No clock: the same samples and seed give the
same choice.
"""

from dataclasses import dataclass

import numpy as np

from iotrail.anomaly.pursuit import Fit, Pursuit
from iotrail.anomaly.space import Box, Codes, Values

# Members of the committee.
MEMBERS = 24
# Rounds of Gibbs sampling for each box of a member: faces of the fit are likely to begin with, those of a new box are not.
_ROUNDS, _NEW_ROUNDS = 3, 6
# Boxes around unexplained samples that a member has at most.
_MOST_NEW = 2
# A loss stands out if it is so many times further from the median than most are (the median absolute deviation, as a
# standard deviation) and at least a tenth.
_STANDS_OUT = 4.0
_LEAST_LOSS = 0.1
_AS_DEVIATION = 1.4826
# Settings among which a batch is chosen at most, so that choosing takes seconds and some 100 MB.
MOST_CANDIDATES = 50_000
# A setting is worth measuring while its members' variance is so large a part of its error's.
_WORTH = 0.1


def stands_out(losses: Values) -> bool:
    """Whether any loss, log(expected / measured), is unlike the others. It looks at losses only, not at their settings: that
    uniform sampling goes on until then leaves losses that have nothing to do with settings as they are."""
    if len(losses) < 2:
        return False
    apart = np.abs(losses - np.median(losses))
    return bool(apart.max() > max(_LEAST_LOSS, _STANDS_OUT * _AS_DEVIATION * float(np.median(apart))))


@dataclass
class _Committee:
    """What members expect of candidates: losses less their mean, (members, candidates), and the variance of an error at
    each candidate."""

    spread: Values
    error: Values


def choose(pursuit: Pursuit, fit: Fit, candidates: Codes, number: int, rng: np.random.Generator) -> Codes:
    """The settings of `candidates` to measure next, at most `number`, (settings, dimensions); fewer, and perhaps none, if the
    members agree on all others.

    `pursuit` has what was measured, and `fit` is what it says of that.
    """
    committee = _committee(pursuit, fit, candidates, rng)
    spread, chosen = committee.spread, []
    left = np.ones(len(candidates), dtype=bool)
    for _ in range(min(number, len(candidates))):
        variance = np.mean(spread**2, axis=0)
        at = int(np.argmax(np.where(left, variance / committee.error, -1.0)))
        if variance[at] < _WORTH * committee.error[at]:
            break
        chosen.append(at)
        left[at] = False
        known = spread[:, at].copy()
        kept = np.sqrt(committee.error[at] / (variance[at] + committee.error[at]))
        spread -= (1 - kept) * np.outer(known, known @ spread / len(spread) / variance[at])
    return candidates[chosen]


def _committee(pursuit: Pursuit, fit: Fit, candidates: Codes, rng: np.random.Generator) -> _Committee:
    rest = pursuit.losses - fit.fitted
    squares = fit.inside.T @ fit.heights**2
    unexplained = np.flatnonzero(
        rest > np.maximum(_LEAST_LOSS, 3 * np.sqrt(fit.noise.error**2 + fit.noise.spread**2 * squares))
    )
    expected = np.zeros((MEMBERS, len(candidates)))
    squares_there = np.zeros((MEMBERS, len(candidates)))
    for member in range(MEMBERS):
        weights = rng.exponential(size=len(pursuit.codes))
        boxes = [
            _draw(pursuit, pursuit.gains(fit, at, float(height)) * weights, box, _ROUNDS, rng)
            for at, (box, height) in enumerate(zip(fit.boxes, fit.heights, strict=True))
        ]
        heights = list(fit.heights)
        for box, height in _new_boxes(pursuit, fit, unexplained, rest, weights, rng):
            boxes.append(box)
            heights.append(height)
        for box, height in zip(boxes, heights, strict=True):
            inside = pursuit.space.contains(box, candidates)
            expected[member] += height * inside
            squares_there[member] += height**2 * inside
    error = fit.noise.error**2 + fit.noise.spread**2 * squares_there.mean(axis=0)
    return _Committee(expected - expected.mean(axis=0), error)


def _new_boxes(
    pursuit: Pursuit,
    fit: Fit,
    unexplained: Codes,
    rest: Values,
    weights: Values,
    rng: np.random.Generator,
) -> list[tuple[Box, float]]:
    """Boxes around samples that a fit doesn't explain, with their heights."""
    found: list[tuple[Box, float]] = []
    left = unexplained
    while len(left) and len(found) < _MOST_NEW:
        start = int(rng.choice(left))
        height = float(rest[start])
        gains = pursuit.gains(fit, None, height) * weights
        box = tuple(int(chosen) for chosen in pursuit.starts[start])
        box = _draw(pursuit, gains, box, _NEW_ROUNDS, rng, around=start)
        found.append((box, height))
        left = left[~pursuit.space.contains(box, pursuit.codes[left])]
    return found


def _draw(
    pursuit: Pursuit,
    gains: Values,
    box: Box,
    rounds: int,
    rng: np.random.Generator,
    around: int | None = None,
) -> Box:
    """A box with faces drawn by their likelihood, one dimension after the other; it has the sample `around`."""
    for _ in range(rounds):
        for at in rng.permutation(pursuit.varied):
            likely = pursuit.sums(gains, box, int(at))
            if around is not None:
                likely = np.where(pursuit.inside[at][:, around], likely, -np.inf)
            chances = np.exp(likely - likely.max())
            chosen = int(rng.choice(len(chances), p=chances / chances.sum()))
            box = (*box[:at], chosen, *box[at + 1 :])
    return box

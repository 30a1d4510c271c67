"""Faces of clusters, judged by pairs of settings that were measured for that: one inside, one outside.

What is judged is the loss inside less that outside, log((measured / expected) outside / (measured / expected) inside), of the
pairs across a face in the order of their measurement (`iotrail.diff.noise.mean`); of all faces that are called confirmed, one
in twenty errs (`iotrail.diff.noise.discoveries`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from iotrail.anomaly.describe import value_text
from iotrail.anomaly.space import Box, Codes, Dimension, Flags, Space, Values
from iotrail.diff import noise

# Share of the faces called confirmed that err.
_ERRING = 0.05


@dataclass(frozen=True)
class Pairs:
    """Pairs of settings that were measured to confirm clusters, in the order of that: codes and losses, log(expected /
    measured), inside and outside, and whether neither setting had been measured before."""

    inside: Codes
    outside: Codes
    losses_inside: Values
    losses_outside: Values
    is_fresh: Flags

    def across(self, space: Space, boxes: Sequence[Box], which: int) -> Flags:
        """Which pairs are one in a box and one not, and both in the same others."""
        inside = np.stack([space.contains(box, self.inside) for box in boxes])
        outside = np.stack([space.contains(box, self.outside) for box in boxes])
        same = inside == outside
        same[which] = inside[which] & ~outside[which]
        return np.asarray(same.all(axis=0))


@dataclass(frozen=True)
class Face:
    """A face of a cluster: its dimension, the values at its two sides, and what its pairs say. `loss` is the share of what the
    outside reaches that is missing inside, from `low` to `high` with 95 % confidence (None of fewer than two pairs); `chance`
    is that of so large a difference by noise, adjusted for the number of faces; `is_confirmed` is None where too few pairs
    were measured to tell."""

    dimension: str
    inside: str
    outside: str
    pairs: int
    loss: float
    low: float | None
    high: float | None
    chance: float | None
    is_confirmed: bool | None


def judge(space: Space, boxes: Sequence[Box], pairs: Pairs) -> list[list[Face]]:
    """The faces of each box that pairs are across, in the order of the dimensions; of a face without a pair nothing is said."""
    by_face: dict[tuple[int, int, int], list[int]] = {}
    for which, box in enumerate(boxes):
        for pair in np.flatnonzero(pairs.across(space, boxes, which)):
            if (crossed := _face(space, box, pairs.inside[pair], pairs.outside[pair])) is not None:
                by_face.setdefault((which, *crossed), []).append(int(pair))
    estimates = {
        face: noise.mean(pairs.losses_inside[chosen] - pairs.losses_outside[chosen])
        for face, chosen in by_face.items()
    }
    told = {face: estimate.p for face, estimate in estimates.items() if estimate.p is not None}
    chances = dict(zip(told, noise.discoveries(list(told.values())), strict=True))
    found: list[list[Face]] = [[] for _ in boxes]
    for (which, at, side), chosen in sorted(by_face.items()):
        face, dimension = (which, at, side), space.dimensions[at]
        estimate, chance = estimates[face], chances.get(face)
        found[which].append(
            Face(
                dimension=dimension.name,
                inside=_values_text(dimension, pairs.inside[chosen, at]),
                outside=_values_text(dimension, pairs.outside[chosen, at]),
                pairs=len(chosen),
                loss=float(-np.expm1(-estimate.value)),
                low=None if chance is None else float(-np.expm1(-estimate.low)),
                high=None if chance is None else float(-np.expm1(-estimate.high)),
                chance=chance,
                is_confirmed=None if chance is None else bool(estimate.value > 0 and chance <= _ERRING),
            )
        )
    return found


def _face(space: Space, box: Box, inside: Codes, outside: Codes) -> tuple[int, int] | None:
    """The one dimension in which a setting outside leaves a box, and whether below, above, or (without an order) elsewhere;
    None if it leaves it in more than one."""
    left = [
        at
        for at, (dimension, chosen) in enumerate(zip(space.dimensions, box, strict=True))
        if not dimension.sets[chosen][outside[at]]
    ]
    if len(left) != 1:
        return None
    (at,) = left
    side = int(np.sign(outside[at] - inside[at])) if space.dimensions[at].is_ordered else 0
    return at, side


def _values_text(dimension: Dimension, codes: Codes) -> str:
    """Values of a dimension in words."""
    return " or ".join(value_text(dimension, dimension.values[int(code)]) for code in np.unique(codes))

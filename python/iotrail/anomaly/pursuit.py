"""Overlapping causes of losses, told apart: a sum of boxes fitted to the size of losses.

A sample's loss is y = log(expected / measured): losses of causes that multiply add up. The model is y = Σ h over the boxes
that the setting is in, with an error whose variance grows with the losses, σ² + ρ² Σ h²; a few samples are just wrong
(`Noise.wrong`). Boxes are found one after the other, each where it explains most of what is left, and after each the
heights of all, and then the faces of all, are fitted again until nothing changes: a box next to a deeper one gets the faces
that it has alone. A box must explain more than it takes to describe it (minimum description length: Rissanen, Modeling by
shortest data description, Automatica 14, 1978). No random numbers: the same samples give the same answer.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from iotrail.anomaly.space import Box, Codes, Flags, Space, Values

# Most boxes that are looked for.
MOST_BOXES = 12
# Fewest samples of a box: of fewer, the loss says nothing of the settings between them.
FEWEST_SAMPLES = 3
# The error without losses: none is known better than this, relative.
_ERRORS = np.geomspace(0.01, 0.5, 18)
# The error of a loss, relative to it.
_SPREADS = np.array([0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5])
# The largest with which boxes are looked for the second time.
_STRICT = 0.1
# Density of a wrong sample's error: anything from a tenth to ten times, in log.
_WRONG_DENSITY = 1 / (2 * np.log(10))
# Heights at which a new box is looked for, in quantiles of what is left over.
_QUANTILES = (0.5, 0.7, 0.85, 0.95, 0.99)
# Starts whose box is searched two dimensions at a time.
_POLISHED = 6
# Changes of one set that are tried with heights and noise fitted again, and by how much less likely they are before that.
_TRIED, _NEAR = 8, 3.0
_ROUNDS = 20


@dataclass(frozen=True)
class Noise:
    """The error of samples: without losses, relative to a loss, and the share of samples that are wrong."""

    error: float
    spread: float
    wrong: float


@dataclass
class Fit:
    """Boxes and what they explain.

    `heights` are losses in log, one a box; `inside` is (boxes, samples); `likelihood` the log of the density of all
    samples; `score` that less the description of the boxes, in nats.
    """

    boxes: list[Box]
    heights: Values
    inside: Flags
    noise: Noise
    likelihood: float
    score: float
    fitted: Values = field(repr=False)


class Pursuit:
    """Samples, and the searches in them."""

    def __init__(self, space: Space, codes: Codes, losses: Values) -> None:
        self.space = space
        self.codes = codes
        self.losses = losses
        self.members = [dimension.sets.astype(float) for dimension in space.dimensions]
        self.costs = [
            _costs(dimension.sets, is_ordered=dimension.is_ordered) for dimension in space.dimensions
        ]
        self.inside = [dimension.sets[:, codes[:, at]] for at, dimension in enumerate(space.dimensions)]
        self.onehot = [
            (codes[:, at][:, None] == np.arange(len(dimension.values))).astype(float)
            for at, dimension in enumerate(space.dimensions)
        ]
        # Dimensions whose value tells nothing are left alone.
        self.varied = [at for at, dimension in enumerate(space.dimensions) if len(dimension.values) > 1]
        # Of two dimensions, the samples' cells in a table of their values.
        self.tables = {
            (one, other): codes[:, one] * len(space.dimensions[other].values) + codes[:, other]
            for one in self.varied
            for other in self.varied
            if one < other
        }
        # The height of a box takes half the logarithm of the samples (Schwarz, Estimating the dimension of a model, 1978).
        self.cost = 0.5 * np.log(max(len(codes), 2)) + np.log(len(codes) + 1)
        self.spreads = _SPREADS
        self.starts = np.stack(
            [dimension.single[codes[:, at]] for at, dimension in enumerate(space.dimensions)], axis=1
        )

    def with_losses(self, losses: Values) -> "Pursuit":
        """The same samples with other losses."""
        other = copy.copy(self)
        other.losses = losses
        return other

    # ------------------------------------------------------------------ likelihood

    def members_of(self, boxes: Sequence[Box]) -> Flags:
        """Which samples are in each box, (boxes, samples)."""
        if not boxes:
            return np.zeros((0, len(self.codes)), dtype=bool)
        return np.stack([self.space.contains(box, self.codes) for box in boxes])

    def density(self, rest: Values, squares: Values, noise: Noise) -> Values:
        """Log density of errors `rest` where the squares of the heights of a sample's boxes add up to `squares`."""
        variance = noise.error**2 + noise.spread**2 * squares
        normal = np.exp(-0.5 * rest**2 / variance) / np.sqrt(2 * np.pi * variance)
        return np.asarray(np.log((1 - noise.wrong) * normal + noise.wrong * _WRONG_DENSITY))

    def describe(self, box: Box) -> float:
        """Nats that it takes to describe a box with its height."""
        return float(self.cost + sum(cost[chosen] for cost, chosen in zip(self.costs, box, strict=True)))

    def fit(self, boxes: list[Box], noise: Noise) -> Fit:
        """Heights and noise for given boxes, from noise to start with."""
        inside = self.members_of(boxes)
        design = inside.T.astype(float)
        heights = np.zeros(len(boxes))
        best = None
        for _ in range(_ROUNDS):
            squares = design @ heights**2
            variance = noise.error**2 + noise.spread**2 * squares
            if len(boxes):
                rest = self.losses - design @ heights
                normal = np.exp(-0.5 * rest**2 / variance) / np.sqrt(2 * np.pi * variance)
                right = (1 - noise.wrong) * normal
                right = right / (right + noise.wrong * _WRONG_DENSITY)
                # The first time nothing is known of what is wrong.
                weights = np.sqrt((right if best is not None else 1.0) / variance)
                heights, _ = nnls(design * weights[:, None], self.losses * weights)
            noise = self._noise(self.losses - design @ heights, design @ heights**2)
            likelihood = float(self.density(self.losses - design @ heights, design @ heights**2, noise).sum())
            if best is not None and likelihood <= best[0] + 1e-6:
                break
            best = (likelihood, heights, noise)
        assert best is not None
        likelihood, heights, noise = best
        return Fit(
            boxes=list(boxes),
            heights=heights,
            inside=inside,
            noise=noise,
            likelihood=likelihood,
            score=likelihood - sum(self.describe(box) for box in boxes),
            fitted=design @ heights,
        )

    def _noise(self, rest: Values, squares: Values) -> Noise:
        """The likeliest noise of errors."""
        best, found = -np.inf, None
        spreads = self.spreads if squares.any() else self.spreads[:1]
        variance = _ERRORS[:, None, None] ** 2 + spreads[None, :, None] ** 2 * squares
        normal = np.exp(-0.5 * rest**2 / variance) / np.sqrt(2 * np.pi * variance)
        for wrong in (0.01, 0.03, 0.1, 0.2):
            likelihood = np.log((1 - wrong) * normal + wrong * _WRONG_DENSITY).sum(axis=2)
            error, spread = np.unravel_index(int(np.argmax(likelihood)), likelihood.shape)
            if likelihood[error, spread] > best:
                best = float(likelihood[error, spread])
                found = Noise(float(_ERRORS[error]), float(spreads[spread]), wrong)
        assert found is not None
        return found

    def heights(self, fit: Fit, drawn: NDArray[np.int64]) -> Values:
        """Heights of a fit's boxes for samples drawn from all, by index."""
        variance = fit.noise.error**2 + fit.noise.spread**2 * (fit.inside.T @ fit.heights**2)
        rest = self.losses - fit.fitted
        normal = np.exp(-0.5 * rest**2 / variance) / np.sqrt(2 * np.pi * variance)
        right = (1 - fit.noise.wrong) * normal
        weights = np.sqrt(right / (right + fit.noise.wrong * _WRONG_DENSITY) / variance)[drawn]
        found, _ = nnls(fit.inside.T[drawn] * weights[:, None], self.losses[drawn] * weights)
        return np.asarray(found)

    def wrong(self, fit: Fit) -> Values:
        """The probability that each sample is just wrong."""
        rest, squares = self.losses - fit.fitted, fit.inside.T @ fit.heights**2
        return np.asarray(fit.noise.wrong * _WRONG_DENSITY / np.exp(self.density(rest, squares, fit.noise)))

    # ------------------------------------------------------------------ search

    def gains(self, fit: Fit, without: int | None, height: float) -> Values:
        """How much likelier each sample is in one more box of a height than outside it; `without` leaves a box out."""
        rest = self.losses - fit.fitted
        squares = fit.inside.T @ fit.heights**2
        if without is not None:
            rest = rest + fit.inside[without] * fit.heights[without]
            squares = squares - fit.inside[without] * fit.heights[without] ** 2
        outside = self.density(rest, squares, fit.noise)
        return self.density(rest - height, squares + height**2, fit.noise) - outside

    def sums(self, gains: Values, box: Box, at: int) -> Values:
        """The gain of a box with each set of one dimension, less what describes the set."""
        others = np.ones(len(gains), dtype=bool)
        for other in self.varied:
            if other != at:
                others &= self.inside[other][box[other]]
        return np.asarray(self.members[at] @ (self.onehot[at].T @ (gains * others)) - self.costs[at])

    def climb(self, gains: Values, boxes: Codes) -> tuple[Codes, Values]:
        """Each box with the sets of one dimension after the other that gain most, until none gains; boxes as rows of
        indices of sets, changed in place. Returns them with their gains less what describes them."""
        inside = [members[boxes[:, at]] for at, members in enumerate(self.inside)]
        totals = np.full(len(boxes), -np.inf)
        for _ in range(_ROUNDS):
            before = totals
            for at in self.varied:
                others = np.ones((len(boxes), len(gains)), dtype=bool)
                for other in self.varied:
                    if other != at:
                        others &= inside[other]
                sums = ((others * gains) @ self.onehot[at]) @ self.members[at].T - self.costs[at]
                boxes[:, at] = sums.argmax(axis=1)
                totals = sums.max(axis=1)
                inside[at] = self.inside[at][boxes[:, at]]
            if np.array_equal(totals, before):
                break
        costs = sum((self.costs[at][boxes[:, at]] for at in self.varied[:-1]), np.zeros(len(boxes)))
        return boxes, totals - costs - self.cost

    def polish(self, gains: Values, box: Box) -> tuple[Box, float]:
        """A box with the sets of two dimensions at a time that gain most, until none gains; with its gain."""
        inside = [self.inside[at][chosen] for at, chosen in enumerate(box)]
        sets, best = list(box), -np.inf
        if not self.tables:
            rows, totals = self.climb(gains, np.array([box]))
            return tuple(int(chosen) for chosen in rows[0]), float(totals[0])
        costs = np.array([cost[chosen] for cost, chosen in zip(self.costs, box, strict=True)])
        improved = True
        while improved:
            improved = False
            for (one, other), cells in self.tables.items():
                among = np.ones(len(gains), dtype=bool)
                for at in self.varied:
                    if at not in (one, other):
                        among &= inside[at]
                shape = len(self.members[one][0]), len(self.members[other][0])
                table = np.bincount(cells, weights=gains * among, minlength=shape[0] * shape[1]).reshape(
                    shape
                )
                sums = self.members[one] @ table @ self.members[other].T
                sums = sums - self.costs[one][:, None] - self.costs[other]
                first, second = divmod(int(sums.argmax()), sums.shape[1])
                rest = float(costs.sum() - costs[one] - costs[other])
                total = float(sums[first, second]) - rest - self.cost
                if total > best + 1e-9:
                    improved = improved or (first, second) != (sets[one], sets[other])
                    best = total
                    sets[one], sets[other] = first, second
                    costs[one], costs[other] = self.costs[one][first], self.costs[other][second]
                    inside[one], inside[other] = self.inside[one][first], self.inside[other][second]
        return tuple(sets), best

    def find_box(self, fit: Fit, without: int | None = None) -> tuple[Box, float] | None:
        """The box that explains most of what a fit leaves over, and its gain in nats; None if none has enough samples."""
        rest = self.losses - fit.fitted
        if without is not None:
            rest = rest + fit.inside[without] * fit.heights[without]
        left = rest[rest > fit.noise.error]
        if len(left) < FEWEST_SAMPLES:
            return None
        best: tuple[Box, float] | None = None
        for height in np.unique(np.quantile(left, _QUANTILES)):
            gains = self.gains(fit, without, float(height))
            starts = np.unique(self.starts[gains > 0], axis=0)
            starts = np.concatenate((starts, [self.space.everything]))
            rows, totals = self.climb(gains, starts)
            order = np.argsort(-totals, kind="stable")
            rows, totals = rows[order], totals[order]
            _, first = np.unique(rows, axis=0, return_index=True)
            for at in np.sort(first)[:_POLISHED]:
                box, gain = self.polish(gains, tuple(int(chosen) for chosen in rows[at]))
                if best is not None and gain <= best[1]:
                    continue
                if int(self.space.contains(box, self.codes).sum()) >= FEWEST_SAMPLES:
                    best = (box, gain)
        return best

    def refine(self, fit: Fit) -> Fit:
        """A fit with the faces of each box where they gain most, heights fitted again, until nothing gains."""
        for _ in range(_ROUNDS):
            before = fit.score
            for at in range(len(fit.boxes)):
                if fit.heights[at] <= 0:
                    continue
                box, _ = self.polish(self.gains(fit, at, float(fit.heights[at])), fit.boxes[at])
                if box != fit.boxes[at]:
                    tried = self.fit([*fit.boxes[:at], box, *fit.boxes[at + 1 :]], fit.noise)
                    if tried.score > fit.score:
                        fit = tried
            if fit.score <= before + 1e-6:
                break
        return fit

    def drop(self, fit: Fit) -> Fit:
        """A fit without the boxes that don't explain what it takes to describe them."""
        while fit.boxes:
            tried = [
                self.fit([*fit.boxes[:at], *fit.boxes[at + 1 :]], fit.noise) for at in range(len(fit.boxes))
            ]
            best = max(tried, key=lambda one: one.score)
            if best.score < fit.score:
                break
            fit = best
        return fit

    def run(self) -> Fit:
        """All boxes: the better of two fits, of which one looks for boxes as if losses hardly varied. Where they may vary much, one
        box for two causes looks good enough that neither is found alone; where they may not, causes that do are cut up."""
        fit = self.pursue()
        if not fit.boxes:
            return fit
        strict = copy.copy(self)
        strict.spreads = _SPREADS[_SPREADS <= _STRICT]
        found = strict.pursue()
        other = self.settle(self.drop(self.refine(self.fit(found.boxes, found.noise))))
        return self.divide(max(fit, other, key=lambda one: one.score))

    def divide(self, fit: Fit) -> Fit:
        """A fit with two boxes in place of one where that is better: which replacing it by one doesn't find."""
        for _ in range(_ROUNDS):
            before = fit.score
            for at in range(len(fit.boxes)):
                tried = self.fit([*fit.boxes[:at], *fit.boxes[at + 1 :]], fit.noise)
                for _ in range(2):
                    found = self.find_box(tried)
                    if found is None:
                        break
                    tried = self.refine(self.fit([*tried.boxes, found[0]], tried.noise))
                tried = self.settle(self.drop(tried))
                if tried.score > fit.score + 1e-6:
                    fit = tried
                    break
            if fit.score <= before + 1e-6:
                break
        return fit

    def pursue(self) -> Fit:
        """Boxes one after the other, each where it explains most of what is left."""
        fit = self.fit([], Noise(0.05, 0.0, 0.01))
        while len(fit.boxes) < MOST_BOXES:
            found = self.find_box(fit)
            if found is None:
                break
            tried = self.drop(self.refine(self.fit([*fit.boxes, found[0]], fit.noise)))
            if tried.score <= fit.score + 1e-6:
                break
            fit = tried
        return self.settle(self.replace(fit))

    def replace(self, fit: Fit) -> Fit:
        """A fit whose boxes were each looked for again, without where they were, until none is better."""
        for _ in range(_ROUNDS):
            before = fit.score
            for at in range(len(fit.boxes)):
                if at >= len(fit.boxes):
                    break
                rest = self.fit([*fit.boxes[:at], *fit.boxes[at + 1 :]], fit.noise)
                found = self.find_box(rest)
                if found is None or found[0] == fit.boxes[at]:
                    continue
                boxes = [*fit.boxes[:at], found[0], *fit.boxes[at + 1 :]]
                tried = self.drop(self.refine(self.fit(boxes, fit.noise)))
                if tried.score > fit.score + 1e-6:
                    fit = tried
            if fit.score <= before + 1e-6:
                break
        return fit

    def settle(self, fit: Fit) -> Fit:
        """A fit with single sets of boxes changed where that gains with all heights fitted again, until none gains. Of a box
        whose samples are mostly in another too, `refine` takes the other's height for given, which has part of its own."""
        for _ in range(_ROUNDS):
            for boxes in self._changed(fit):
                tried = self.fit(boxes, fit.noise)
                if tried.score > fit.score + 1e-6:
                    fit = self.drop(self.refine(tried))
                    break
            else:
                break
        return fit

    def _changed(self, fit: Fit) -> list[list[Box]]:
        """Boxes of which one has another set in one dimension: those that gain most for the noise of a fit."""
        squares = fit.inside.T @ fit.heights**2
        variance = fit.noise.error**2 + fit.noise.spread**2 * squares
        right = np.exp(-0.5 * (self.losses - fit.fitted) ** 2 / variance) / np.sqrt(2 * np.pi * variance)
        right = (1 - fit.noise.wrong) * right
        weights = np.sqrt(right / (right + fit.noise.wrong * _WRONG_DENSITY) / variance)
        weighted = self.losses * weights
        found: list[tuple[float, list[Box]]] = []
        for which, box in enumerate(fit.boxes):
            design = fit.inside.T.astype(float)
            others = sum(self.describe(other) for at, other in enumerate(fit.boxes) if at != which)
            for at in self.varied:
                among = np.ones(len(self.codes), dtype=bool)
                for other in self.varied:
                    if other != at:
                        among &= self.inside[other][box[other]]
                # Sets with the same samples are told apart by what they take to describe.
                columns, first = np.unique(self.inside[at] & among, axis=0, return_inverse=True)
                for number, column in enumerate(columns):
                    sets = np.flatnonzero(first == number)
                    chosen = int(sets[np.argmin(self.costs[at][sets])])
                    if chosen == box[at] or int(column.sum()) < FEWEST_SAMPLES:
                        continue
                    design[:, which] = column
                    heights, _ = nnls(design * weights[:, None], weighted)
                    likelihood = self.density(self.losses - design @ heights, design @ heights**2, fit.noise)
                    changed = (*box[:at], chosen, *box[at + 1 :])
                    score = float(likelihood.sum()) - others - self.describe(changed)
                    found.append((score, [*fit.boxes[:which], changed, *fit.boxes[which + 1 :]]))
        found.sort(key=lambda one: -one[0])
        return [boxes for score, boxes in found[:_TRIED] if score > fit.score - _NEAR]


def _costs(sets: Flags, *, is_ordered: bool) -> NDArray[np.float64]:
    """Nats that describe each set of a dimension's values: half of all dimensions have no bound, half of the others one
    (or, without an order, a value alone)."""
    n = sets.shape[1]
    sizes = sets.sum(axis=1)
    full = sizes == n
    simple = (sets[:, 0] | sets[:, -1]) if is_ordered else sizes == 1
    costs = np.full(len(sets), np.log(2))
    simple = simple & ~full
    other = ~simple & ~full
    costs[simple] += np.log(2) * bool(other.any()) + np.log(max(simple.sum(), 1))
    costs[other] += np.log(2) + np.log(max(other.sum(), 1))
    return np.asarray(costs - np.log(2))


def find_boxes(space: Space, codes: Codes, losses: Values) -> Fit:
    """The boxes whose losses add up to those of the samples; `losses` are log(expected / measured), (samples,)."""
    return Pursuit(space, codes, losses).run()

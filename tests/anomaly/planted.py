"""Settings as in Shen, Zhong and Li (FAST 2005), section 4.1, with losses planted where section 5 found its causes."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from iotrail.anomaly.space import Box, Codes, Dimension, Space, Value, Values

KIB = 1024
CONCURRENCY = Dimension("concurrency", (1, 2, 4, 8, 16, 32, 64, 128, 256))
STREAM = Dimension("stream", tuple(64 * KIB << at for at in range(7)), unit="bytes")
WHOLE = Dimension("whole_file", ("no", "yes"), is_ordered=False)
RUN = Dimension("run", tuple(16 * KIB << at for at in range(9)), unit="bytes")
THINK = Dimension("think", (1, 2, 4, 8), unit="ms")
PREFETCH = Dimension("prefetch", ("off", "on"), is_ordered=False)
SCHEDULER = Dimension("scheduler", ("elevator", "anticipatory"), is_ordered=False)
DIMENSIONS = (CONCURRENCY, STREAM, WHOLE, RUN, THINK, PREFETCH, SCHEDULER)


def paper_space() -> Space:
    """The paper's 12,096 settings: a run is no longer than its stream."""
    codes = np.array(list(product(*(range(len(dimension.values)) for dimension in DIMENSIONS))))
    stream = np.array(STREAM.values)[codes[:, 1]]
    run = np.array(RUN.values)[codes[:, 3]]
    return Space(DIMENSIONS, codes[run <= stream])


def box(space: Space, **bounds: Sequence[Value] | tuple[Value | None, Value | None]) -> Box:
    """A box from bounds by the dimensions' names: first and last value of ordered ones, None for no bound; values of
    others. Dimensions without bounds are whole."""
    sets = list(space.everything)
    for at, dimension in enumerate(space.dimensions):
        if dimension.name not in bounds:
            continue
        given = bounds[dimension.name]
        wanted = np.array([value in given for value in dimension.values])
        if dimension.is_ordered:
            first, last = given
            at_least = 0 if first is None else dimension.values.index(first)
            at_most = len(dimension.values) - 1 if last is None else dimension.values.index(last)
            wanted = np.array([at_least <= code <= at_most for code in range(len(dimension.values))])
        sets[at] = int(np.flatnonzero((dimension.sets == wanted).all(axis=1))[0])
    return tuple(sets)


def overlap(space: Space, one: Box, other: Box) -> float:
    """Intersection over union of two boxes' feasible settings; 0 where both have none."""
    first, second = space.contains(one, space.feasible), space.contains(other, space.feasible)
    union = int((first | second).sum())
    return float((first & second).sum() / union) if union else 0.0


def is_within_one(space: Space, found: tuple[int, ...], truth: tuple[int, ...]) -> bool:
    """Whether each face is at most one value off; unordered dimensions are equal. Bounds that others imply don't count."""
    one, other = space.simplified(found), space.simplified(truth)
    for dimension, first, second in zip(space.dimensions, one, other, strict=True):
        mine, theirs = np.flatnonzero(dimension.sets[first]), np.flatnonzero(dimension.sets[second])
        if dimension.is_ordered:
            if abs(mine[0] - theirs[0]) > 1 or abs(mine[-1] - theirs[-1]) > 1:
                return False
        elif first != second:
            return False
    return True


def causes(space: Space) -> dict[str, tuple[Box, float]]:
    """The paper's four causes: where each is, and its loss."""
    return {
        "cancel": (box(space, concurrency=(128, None), stream=(256 * KIB, None), prefetch=["on"]), 0.5),
        "distance": (
            box(
                space,
                concurrency=(8, None),
                stream=(256 * KIB, None),
                run=(256 * KIB, None),
                scheduler=["anticipatory"],
            ),
            0.25,
        ),
        "reset": (box(space, concurrency=(2, 2), scheduler=["elevator"]), 0.2),
        "timer": (
            box(
                space,
                concurrency=(2, None),
                stream=(256 * KIB, None),
                run=(256 * KIB, 256 * KIB),
                scheduler=["anticipatory"],
            ),
            0.18,
        ),
    }


def mean_loss(loss: float, spread: float = 0.3) -> float:
    """The loss in the middle of those that a cause takes: of logarithms of what is left, as losses are added up."""
    left = 1 - loss * (1 + spread * np.linspace(-1, 1, 1001))
    return float(1 - np.exp(np.log(left).mean()))


@dataclass(frozen=True)
class Samples:
    """Sampled settings and log(expected / measured) of each."""

    codes: Codes
    losses: Values


def sample(
    space: Space,
    planted: list[tuple[Box, float]],
    *,
    seed: int,
    number: int = 400,
    error: float = 0.03,
    spread: float = 0.3,
) -> Samples:
    """Uniform samples with causes that each take a share of the throughput, up to `spread` more or less of it at each."""
    rng = np.random.default_rng(seed)
    codes = space.feasible[rng.choice(len(space.feasible), size=number, replace=False)]
    throughput = np.exp(rng.normal(0.0, error, size=number))
    for box, loss in planted:
        taken = loss * (1 + spread * rng.uniform(-1, 1, size=number))
        throughput = np.where(space.contains(box, codes), throughput * (1 - taken), throughput)
    return Samples(codes, -np.log(throughput))

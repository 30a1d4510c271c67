"""Algorithm 4.1 of Shen, Zhong and Li (FAST 2005): the box around one dominant cause.

From each anomalous setting a box grows to include another anomalous one, each time the one with which it has most anomalies
while at least a share ε of its samples are anomalous; the largest of all boxes is the answer. Where a space has few enough
boxes and there are many samples, those in each box are counted beforehand; else counting is by bit sets, and what was counted
once is not counted again: many settings grow to the same box.
"""

from math import prod
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from iotrail.anomaly.space import Box, Codes, Flags, Space

# Boxes that are counted beforehand, at most: 4 bytes each for samples, as many for anomalies, and twice that while counting.
MOST_COUNTED = 50_000_000
# Boxes that are counted beforehand, at most, for each pair of an anomaly and a sample: of fewer, bit sets are as fast.
COUNTED_PER_PAIR = 20


class _Counts(Protocol):
    """Samples and anomalies in boxes."""

    def count(self, boxes: Codes) -> tuple[Codes, Codes]:
        """Anomalies and samples in each box; boxes as rows of indices of sets."""


class _Table:
    """Counts of all boxes of a space."""

    def __init__(self, space: Space, codes: Codes, anomalous: Flags) -> None:
        self.samples = _count_all(space, codes)
        self.anomalies = _count_all(space, codes[anomalous])

    def count(self, boxes: Codes) -> tuple[Codes, Codes]:
        """See `_Counts`."""
        at = tuple(boxes.T)
        return self.anomalies[at], self.samples[at]


def _count_all(space: Space, codes: Codes) -> NDArray[np.int32]:
    """How many of these settings are in each box, an axis a dimension."""
    shape = [len(dimension.values) for dimension in space.dimensions]
    cells = np.ravel_multi_index(tuple(codes.T), shape)
    # Exact: a float has all whole numbers up to 2²⁴.
    counts = np.bincount(cells, minlength=prod(shape)).reshape(shape).astype(np.float32)
    for dimension in space.dimensions:
        # Of the first axis, whose values become sets; it comes to be the last one.
        counts = np.tensordot(counts, dimension.sets.astype(np.float32), axes=(0, 1))
    return counts.astype(np.int32)


class _BitSets:
    """Counts of the boxes that are asked for."""

    def __init__(self, space: Space, codes: Codes, anomalous: Flags) -> None:
        # For each dimension and set of its values: the samples with one of them, a bit each; and of them the anomalies.
        self.samples = [
            np.packbits(dimension.sets[:, codes[:, at]], axis=1)
            for at, dimension in enumerate(space.dimensions)
        ]
        self.anomalies = [
            np.packbits(dimension.sets[:, codes[anomalous, at]], axis=1)
            for at, dimension in enumerate(space.dimensions)
        ]
        radix = np.array([len(dimension.sets) for dimension in space.dimensions])
        self.places = np.concatenate(([1], np.cumprod(radix[:-1].astype(object)))).astype(object)
        if int(np.prod(radix.astype(object))) < 2**62:
            self.places = self.places.astype(np.int64)
        self.known: dict[int, tuple[int, int]] = {}

    def count(self, boxes: Codes) -> tuple[Codes, Codes]:
        """See `_Counts`."""
        keys, first, inverse = np.unique(boxes @ self.places, return_index=True, return_inverse=True)
        new = [at for at, key in enumerate(keys) if key not in self.known]
        if new:
            rows = boxes[first[new]]
            anomalies, samples = _count(self.anomalies, rows), _count(self.samples, rows)
            for at, anomaly, sample in zip(new, anomalies, samples, strict=True):
                self.known[keys[at]] = (int(anomaly), int(sample))
        counted = np.array([self.known[key] for key in keys])[inverse.reshape(-1)]
        return counted[:, 0], counted[:, 1]


def _count(bits: list[np.ndarray], boxes: Codes) -> Codes:
    inside = bits[0][boxes[:, 0]]
    for at in range(1, len(bits)):
        inside = inside & bits[at][boxes[:, at]]
    return np.asarray(np.bitwise_count(inside).sum(axis=1, dtype=np.int64))


def find_cluster(space: Space, codes: Codes, anomalous: Flags, epsilon: float = 0.9) -> Box | None:
    """The box of the dominant cluster; None without anomalies.

    `codes` are the samples, `anomalous` says which of them are; `epsilon`, above 0 and at most 1, is the least share of a
    box's samples that are. Of equal choices the earlier sample counts, as in the algorithm's loops.
    """
    points = codes[anomalous]
    if not len(points):
        return None
    counts = _counts(space, codes, anomalous)
    # The box that each box grows to; itself where it doesn't.
    grown: dict[Box, Box] = {}
    best, most = None, 0
    for point in points:
        box = tuple(
            int(dimension.single[code]) for dimension, code in zip(space.dimensions, point, strict=True)
        )
        passed = []
        while box not in grown:
            passed.append(box)
            larger = _grow(space, counts, points, box, epsilon)
            if larger is None:
                grown[box] = box
                break
            box = larger
        end = grown[box]
        grown.update(dict.fromkeys(passed, end))
        inside = int(counts.count(np.array([end]))[0][0])
        if inside > most:
            best, most = end, inside
    return best


def _counts(space: Space, codes: Codes, anomalous: Flags) -> _Counts:
    boxes = prod(len(dimension.sets) for dimension in space.dimensions)
    pairs = len(codes) * int(anomalous.sum())
    if boxes <= min(MOST_COUNTED, COUNTED_PER_PAIR * pairs) and len(codes) < 2**24:
        return _Table(space, codes, anomalous)
    return _BitSets(space, codes, anomalous)


def _grow(space: Space, counts: _Counts, points: Codes, box: Box, epsilon: float) -> Box | None:
    """The best box around this one and one more anomalous setting; None where each has too few anomalies."""
    boxes = np.stack(
        [dimension.grown[box[at], points[:, at]] for at, dimension in enumerate(space.dimensions)], axis=1
    )
    boxes = boxes[(boxes != np.array(box)).any(axis=1)]
    if not len(boxes):
        return None
    anomalies, samples = counts.count(boxes)
    anomalies = np.where(anomalies / samples >= epsilon, anomalies, 0)
    best = int(np.argmax(anomalies))
    return tuple(int(chosen) for chosen in boxes[best]) if anomalies[best] else None


def cover_anomalies(
    space: Space, codes: Codes, anomalous: Flags, epsilon: float = 0.9, least: int = 2
) -> list[Box]:
    """The dominant cluster, then that of the samples outside it, and so on while one has at least `least` anomalies."""
    boxes: list[Box] = []
    left = np.ones(len(codes), dtype=bool)
    while (box := find_cluster(space, codes[left], anomalous[left], epsilon)) is not None:
        inside = space.contains(box, codes) & left
        if int((inside & anomalous).sum()) < least:
            break
        boxes.append(box)
        left &= ~inside
    return boxes

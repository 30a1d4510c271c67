"""Pairs of settings that prove or refute a cluster: one just inside a face of its box, one just outside.

The two differ in the face's dimension alone where that can be measured (a run is no longer than its stream: then in as few
others as possible, and where another cluster ends at the same face, by as little as possible in it), and both are in the same
other clusters, so that what they differ by is what the face stands for. They
are settings that were not measured before, while there are any: how a cluster was found can't have chosen them. Pairs are a
randomized experiment (Fisher, The Design of Experiments, 1935): which face comes when, and which of the two is first, is drawn.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from iotrail.anomaly.space import Box, Codes, Flags, Space

# Settings inside a face for which the nearest outside is searched, if none differs in one dimension alone.
_SEARCHED = 200

Code = tuple[int, ...]


@dataclass(frozen=True)
class Face:
    """Where a box ends: the dimension by its number, the codes just inside, and those just outside."""

    dimension: int
    inside: tuple[int, ...]
    outside: tuple[int, ...]


@dataclass(frozen=True)
class Pair:
    """Two settings by their codes, to be measured one after the other; `inside` first or not."""

    inside: Code
    outside: Code
    is_inside_first: bool

    @property
    def settings(self) -> tuple[Code, Code]:
        """Both, in the order of their measurement."""
        return (self.inside, self.outside) if self.is_inside_first else (self.outside, self.inside)


def faces(space: Space, box: Box) -> list[Face]:
    """The faces of a box that others don't imply: two at most of an ordered dimension, one of others."""
    found = []
    for at, (dimension, chosen) in enumerate(zip(space.dimensions, space.simplified(box), strict=True)):
        members = dimension.sets[chosen]
        inside, outside = np.flatnonzero(members), np.flatnonzero(~members)
        if not len(outside):
            continue
        if not dimension.is_ordered:
            found.append(Face(at, tuple(map(int, inside)), tuple(map(int, outside))))
            continue
        first, last = int(inside[0]), int(inside[-1])
        if first > 0:
            found.append(Face(at, (first,), (first - 1,)))
        if last + 1 < len(dimension.values):
            found.append(Face(at, (last,), (last + 1,)))
    return found


def choose_pairs(
    space: Space,
    boxes: Sequence[Box],
    measured: Iterable[Code],
    seed: int | Sequence[int],
    *,
    each: int | None = None,
    total: int | None = None,
) -> list[Pair]:
    """Pairs across the faces of boxes, in the order of their measurement: `each` a face, or `total` of all, dealt to the
    boxes in turn. No setting is in two. Fewer if there are no more."""
    if not boxes:
        return []
    rng = np.random.default_rng(seed)
    finder = _Finder(space, boxes, measured)
    turns = [
        [finder.pairs(which, face, rng) for face in faces(space, box)] for which, box in enumerate(boxes)
    ]
    found: list[tuple[Code, Code]] = []
    number = 0
    while any(turns) and (each is None or number < each):
        for turn in turns:
            # Of a total each box has a pair a round, of one face after the other.
            for _ in range(len(turn) if each is not None else min(len(turn), 1)):
                if total is not None and len(found) >= total:
                    break
                face = turn.pop(0)
                pair = next(face, None)
                if pair is not None:
                    found.append(pair)
                    turn.append(face)
        number += 1
        if total is not None and len(found) >= total:
            break
    return [
        Pair(inside=found[at][0], outside=found[at][1], is_inside_first=bool(rng.random() < 0.5))
        for at in rng.permutation(len(found))
    ]


class _Finder:
    """The settings of a space, with what they are in."""

    def __init__(self, space: Space, boxes: Sequence[Box], measured: Iterable[Code]) -> None:
        self.space = space
        self.shape = tuple(len(dimension.values) for dimension in space.dimensions)
        self.places = np.ravel_multi_index(tuple(space.feasible.T), self.shape)
        self.order = np.argsort(self.places, kind="stable")
        self.members: Flags = np.stack([space.contains(box, space.feasible) for box in boxes], axis=1)
        known = np.array(list(measured), dtype=np.int64).reshape(-1, len(self.shape))
        self.is_measured = np.isin(self.places, np.ravel_multi_index(tuple(known.T), self.shape))
        self.is_used = np.zeros(len(space.feasible), dtype=bool)

    def pairs(self, which: int, face: Face, rng: np.random.Generator) -> Iterator[tuple[Code, Code]]:
        """Pairs across a face, the best first, while there are any: of settings not measured, then that differ in one
        dimension alone."""
        feasible = self.space.feasible
        codes = feasible[:, face.dimension]
        inside = rng.permutation(np.flatnonzero(self.members[:, which] & np.isin(codes, face.inside)))
        outside = self._neighbours(inside, face, rng)
        known = outside >= 0
        alike = self._is_alike(inside[known], outside[known], which)
        one, other = inside[known][alike], outside[known][alike]
        # Where another box ends at the same face, or no setting has a neighbour there: from further inside.
        levels = np.unique(codes[self.members[:, which]])
        for level in sorted(levels.tolist(), key=lambda code: min(abs(code - edge) for edge in face.inside)):
            if len(one):
                break
            inside = rng.permutation(np.flatnonzero(self.members[:, which] & (codes == level)))
            one, other = self._nearest(inside[:_SEARCHED], which, face)
        worth = np.argsort(self.is_measured[one].astype(int) + self.is_measured[other], kind="stable")
        for first, second in zip(one[worth], other[worth], strict=True):
            if not self.is_used[first] and not self.is_used[second]:
                self.is_used[[first, second]] = True
                yield _code(feasible[first]), _code(feasible[second])

    def _is_alike(self, one: Codes, other: Codes, which: int) -> Flags:
        """Whether two settings are in the same boxes but one."""
        same = self.members[one] == self.members[other]
        same[:, which] = ~self.members[other, which]
        return np.asarray(same.all(axis=1))

    def _neighbours(self, inside: Codes, face: Face, rng: np.random.Generator) -> Codes:
        """The settings across a face that differ in its dimension alone, by index, -1 where there is none."""
        codes = self.space.feasible[inside].copy()
        codes[:, face.dimension] = rng.choice(face.outside, size=len(codes))
        wanted = np.ravel_multi_index(tuple(codes.T), self.shape)
        at = np.minimum(np.searchsorted(self.places, wanted, sorter=self.order), len(self.order) - 1)
        index = self.order[at]
        return np.asarray(np.where(self.places[index] == wanted, index, -1))

    def _nearest(self, inside: Codes, which: int, face: Face) -> tuple[Codes, Codes]:
        """Settings and the nearest across a face that are in the same other boxes: that differ in fewest dimensions, and
        least in those."""
        feasible = self.space.feasible
        among = np.flatnonzero(np.isin(feasible[:, face.dimension], face.outside) & ~self.members[:, which])
        pairs = []
        for one in inside:
            others = among[self._is_alike(np.full(len(among), one), among, which)]
            if len(others):
                steps = np.abs(feasible[others] - feasible[one])
                pairs.append((one, others[np.lexsort((steps.sum(axis=1), (steps > 0).sum(axis=1)))[0]]))
        found = np.array(pairs, dtype=np.int64).reshape(-1, 2)
        return found[:, 0], found[:, 1]


def _code(row: Iterable[int]) -> Code:
    return tuple(int(code) for code in row)

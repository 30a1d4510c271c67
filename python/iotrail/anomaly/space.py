"""Settings as points of a space, and boxes of settings.

A dimension has values, in order (concurrency 1, 2, 4) or without one (scheduler). A setting has one value a dimension,
written as codes: the value's index. A box has a set of values a dimension: an interval of ordered ones, any set of others
(condition 17 of Shen, Zhong and Li, FAST 2005). Settings that can't be measured (a run longer than its stream) are not
among a space's feasible ones.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from iotrail.errors import UsageError

# Codes of settings, (settings, dimensions).
Codes = NDArray[np.int64]
Values = NDArray[np.float64]
Flags = NDArray[np.bool_]
Value = str | int | float

# A box: the index of its set of values, for each dimension; see `Dimension.sets`.
Box = tuple[int, ...]

# Values of an unordered dimension: it has 2ⁿ - 1 sets.
MOST_UNORDERED = 10
# Values of an ordered dimension: it has n (n + 1) / 2 intervals.
MOST_ORDERED = 64


@dataclass(frozen=True)
class Dimension:
    """What can be set: its name, its values in order, and the unit of numbers."""

    name: str
    values: tuple[Value, ...]
    is_ordered: bool = True
    unit: str = ""

    def __post_init__(self) -> None:
        if not self.values:
            raise UsageError(f"dimension {self.name}: expected at least one value, found none")
        if len(set(self.values)) < len(self.values):
            twice = next(value for value in self.values if self.values.count(value) > 1)
            raise UsageError(f"dimension {self.name}: value {twice} is there twice")
        most = MOST_ORDERED if self.is_ordered else MOST_UNORDERED
        if len(self.values) > most:
            kind = "ordered" if self.is_ordered else "unordered"
            raise UsageError(
                f"dimension {self.name}: expected at most {most} values of an {kind} dimension, found {len(self.values)}",
                "leave values out, or make two dimensions of it",
            )

    @cached_property
    def sets(self) -> Flags:
        """The sets of values that a box can have, (sets, values): intervals by their first and last value, other sets
        by their binary number. The whole dimension is the last of unordered ones, `full` of all."""
        n = len(self.values)
        at = np.arange(n)
        if self.is_ordered:
            first, last = np.triu_indices(n)
            return np.asarray((at >= first[:, None]) & (at <= last[:, None]))
        return np.asarray((np.arange(1, 2**n)[:, None] >> at) & 1, dtype=bool)

    @cached_property
    def full(self) -> int:
        """Index of the set of all values."""
        return int(np.argmax(self.sets.sum(axis=1)))

    @cached_property
    def grown(self) -> NDArray[np.int64]:
        """The smallest set that has a set's values and one more, (sets, values)."""
        n = len(self.values)
        numbers = self.sets @ (1 << np.arange(n))
        index = {int(number): at for at, number in enumerate(numbers)}
        grown = np.empty(self.sets.shape, dtype=np.int64)
        for at, members in enumerate(self.sets):
            for value in range(n):
                among = np.flatnonzero(members | (np.arange(n) == value))
                if self.is_ordered:
                    among = np.arange(among[0], among[-1] + 1)
                grown[at, value] = index[int(np.sum(1 << among))]
        return grown

    @cached_property
    def single(self) -> NDArray[np.int64]:
        """The set of one value alone, (values,)."""
        alone = np.flatnonzero(self.sets.sum(axis=1) == 1)
        return np.asarray(alone[np.argsort(np.argmax(self.sets[alone], axis=1))])


@dataclass(frozen=True)
class Space:
    """Dimensions, and the settings that can be measured, (settings, dimensions), each once."""

    dimensions: tuple[Dimension, ...]
    feasible: Codes

    def __post_init__(self) -> None:
        names = [dimension.name for dimension in self.dimensions]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise UsageError(f"dimension {twice} is there twice")

    @property
    def everything(self) -> Box:
        """The box of all settings."""
        return tuple(dimension.full for dimension in self.dimensions)

    def setting(self, code: Iterable[int]) -> dict[str, Value]:
        """A setting's values by the names of dimensions."""
        return {
            dimension.name: dimension.values[at] for dimension, at in zip(self.dimensions, code, strict=True)
        }

    def contains(self, box: Box, codes: Codes) -> Flags:
        """Which settings are in a box."""
        inside = np.ones(len(codes), dtype=bool)
        for at, (dimension, chosen) in enumerate(zip(self.dimensions, box, strict=True)):
            inside &= dimension.sets[chosen][codes[:, at]]
        return inside

    def nearest(self, code: Codes, others: Codes) -> int:
        """Which of these settings, of which there is at least one, is nearest: it differs in the fewest dimensions, and then by
        the fewest steps from value to value; values without an order are one step apart. Of equals the first."""
        steps = np.abs(others - code)
        is_ordered = np.array([dimension.is_ordered for dimension in self.dimensions])
        steps = np.where(is_ordered, steps, steps > 0)
        return int(np.lexsort((steps.sum(axis=1), (steps > 0).sum(axis=1)))[0])

    def bounding(self, codes: Codes) -> Box:
        """The smallest box that has these settings, of which there is at least one."""
        sets = [
            int(dimension.single[code]) for dimension, code in zip(self.dimensions, codes[0], strict=True)
        ]
        for setting in codes[1:]:
            for at, dimension in enumerate(self.dimensions):
                sets[at] = int(dimension.grown[sets[at], setting[at]])
        return tuple(sets)

    def simplified(self, box: Box) -> Box:
        """The box without bounds that its other bounds imply for every feasible setting: a run of 256 KiB implies a
        stream of at least 256 KiB. It has the same feasible settings."""
        inside = self.contains(box, self.feasible)
        for at, dimension in enumerate(self.dimensions):
            members = dimension.sets[box[at]]
            # The widest first: no bound, then one of two.
            for wider in sorted(
                range(len(dimension.sets)), key=lambda index: -int(dimension.sets[index].sum())
            ):
                if not dimension.sets[wider][members].all():
                    continue
                tried = (*box[:at], wider, *box[at + 1 :])
                if np.array_equal(self.contains(tried, self.feasible), inside):
                    box = tried
                    break
        return box

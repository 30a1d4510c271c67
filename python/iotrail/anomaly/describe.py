"""A cluster in words, as section 5 of Shen, Zhong and Li (FAST 2005) shows it: `concurrency: 128 and above`.

Bounds that others imply are left out, and so are dimensions that don't matter.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from iotrail import units
from iotrail.anomaly.space import Box, Dimension, Space, Value


@dataclass(frozen=True)
class Bound:
    """What a box asks of a dimension: `text` for people, `values` those that are in it."""

    dimension: str
    text: str
    values: tuple[Value, ...]


def describe(space: Space, box: Box) -> list[Bound]:
    """The bounds of a box, in the order of the dimensions; none for the box of all settings."""
    return [
        Bound(dimension.name, bound_text(dimension, chosen), _values(dimension, chosen))
        for dimension, chosen in zip(space.dimensions, space.simplified(box), strict=True)
        if chosen != dimension.full
    ]


def describe_faces(space: Space, box: Box, bounds: Sequence[Bound]) -> list[Bound]:
    """What a box asks of the dimensions that these bounds are of, whether others imply it or not."""
    named = {
        dimension.name: (dimension, chosen) for dimension, chosen in zip(space.dimensions, box, strict=True)
    }
    faces = [named[bound.dimension] for bound in bounds]
    return [
        Bound(dimension.name, bound_text(dimension, chosen), _values(dimension, chosen))
        for dimension, chosen in faces
    ]


def bound_text(dimension: Dimension, chosen: int) -> str:
    """A set of a dimension's values, in words."""
    values = _values(dimension, chosen)
    words = [value_text(dimension, value) for value in values]
    if not dimension.is_ordered:
        # Of many the few others are easier to read.
        if len(values) > 2 and len(values) == len(dimension.values) - 1:
            other = next(value for value in dimension.values if value not in values)
            return f"not {value_text(dimension, other)}"
        return " or ".join(words)
    is_first, is_last = values[0] == dimension.values[0], values[-1] == dimension.values[-1]
    if is_first and is_last:
        return "any"
    if len(values) == 1:
        return words[0]
    if is_last:
        return f"{words[0]} and above"
    if is_first:
        return f"up to {words[-1]}"
    return f"{words[0]} to {words[-1]}"


def value_text(dimension: Dimension, value: Value) -> str:
    """A value with its unit."""
    if isinstance(value, str):
        return value
    return units.human(value, dimension.unit) if dimension.unit in ("ns", "bytes") else f"{value:g}"


def _values(dimension: Dimension, chosen: int) -> tuple[Value, ...]:
    return tuple(dimension.values[at] for at in np.flatnonzero(dimension.sets[chosen]))

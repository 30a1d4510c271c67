"""Protobuf messages of one shape, written by columns (protobuf.dev/programming-guides/encoding).

A message is a list of parts in the order of its bytes. Each is a tag, or several, that never changes, and a column
of numbers that follows as varints; where a mask says so, a row is without the part. A message inside of another is
the other's part whose number is its length: `length_of` gives that column.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.uint64]
_STEPS = np.array([1 << bits for bits in range(7, 64, 7)], np.uint64)


@dataclass(frozen=True)
class Part:
    """Constant bytes, then a varint; either may be missing, and the whole where `there` is False."""

    constant: bytes
    numbers: Numbers | None = None
    there: npt.NDArray[np.bool_] | None = None

    def sizes(self, rows: int) -> npt.NDArray[np.int64]:
        """Bytes of each row."""
        sizes = np.full(rows, len(self.constant), np.int64)
        if self.numbers is not None:
            sizes += np.searchsorted(_STEPS, self.numbers, side="right") + 1
        return sizes if self.there is None else np.where(self.there, sizes, 0)


def length_of(parts: Sequence[Part], rows: int) -> Numbers:
    """Bytes of each row's message."""
    lengths: Numbers = np.sum([part.sizes(rows) for part in parts], axis=0).astype(np.uint64)
    return lengths


def encode(parts: Sequence[Part], rows: int) -> bytes:
    """The messages of all rows, one after the other."""
    sizes = [part.sizes(rows) for part in parts]
    ends = np.cumsum(np.sum(sizes, axis=0))
    out = np.zeros(int(ends[-1]) if rows else 0, np.uint8)
    at = np.concatenate([[0], ends[:-1]]).astype(np.int64)
    for part, size in zip(parts, sizes, strict=True):
        chosen = slice(None) if part.there is None else np.flatnonzero(part.there)
        place = at[chosen]
        for offset, byte in enumerate(part.constant):
            out[place + offset] = byte
        if part.numbers is not None:
            _varints(out, place + len(part.constant), part.numbers[chosen])
        at = at + size
    return out.tobytes()


def _varints(out: npt.NDArray[np.uint8], place: npt.NDArray[np.int64], numbers: Numbers) -> None:
    """Seven bits a byte, the lowest first; the highest bit says that more follow."""
    while len(numbers):
        more = numbers >> np.uint64(7)
        out[place] = (numbers & np.uint64(0x7F)).astype(np.uint8) | np.where(more > 0, 0x80, 0).astype(
            np.uint8
        )
        going = np.flatnonzero(more)
        place, numbers = place[going] + 1, more[going]

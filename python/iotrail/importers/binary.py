"""Records of fixed size: whole ones, a block at a time, as numpy's structured arrays."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from iotrail.importers.base import Job
from iotrail.importers.source import BLOCK, Source


def records(job: Job, source: Source, layout: np.dtype[Any], skip: int = 0) -> Iterator[npt.NDArray[np.void]]:
    """The records behind the first `skip` bytes; a cut last one is said."""
    size = layout.itemsize
    rest, at = b"", 0
    for block in source.blocks(BLOCK):
        data = rest + (block[skip - at :] if at < skip else block)
        at += len(block)
        whole = len(data) // size * size
        rest = data[whole:]
        if whole:
            yield np.frombuffer(data, layout, whole // size)
    if rest:
        cut(job, source, at - len(rest), len(rest), size)


def cut(job: Job, source: Source, at: int, found: int, expected: int) -> None:
    """Say that a file ends within a record."""
    job.skipped.add(f"{source.path}: cut off at byte {at:,}: the last record has {found} of {expected} bytes")

"""An import held to what every import promises, whatever its bytes: by tests of garbage and by `make fuzz`.

The rows stay in memory: no trail is written and no process started, so that thousands a second can be tried.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from iotrail.errors import IotrailError
from iotrail.importers import csv
from iotrail.importers.base import Column, Job, Options, Output, Skipped
from iotrail.importers.command import FORMATS
from iotrail.importers.source import BLOCK, Source

# Reads alike however it comes in pieces. (A table's first piece settles its types; pieces of a block trace
# settle which requests were open at once.)
STEADY = ("fio", "srt", "vscsi")


class Held(Output):
    """Takes rows as a trail's writer would, and keeps them."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "x.trail", False)
        self.batches: dict[str, list[pa.RecordBatch]] = {}

    def add(self, table: str, columns: Mapping[str, Column], rows: int) -> None:
        """Make the rows only."""
        if rows:
            batch = self.batch(table, columns, rows)
            batch.validate(full=True)
            assert batch.num_rows == rows, (table, batch.num_rows, rows)
            self.batches.setdefault(table, []).append(batch)
            self.rows[table] = self.rows.get(table, 0) + rows

    def column(self, table: str, name: str) -> Any:
        """A column of all rows; Python's integers, for sums may be beyond 63 bits. Null is None."""
        return [
            value
            for batch in self.batches.get(table, [])
            if name in batch.schema.names
            for value in batch.column(name).to_pylist()
        ]


@dataclass(eq=False)
class Pieces(Source):
    """A file that is read in small pieces."""

    piece: int = BLOCK

    def blocks(self, size: int = BLOCK) -> Iterator[bytes]:
        """The bytes, a piece at a time."""
        return super().blocks(min(size, self.piece))


def hold(format: str, paths: Sequence[Path], options: Options, piece: int = BLOCK) -> Job | None:
    """Import files and check what came of it; None if they were refused in words."""
    sources: list[Source] = []
    for path in paths:
        plain = Source.at(path)
        sources.append(Pieces(plain.path, plain.size, plain.compression, piece=piece))
    output = Held(paths[0].parent)
    job = Job(format, sources, output, options, Skipped(options.strict))
    try:
        FORMATS[format].read(job)
        job.finish()
    except IotrailError as error:
        assert error.message.strip()
        return None
    _whole(output)
    _in_range(output)
    _accounted(job, output)
    return job


def _whole(output: Held) -> None:
    """What may not be null isn't; what rows refer to is there, once."""
    for table, batches in output.batches.items():
        for batch in batches:
            for name in ("ts", "thread", "node", "errno", "calls"):
                if name in batch.schema.names:
                    assert batch.column(name).null_count == 0, (table, name)
    for name in ("process", "thread", "file"):
        ids = output.column(name, name)
        assert len(set(ids)) == len(ids), f"two rows of one {name}"
        if name != "process":
            used = {v for table in ("file_op", "sync_op", "extent") for v in output.column(table, name)}
            assert used - {None} <= set(ids), f"operations on a {name} without a row"


def _in_range(output: Held) -> None:
    """Times and places, and where they end, are positive and fit 63 bits."""
    for table in ("file_op", "sync_op"):
        for begin, extent in (("ts", "dur"), ("pos", "length")):
            if begin == "pos" and table == "sync_op":
                continue
            for first, size in zip(output.column(table, begin), output.column(table, extent), strict=True):
                assert first is None or first >= 0, (table, begin, first)
                assert size is None or size >= 0, (table, extent, size)
                assert (first or 0) + (size or 0) < 1 << 63, (table, begin, first, extent, size)
    for begin in ("pos", "file_pos"):
        for first, size in zip(
            output.column("extent", begin), output.column("extent", "length"), strict=True
        ):
            assert size > 0, size
            assert first is None or 0 <= first < (1 << 63) - size, (begin, first, size)
    assert all(0 <= value < 1 << 32 for value in output.column("file_op", "errno"))


def _accounted(job: Job, output: Held) -> None:
    """Each line or record read is a row, left out and counted, or of those that make no row."""
    rows = output.rows.get("file_op", 0) + output.rows.get("sync_op", 0)
    read, skipped, facts = job.read, job.skipped.count, job.facts
    said = (job.format, rows, read, skipped, facts)
    assert min(skipped, 1) <= len(job.skipped.first) <= min(skipped, 3), said
    if job.format == "csv" or job.format in csv.PRESETS:
        assert rows + skipped == read, said
    elif job.format in ("srt", "vscsi", "oracle-general"):
        # a record cut off is left out, but was not read
        assert 0 <= rows + skipped - read <= len(job.sources), said
    elif job.format in ("blktrace", "blkparse", "perf-script"):
        # several events make a request
        requests: Any = facts["completions"] + facts["unfinished"]  # type: ignore[operator]
        assert requests - skipped <= rows <= requests <= read, said
        assert facts["completions_with_start"] <= facts["completions"], said  # type: ignore[operator]
    elif job.format in ("biosnoop", "fio-log", "dftracer"):
        assert rows + skipped <= read, said
    elif job.format == "recorder":
        layers = re.findall(r"([\d,]+) of", str(facts.get("calls_without_rows", "")))
        others = sum(int(count.replace(",", "")) for count in layers)
        assert rows + others + skipped == read, said
    elif job.format == "fio":
        # adding a file and waiting are no operations
        assert rows + skipped <= read, said
    if rows and job.first_ts is not None and job.last_ts is not None:
        starts = np.array(output.column("file_op", "ts") + output.column("sync_op", "ts"), np.int64)
        assert job.first_ts <= starts.min() and starts.max() <= job.last_ts, said


def same(one: Job, other: Job) -> None:
    """Both imports gave the same rows and left out the same."""
    assert isinstance(one.output, Held) and isinstance(other.output, Held)
    assert (one.read, one.skipped.count) == (other.read, other.skipped.count)
    for name in ("ts", "dur", "call", "file", "pos", "length", "result", "errno"):
        assert one.output.column("file_op", name) == other.output.column("file_op", name), name

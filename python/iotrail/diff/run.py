"""A run as `iotrail diff` sees it: what the modules say, sliced so that two runs lie on each other."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from iotrail.diff.noise import Series
from iotrail.trail import Trail

# Slices of equal time; tests use SLICES of them, times are read from all.
TIME_SLICES = 1024
SLICES = 128
# A file's rate over time is asked for only where the numbers of calls differ, and for so many files at the most.
MOST_FILES = 200


@dataclass(frozen=True)
class Latency:
    """A call's latencies in slices of equal numbers of calls."""

    kind: str
    n: int
    # Mean time of a call, ns: body and tail add up to the mean of each slice.
    body: Series
    tail: Series

    @property
    def slices(self) -> int:
        return len(self.body)

    @property
    def mean(self) -> float:
        """ns a call."""
        return float((self.body + self.tail).mean())


@dataclass(frozen=True)
class Counts:
    """What a call did in each of TIME_SLICES slices of equal time."""

    kind: str
    n: Series
    bytes: Series
    errors: Series


class Run:
    """One trail's side of the comparison. Everything is asked when first needed."""

    def __init__(self, trail: Trail) -> None:
        self.trail = trail
        # DuckDB would draw it over stdout after two seconds.
        trail.connection.execute("SET enable_progress_bar = false")
        self.overview: dict[str, Any] = trail.rows_of("SELECT * FROM overview")[0]
        self.duration: int = self.overview["duration_ns"]
        self.start: int = self.overview["start_ts"] or 0
        trail.set_params(
            {
                "slices": SLICES,
                "time_slices": TIME_SLICES,
            }
        )

    @property
    def empty(self) -> bool:
        return not self.overview["ops"] and not self.overview["waits"]

    @cached_property
    def work(self) -> float:
        """Time of all threads less their waiting, ns: what added time is weighed against."""
        return float(self.trail.rows_of("SELECT work_ns FROM effort")[0]["work_ns"])

    def arrays(self, sql: str, values: Mapping[str, object] | None = None) -> dict[str, Any]:
        """A query's result as columns of numpy."""
        relation = self.trail.query(sql, values)
        with self.trail.errors(sql):
            return dict(relation.fetchnumpy())

    @cached_property
    def latencies(self) -> dict[str, Latency]:
        """By call."""
        rows = self.arrays(
            "SELECT call, kind, n, body_ns / n AS body, tail_ns / n AS tail FROM call_slice ORDER BY call, slice"
        )
        found = {}
        for call, first, after in _groups(rows["call"]):
            found[call] = Latency(
                str(rows["kind"][first]),
                int(rows["n"][first:after].sum()),
                np.asarray(rows["body"][first:after], dtype=float),
                np.asarray(rows["tail"][first:after], dtype=float),
            )
        return found

    @cached_property
    def counts(self) -> dict[str, Counts]:
        """By call."""
        rows = self.arrays("""
            SELECT
                call, kind, slice, SUM(n)::DOUBLE AS n, SUM(bytes)::DOUBLE AS bytes, SUM(errors)::DOUBLE AS errors
            FROM run_slice GROUP BY ALL ORDER BY call, slice""")
        fine = {}
        for call, first, after in _groups(rows["call"]):
            where = rows["slice"][first:after].astype(int)
            fine[call] = Counts(
                str(rows["kind"][first]),
                *(_spread(where, rows[name][first:after]) for name in ("n", "bytes", "errors")),
            )
        return fine

    @cached_property
    def clock(self) -> Series:
        """When the run had done each share i/slices of its operations on files, ns since its start."""
        done = np.zeros(TIME_SLICES)
        for counts in self.counts.values():
            if counts.kind != "wait":
                done += counts.n
        total = max(done.sum(), 1.0)
        # time itself counts a little, so that idle stretches have an order
        reached = np.concatenate([[0.0], np.cumsum(done / total + 1e-9)])
        edges = np.linspace(0.0, float(self.duration), TIME_SLICES + 1)
        slices = 1 << min(SLICES.bit_length() - 1, int(max(total, 1.0)).bit_length() - 1)
        return np.asarray(np.interp(np.linspace(0.0, reached[-1], slices + 1), reached, edges), dtype=float)

    def done(self, kind: str) -> Series:
        """Bytes of a kind, or operations if it is empty, done until each moment of `clock`."""
        each = np.zeros(TIME_SLICES)
        for counts in self.counts.values():
            if counts.kind == kind:
                each += counts.bytes
            elif not kind and counts.kind != "wait":
                each += counts.n
        edges = np.linspace(0.0, float(self.duration), TIME_SLICES + 1)
        done = np.interp(self.clock, edges, np.concatenate([[0.0], np.cumsum(each)]))
        return np.asarray(done, dtype=float)

    @cached_property
    def access(self) -> dict[str, dict[str, dict[str, Series]]]:
        """Kind (read, write) -> `size` or `pattern` -> class -> operations in each slice of time."""
        rows = self.arrays("""
            SELECT kind, size, slice, n, placed, consecutive, strided, jump
            FROM access_slice ORDER BY kind, size, slice""")
        found: dict[str, dict[str, dict[str, Series]]] = {}
        for kind, first, after in _groups(rows["kind"]):
            sizes = {}
            for size, start, stop in _groups(rows["size"][first:after]):
                part = slice(first + start, first + stop)
                sizes[str(size)] = coarse(_spread(rows["slice"][part].astype(int), rows["n"][part]))
            where = rows["slice"][first:after].astype(int)
            found[kind] = {
                "size": sizes,
                "pattern": {
                    name: coarse(_spread(where, rows[name][first:after]))
                    for name in ("consecutive", "strided", "jump")
                },
            }
        return found

    @cached_property
    def files(self) -> dict[str, dict[str, Any]]:
        """By path."""
        return files_of(self.trail)

    def file_counts(self, files: list[int]) -> dict[int, tuple[Series, Series]]:
        """Operations and bytes of files in each slice of time."""
        if not files:
            return {}
        rows = self.arrays(
            """
            SELECT file, slice, SUM(n)::DOUBLE AS n, SUM(bytes)::DOUBLE AS bytes
            FROM run_slice WHERE list_contains($files, file) GROUP BY ALL ORDER BY file, slice""",
            {"files": files},
        )
        found = {}
        for file, first, after in _groups(rows["file"]):
            where = rows["slice"][first:after].astype(int)
            found[int(file)] = (
                coarse(_spread(where, rows["n"][first:after])),
                coarse(_spread(where, rows["bytes"][first:after])),
            )
        return found

    def busiest(self, call: str) -> str | None:
        """The file on which a call took most time."""
        rows = self.trail.rows_of(
            "SELECT path FROM activity WHERE call = $call GROUP BY path ORDER BY SUM(io_ns) DESC, path LIMIT 1",
            {"call": call},
        )
        return str(rows[0]["path"]) if rows else None


def files_of(trail: Trail) -> dict[str, dict[str, Any]]:
    """A trail's files by path: machine, id, operations, bytes."""
    rows = trail.rows_of("""
        SELECT
            path, MAX(node) AS node, MAX(file) AS file, CAST(SUM(n) AS BIGINT) AS n,
            CAST(SUM(bytes_read + bytes_written) AS BIGINT) AS bytes
        FROM file_summary WHERE file IS NOT NULL GROUP BY path""")
    return {row["path"]: row for row in rows}


def coarse(fine: Series) -> Series:
    """TIME_SLICES slices summed to SLICES."""
    return np.asarray(fine.reshape(SLICES, -1).sum(axis=1), dtype=float)


def _spread(where: Any, values: Any) -> Series:
    """Values at their slices, 0 elsewhere."""
    counted = np.bincount(where, weights=values.astype(float), minlength=TIME_SLICES)
    return np.asarray(counted, dtype=float)


def _groups(keys: Any) -> list[tuple[Any, int, int]]:
    """Runs of equal keys: key, first, after the last."""
    if not len(keys):
        return []
    edges = [0, *(np.flatnonzero(keys[1:] != keys[:-1]) + 1).tolist(), len(keys)]
    return [(keys[first], first, after) for first, after in pairwise(edges)]

"""A run as `iotrail diff` sees it: what the modules say, sliced so that two runs lie on each other."""

from collections.abc import Mapping, Sequence
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
# Calls on files that are waiting calls on pipes, sockets and terminals.
_MOVING = frozenset({"read", "readv", "write", "writev", "splice", "sendfile", "ioctl", "fcntl", "close"})
# Files whose numbers of operations differ: so many are compared one by one, those that differ most.
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


@dataclass(frozen=True)
class Fast:
    """The fastest tenth of a call's calls."""

    kind: str
    # Calls, and those that are averaged.
    n: int
    fast_n: float
    # Mean time, ns.
    mean: float


@dataclass(frozen=True)
class Tally:
    """What a call did, counted."""

    kind: str
    n: int
    bytes: int
    errors: int


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
    def access(self) -> dict[str, dict[str, dict[str, float]]]:
        """Kind (read, write) -> `size` or `pattern` -> class -> operations."""
        rows = self.trail.rows_of("""
            SELECT
                kind, size, SUM(n)::DOUBLE AS n, SUM(consecutive)::DOUBLE AS consecutive,
                SUM(strided)::DOUBLE AS strided, SUM(jump)::DOUBLE AS jump
            FROM access_slice GROUP BY kind, size ORDER BY kind, size""")
        found: dict[str, dict[str, dict[str, float]]] = {}
        for row in rows:
            of_kind = found.setdefault(row["kind"], {"size": {}, "pattern": {}})
            of_kind["size"][str(row["size"])] = row["n"]
            for name in ("consecutive", "strided", "jump"):
                of_kind["pattern"][name] = of_kind["pattern"].get(name, 0.0) + row[name]
        return found

    @cached_property
    def fast(self) -> dict[str, Fast]:
        """By call: its fastest tenth."""
        rows = self.trail.rows_of("SELECT call, kind, n, fast_n, fast_ns FROM call_fast ORDER BY call")
        return {row["call"]: Fast(row["kind"], row["n"], row["fast_n"], row["fast_ns"]) for row in rows}

    @cached_property
    def tally(self) -> dict[tuple[str, bool], Tally]:
        """By call (of waiting calls with what they wait for), and whether timing decides the number."""
        rows = self.trail.rows_of("""
            SELECT
                call, MAX(kind) AS kind, waits_for, timed, CAST(SUM(n) AS BIGINT) AS n,
                CAST(SUM(bytes) AS BIGINT) AS bytes, CAST(SUM(errors) AS BIGINT) AS errors
            FROM tally GROUP BY call, waits_for, timed""")
        found: dict[tuple[str, bool], Tally] = {}
        for row in rows:
            # read is a call on files too
            subject = f"{row['call']} ({row['waits_for']})" if row["call"] in _MOVING else row["call"]
            key = (subject if row["waits_for"] else row["call"], bool(row["timed"]))
            before = found.get(key, Tally(row["kind"], 0, 0, 0))
            found[key] = Tally(
                row["kind"], before.n + row["n"], before.bytes + row["bytes"], before.errors + row["errors"]
            )
        return found

    @cached_property
    def lost(self) -> int:
        """Records that the recorder had to drop."""
        rows = self.trail.rows_of(
            "SELECT CAST(COALESCE(SUM(amount), 0) AS BIGINT) AS n FROM unseen_summary "
            "WHERE kind IN ('dropped', 'interrupted', 'no_memory', 'kernel_dropped')"
        )
        return int(rows[0]["n"])

    @cached_property
    def programs(self) -> frozenset[str]:
        """Names of the executables that acted on files or waited; empty if the trail has no processes."""
        rows = self.trail.rows_of("""
            SELECT DISTINCT t.process_name AS name FROM thread_life AS t WHERE t.process_name IS NOT NULL""")
        return frozenset(row["name"] for row in rows)

    @cached_property
    def files(self) -> dict[str, tuple[int, int]]:
        """By path: operations that timing doesn't decide, and the bytes they moved."""
        rows = self.trail.rows_of("""
            SELECT path, CAST(SUM(n) AS BIGINT) AS n, CAST(SUM(bytes) AS BIGINT) AS bytes
            FROM tally WHERE path IS NOT NULL AND NOT timed GROUP BY path""")
        return {row["path"]: (row["n"], row["bytes"]) for row in rows}

    def busiest(self, call: str) -> str | None:
        """The file on which a call took most time."""
        rows = self.trail.rows_of(
            "SELECT path FROM activity WHERE call = $call GROUP BY path ORDER BY SUM(io_ns) DESC, path LIMIT 1",
            {"call": call},
        )
        return str(rows[0]["path"]) if rows else None


@dataclass(frozen=True)
class Sides:
    """The runs of both sides."""

    a: tuple[Run, ...]
    b: tuple[Run, ...]

    @property
    def runs(self) -> tuple[Run, ...]:
        """A's, then B's."""
        return self.a + self.b

    @property
    def several(self) -> bool:
        """Whether a side has more than one run, so that they show how much runs differ."""
        return len(self.runs) > 2

    def overview(self, runs: Sequence[Run]) -> dict[str, Any]:
        """Module `overview` of one side: the geometric mean of times and rates, as they are compared, the mean of other
        numbers. Null if a run has none."""
        found: dict[str, Any] = {}
        for name, first in runs[0].overview.items():
            values = [run.overview[name] for run in runs]
            if len(runs) == 1 or name in ("start_ts", "end_ts"):
                found[name] = first
            else:
                found[name] = (
                    None
                    if None in values
                    else _mean(values, name in ("bytes_per_s", "iops") or name.endswith("_ns"))
                )
        return found


def _mean(values: Sequence[float], geometric: bool) -> float:
    if geometric and min(values) > 0:
        return float(np.exp(np.mean(np.log(values))))
    return float(np.mean(values))


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

"""The view of causality in a report: lanes of threads over time, the critical path, and who was waited for.

All numbers are those of module `causal_cell`, summed by the report's time buckets; waits and stretches of the path are rows of
`wait_state` and `critical_path`. The view is bounded however many rows there are: MOST_LANES threads, about MOST_CELLS sums, and the longest
waits and stretches of each bucket.
"""

from typing import Any

from iotrail.trail import Trail

# Threads with a lane of their own: those that others wait for longest, and that are longest on the path. The rest share one.
MOST_LANES = 64
# Sums by bucket, lane, call, file and who was waited for. Beyond, the smallest of each bucket and lane are added up by kind of work.
MOST_CELLS = 200_000
# Waits with an arrow, and stretches of the critical path: of each bucket as many, the longest.
MOST_ARROWS = 20_000
# A thread that does less than this share of the run, and that others wait for less, is idle: its lane is folded away.
IDLE_SHARE = 0.01


class CausalView:
    """Collects the view of a trail, in the shape of `Causality` in `web/src/io/data.ts`. The report has numbered threads and files."""

    def __init__(self, trail: Trail, start: int, origin: int, width: int, buckets: int) -> None:
        """`start` is the start of the run, `origin` that of the first time bucket, `width` that of each."""
        self.trail = trail
        self.start = start
        self.origin = origin
        self.width = width
        self.buckets = buckets

    def collect(self) -> dict[str, Any] | None:
        """The view; None where the trail doesn't say who waited for whom."""
        if not self.trail.rows["critical_path"]:
            return None
        self._number_lanes()
        self._sum()
        return {
            "lanes": self._columns(f"""
                SELECT t AS thread, rank, folded FROM _causal_lane WHERE lane < {MOST_LANES} ORDER BY lane"""),
            "others": self._one(f"SELECT COUNT(*) AS n FROM _causal_lane WHERE lane = {MOST_LANES}")["n"],
            "calls": self._columns("SELECT call FROM _causal_call ORDER BY i")["call"],
            "what": self._columns(
                "SELECT work, state, call, file, cause, merged FROM _causal_what ORDER BY i"
            ),
            "cells": {
                "first": self._first("_causal_bound"),
                **self._columns("SELECT lane, what, n, ns, path FROM _causal_bound ORDER BY b, lane, what"),
            },
            "waits": self._waits(),
            "path": self._path(),
        }

    def _number_lanes(self) -> None:
        """Ranks by number, then others by their beginning. Of a rank's threads the first comes first."""
        self._run("CREATE OR REPLACE TEMP TABLE _causal_cell AS SELECT * FROM causal_cell")
        self._run(f"""
            CREATE OR REPLACE TEMP TABLE _causal_lane AS
            WITH done AS (
                SELECT thread, SUM(ns) FILTER (WHERE work IN ('io', 'compute')) AS busy_ns, SUM(path_ns) AS path_ns
                FROM _causal_cell GROUP BY thread
            ),
            caused AS (
                SELECT cause_thread AS thread, SUM(ns) AS ns FROM _causal_cell WHERE state NOT IN ('begin', 'end') GROUP BY cause_thread
            ),
            used AS (
                SELECT
                    l.*, t.i AS t, l.tid = l.pid AS is_first, COUNT(l.rank) OVER () > 0 AS has_ranks,
                    COALESCE(d.busy_ns, 0) AS busy_ns, COALESCE(d.path_ns, 0) + COALESCE(c.ns, 0) AS held_ns,
                    MAX(l.end_ts) OVER () - MIN(l.start_ts) OVER () AS run_ns
                FROM thread_life AS l
                JOIN done AS d ON d.thread = l.thread
                JOIN _report_thread AS t ON t.node = l.node AND t.thread = l.thread
                LEFT JOIN caused AS c ON c.thread = l.thread
            ),
            judged AS (
                SELECT
                    *,
                    -- launchers of ranks, and threads that help a library
                    (has_ranks AND rank IS NULL)
                        OR (NOT (is_first AND rank IS NOT NULL) AND busy_ns + held_ns < {IDLE_SHARE} * run_ns) AS folded
                FROM used
            ),
            placed AS (
                SELECT *, ROW_NUMBER() OVER (ORDER BY folded, held_ns DESC, busy_ns DESC, start_ts, thread) AS place FROM judged
            )
            SELECT
                node, thread, rank, t, folded,
                CAST(CASE
                    WHEN place > {MOST_LANES} THEN {MOST_LANES}
                    ELSE ROW_NUMBER() OVER (
                        PARTITION BY place > {MOST_LANES} ORDER BY folded, rank NULLS LAST, NOT is_first, start_ts, tid, thread
                    ) - 1
                END AS INTEGER) AS lane
            FROM placed""")

    def _sum(self) -> None:
        """Sums by lane, of at most so many calls, files and causes in each bucket as the page has room for."""
        each = max(
            4,
            MOST_CELLS
            // (self.buckets * self._one("SELECT COUNT(DISTINCT lane) AS n FROM _causal_lane")["n"]),
        )
        self._run("""
            CREATE OR REPLACE TEMP TABLE _causal_call AS
            SELECT CAST(ROW_NUMBER() OVER (ORDER BY call) - 1 AS INTEGER) AS i, call
            FROM (SELECT DISTINCT call FROM _causal_cell WHERE call IS NOT NULL)""")
        self._run(f"""
            CREATE OR REPLACE TEMP TABLE _causal_sum AS
            WITH named AS (
                SELECT
                    {self._bucket("c.ts")} AS b, l.lane, COALESCE(k.kind, c.work) AS work, c.state, n.i AS call, f.i AS file,
                    p.lane AS cause, c.n, c.ns, c.path_ns
                FROM _causal_cell AS c
                JOIN _causal_lane AS l ON l.thread = c.thread
                LEFT JOIN _causal_lane AS p ON p.thread = c.cause_thread
                LEFT JOIN _causal_call AS n ON n.call = c.call
                LEFT JOIN (SELECT DISTINCT call, kind FROM _report_call) AS k ON k.call = c.call AND c.work = 'io'
                LEFT JOIN _report_file AS f ON f.node = c.node AND f.file = c.file
            ),
            summed AS (
                SELECT b, lane, work, state, call, file, cause, SUM(n) AS n, SUM(ns) AS ns, SUM(path_ns) AS path
                FROM named GROUP BY ALL
            )
            SELECT
                *, ROW_NUMBER() OVER (PARTITION BY b, lane ORDER BY path DESC, ns DESC, work, state, call, file, cause) > {each} AS merged
            FROM summed""")
        self._run("""
            CREATE OR REPLACE TEMP TABLE _causal_merged AS
            SELECT
                b, lane, work, state, merged, CASE WHEN NOT merged THEN call END AS call, CASE WHEN NOT merged THEN file END AS file,
                CASE WHEN NOT merged THEN cause END AS cause,
                CAST(SUM(n) AS BIGINT) AS n, CAST(SUM(ns) AS BIGINT) AS ns, CAST(SUM(path) AS BIGINT) AS path
            FROM _causal_sum GROUP BY ALL""")
        self._run("""
            CREATE OR REPLACE TEMP TABLE _causal_what AS
            SELECT CAST(ROW_NUMBER() OVER (ORDER BY ns DESC, work, state, call, file, cause, merged) - 1 AS INTEGER) AS i, * EXCLUDE (ns)
            FROM (
                SELECT work, state, call, file, cause, merged, SUM(ns) AS ns FROM _causal_merged GROUP BY ALL
            )""")
        self._run("""
            CREATE OR REPLACE TEMP TABLE _causal_bound AS
            SELECT m.b, m.lane, w.i AS what, m.n, m.ns, m.path
            FROM _causal_merged AS m
            JOIN _causal_what AS w ON w.work = m.work AND w.merged = m.merged AND w.state IS NOT DISTINCT FROM m.state
                AND w.call IS NOT DISTINCT FROM m.call AND w.file IS NOT DISTINCT FROM m.file AND w.cause IS NOT DISTINCT FROM m.cause""")

    def _waits(self) -> dict[str, Any]:
        """Waits whose signal came while they waited, by the bucket of the signal: the longest, and how many there are."""
        self._run(f"""
            CREATE OR REPLACE TEMP TABLE _causal_wait AS
            SELECT
                {self._bucket("w.cause_ts - w.cause_ts % " + str(self.width))} AS b, l.lane, p.lane AS cause, n.i AS call, w.state,
                w.ts - {self.start} AS start, w.cause_ts - {self.start} AS signal, w.ts + w.dur - {self.start} AS stop,
                ROW_NUMBER() OVER (
                    PARTITION BY w.cause_ts - w.cause_ts % {self.width} ORDER BY w.blocked_ns DESC, w.ts, w.thread
                ) AS place
            FROM wait_state AS w
            JOIN _causal_lane AS l ON l.thread = w.thread
            JOIN _causal_lane AS p ON p.thread = w.cause_thread
            LEFT JOIN (SELECT thread, ts, MAX_BY(call, dur) AS call FROM sync_op GROUP BY thread, ts) AS s
                ON s.thread = w.thread AND s.ts = w.ts
            LEFT JOIN _causal_call AS n ON n.call = s.call
            WHERE w.blocked_ns > 0 AND w.thread <> w.cause_thread AND w.dur IS NOT NULL""")
        return {
            "first": self._first("_causal_wait"),
            **self._columns(f"""
                SELECT lane, cause, call, state, start, signal, stop FROM _causal_wait
                WHERE place <= {max(1, MOST_ARROWS // self.buckets)} ORDER BY signal, lane"""),
        }

    def _path(self) -> dict[str, Any]:
        """Stretches of the critical path: the longest that begin in each bucket."""
        return self._columns(f"""
            SELECT l.lane, p.ts - {self.start} AS start, p.dur, s.kind
            FROM critical_path AS p
            JOIN _causal_lane AS l ON l.thread = p.thread
            LEFT JOIN (SELECT edge, MAX(kind) AS kind FROM signal GROUP BY edge) AS s ON s.edge = p.edge
            QUALIFY ROW_NUMBER() OVER (PARTITION BY p.ts - p.ts % {self.width} ORDER BY p.dur DESC, p.ts) <= {max(1, MOST_ARROWS // self.buckets)}
            ORDER BY p.ts, p.dur""")

    def _bucket(self, ts: str) -> str:
        """SQL: the number of the time bucket that begins at `ts`."""
        return f"CAST(({ts} - {self.origin}) / {self.width} AS INTEGER)"

    def _first(self, table: str) -> list[int]:
        """How many rows of the table are in the buckets before each, and in all."""
        counts = self._columns(f"""
            SELECT COALESCE(n, 0) AS n
            FROM range({self.buckets}) AS r(b)
            LEFT JOIN (SELECT b, COUNT(*) AS n FROM {table} GROUP BY b) AS c ON c.b = r.b
            ORDER BY r.b""")["n"]
        first = [0]
        for count in counts:
            first.append(first[-1] + count)
        return first

    def _run(self, sql: str) -> None:
        self.trail.prepare(sql)
        with self.trail.errors(sql):
            self.trail.connection.execute(sql)

    def _one(self, sql: str) -> dict[str, Any]:
        return self.trail.rows_of(sql)[0]

    def _columns(self, sql: str) -> dict[str, list[Any]]:
        relation = self.trail.query(sql)
        with self.trail.errors(sql):
            table = relation.to_arrow_table()
        return {name: table.column(name).to_pylist() for name in table.column_names}

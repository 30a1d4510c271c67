"""The report of a trail: one HTML file that opens offline, the web app's I/O view with its data inside.

`collect` asks the SQL modules for everything the page draws and puts it in the shape that
`web/src/io/data.ts` declares; `render` puts that into the built page. The page only adds up what it is
given, in whole time buckets, so its numbers are those of `iotrail sql`.

Rows refer to files, processes, threads and calls by their place in those tables, because JavaScript's
numbers can't hold 63-bit ids; times count from the start of the run for the same reason.
"""

import base64
import datetime
import errno
import gzip
import itertools
import json
import os
import secrets
import sys
import webbrowser
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from iotrail.block import BlockView
from iotrail.causal.lanes import CausalView
from iotrail.diagnosis import collect_cards
from iotrail.errors import IotrailError, UsageError
from iotrail.moments import moment, written
from iotrail.trail import Trail
from iotrail.units import shell_line
from iotrail.waits import waited_object

DATA_VERSION = 1
# About as many time buckets as a wide screen has pixels to tell them apart by.
MOST_BUCKETS = 500
# Rows of module `cell` that the page holds: each takes about three bytes of it. More are folded.
MOST_CELLS = 1_500_000
# The file map holds this many cells, over the files of most operations.
MOST_HEAT_CELLS = 400_000
# The largest queue depth needs all starts and ends in order: a second of CPU time a million operations.
MOST_SORTED = 3_000_000
# Time of operations over I/O time of threads from which on operations of one thread are under way at once.
OVERLAP = 1.001
# What was waited for, by thread, object and call.
MOST_WAITS = 500
# Rows an offset axis is cut into.
HEAT_ROWS = 96

# What DuckDB may take before it spills to the disk; Python's part comes on top.
MEMORY = "1200MB"

PAGE = Path(__file__).parent / "_web" / "report.html"
MARKER = b"@@IOTRAIL_DATA@@"
# How a report is recognised, so that writing it again over itself needs no --force.
GENERATOR = b'<meta name="generator" content="iotrail report"'


class ReportError(IotrailError):
    """A report can't be written."""


def cut(trail: Trail, since: str | None, until: str | None) -> None:
    """Leave a part of a trail for its report, between two moments as people write them (`iotrail.moments`).

    Raises `UsageError` for a text that is no moment, and a part that has nothing.
    """
    start, _ = _span(trail)
    begin = None if since is None else moment(since, start, "--from")
    last = None if until is None else moment(until, start, "--to")
    cut_between(
        trail,
        begin,
        last,
        "--from and --to",
        "2026-03-01T14:00, 14:00, or +30s after the start of the trail",
    )


def cut_between(
    trail: Trail, begin: int | None, last: int | None, names: str, hint: str | None = None
) -> None:
    """Leave a part of a trail for its report, from `begin` until before `last` (ns since the epoch, None: no bound).

    Raises `UsageError` for a part that has nothing, which `names` say which it is, with a hint.
    """
    start, end = _span(trail)
    if (
        (begin or start) >= (end + 1 if last is None else last)
        or (begin or start) > end
        or (last or end) <= start
    ):
        raise UsageError(
            f"nothing between {names}: {trail.path} has {written(start)} to {written(end)}", hint
        )
    trail.cut(begin, last)


def _span(trail: Trail) -> tuple[int, int]:
    """The first and the last moment of a trail that has any."""
    (span,) = trail.rows_of("SELECT start_ts, end_ts FROM trail_span")
    if span["start_ts"] is None:
        raise UsageError(f"{trail.path}: has nothing of which a part could be shown")
    return span["start_ts"], span["end_ts"]


def write_report(trail: Trail, output: Path, *, force: bool = False) -> None:
    """Write the report of a trail to `output`, replacing an older report but no other file."""
    check_output(output, force)
    write_whole(output, render(collect(trail)))


def write_data(trail: Trail, output: Path | None, *, force: bool = False) -> None:
    """Write the report's data as JSON to `output`, or to stdout."""
    if output is not None and output.exists() and not force:
        raise UsageError(f"{output}: exists already", "--force replaces it")
    content = json.dumps(collect(trail), separators=(",", ":"), ensure_ascii=False).encode() + b"\n"
    if output is None:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    else:
        write_whole(output, content)


def open_in_browser(page: Path) -> None:
    """Show a page in the user's browser."""
    if not webbrowser.open(page.resolve().as_uri()):
        raise ReportError(f"{page}: no browser to open it with", "BROWSER names one")


def render(data: dict[str, Any]) -> bytes:
    """The page with its data inside."""
    try:
        page = PAGE.read_bytes()
    except OSError as error:
        raise ReportError(
            f"{PAGE}: {os.strerror(error.errno or 0)}: the page of reports is not built",
            "run make in a checkout, or install iotrail again",
        ) from error
    before, found, after = page.partition(MARKER)
    if not found or MARKER in after:
        raise ReportError(
            f"{PAGE}: expected {MARKER.decode()} once, where the data goes",
            "build the page again: make web",
        )
    # mtime=0: the same trail gives the same bytes.
    packed = gzip.compress(json.dumps(data, separators=(",", ":")).encode(), compresslevel=6, mtime=0)
    return before + base64.b64encode(packed) + after


def check_output(
    output: Path,
    force: bool,
    generator: bytes = GENERATOR,
    what: str = "an iotrail report",
    option: str = "-o",
) -> None:
    """Refuse to overwrite what is not a report, or another page that names its generator; `option` named the file."""
    try:
        if output.is_dir():
            raise UsageError(f"{output}: is a directory", f"name a file: {option} page.html")
        if force or not output.exists():
            return
        with output.open("rb") as file:
            if generator in file.read(4096):
                return
    except OSError as error:
        raise ReportError(f"{output}: {os.strerror(error.errno or 0)}") from error
    raise UsageError(f"{output}: exists and is not {what}", "--force replaces it")


def write_whole(output: Path, content: bytes, option: str = "-o") -> None:
    """Write a file so that nobody sees half of it: beside it first, then renamed; `option` named the file."""
    temporary = output.with_name(f".{output.name}.{secrets.token_hex(4)}")
    try:
        try:
            temporary.write_bytes(content)
            temporary.replace(output)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        hint = None
        if error.errno == errno.ENOSPC:
            hint = f"it takes {len(content):,} bytes: {option} names another place"
        elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT):
            hint = f"{option} names another place"
        raise ReportError(f"{output}: can't be written: {os.strerror(error.errno or 0)}", hint) from error


def bucket_width(duration: int) -> int:
    """The smallest of 1, 2, 5, 10 … µs that cuts a run into at most MOST_BUCKETS, one more for the edges."""
    widths: Iterator[int] = (digit * 10**power for power in itertools.count(3) for digit in (1, 2, 5))
    return next(width for width in widths if duration < width * (MOST_BUCKETS - 1))


def collect(trail: Trail) -> dict[str, Any]:
    """Everything the page draws, in the shape of `web/src/io/data.ts`."""
    return _Collector(trail).collect()


class _Collector:
    """One pass over a trail's modules. Keeps the tables that give rows their numbers in DuckDB."""

    def __init__(self, trail: Trail) -> None:
        self.trail = trail
        # DuckDB would draw it over stdout after two seconds.
        trail.connection.execute("SET enable_progress_bar = false")
        trail.connection.execute(f"SET memory_limit = '{MEMORY}'")
        span = self.one("SELECT start_ts, end_ts FROM trail_span")
        self.start: int = span["start_ts"] or 0
        self.duration: int = (span["end_ts"] or 0) - self.start
        self.width = bucket_width(self.duration)
        self.origin = self.start - self.start % self.width
        self.buckets = (self.start + self.duration - self.origin) // self.width + 1
        self.folded = 0
        # Whether any duration is known: an imported trace may have none.
        self.timed: bool = self.one("SELECT COUNT(*) = 0 OR COUNT(dur) > 0 AS timed FROM file_op")["timed"]

    def collect(self) -> dict[str, Any]:
        trail = self.trail
        trail.set_params({"every_ns": self.width, "heat_rows": HEAT_ROWS})
        self.number_rows()
        return {
            "version": DATA_VERSION,
            "made": {
                "by": f"iotrail {version('iotrail')}",
                "at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            },
            "trail": {"name": trail.path.name, "path": str(trail.path), "snapshot": trail.snapshot},
            "run": {
                "start": str(self.start),
                "duration": self.duration,
                "origin": self.origin - self.start,
                "bucket": self.width,
                "buckets": self.buckets,
            },
            "timed": self.timed,
            "recording": self.recording(),
            "unseen": trail.rows_of("""
                SELECT u.kind, p.i AS process, f.i AS file, u.amount, u.detail
                FROM unseen AS u
                LEFT JOIN _report_process AS p ON p.node = u.node AND p.process = u.process
                LEFT JOIN _report_file AS f ON f.node = u.node AND f.file = u.file
                ORDER BY u.kind, u.amount DESC, u.detail"""),
            "diagnosis": self.diagnosis(),
            "calls": self.columns("SELECT call AS name, kind, meaning FROM _report_call ORDER BY i"),
            "files": self.files(),
            "processes": self.processes(),
            "threads": self.threads(),
            "cells": self.cells(),
            "split": self.split(),
            "waits": self.waits(),
            "depth": self.depth(),
            "heat": self.heat(),
            "block": BlockView(trail, self.origin, self.width).collect(),
            "causality": CausalView(trail, self.start, self.origin, self.width, self.buckets).collect(),
            "folded": {"files": self.folded},
        }

    def recording(self) -> list[dict[str, Any]]:
        """How the trail was made; the command as people type it."""
        rows = self.trail.rows_of("SELECT node, name, value FROM recording ORDER BY node, name, value")
        for row in rows:
            if row["name"] == "command" and row["value"]:
                row["value"] = shell_line(row["value"])
        return rows

    def number_rows(self) -> None:
        """Number files, threads, processes and calls: most time first."""
        # Threads and files that only calls name are kept too: a damaged trail shows what it has.
        self.run("""
            CREATE OR REPLACE TEMP TABLE _report_thread AS
            WITH used AS (
                SELECT node, thread, MAX(process) AS process, SUM(io_ns) AS time_ns FROM activity GROUP BY node, thread
            )
            SELECT
                CAST(ROW_NUMBER() OVER (ORDER BY u.time_ns DESC NULLS LAST, l.start_ts, node, thread) - 1 AS INTEGER) AS i,
                node, thread, COALESCE(l.process, u.process, 0) AS process, l.tid, l.thread_name, l.start_ts, l.end_ts,
                COALESCE(u.time_ns, 0) AS time_ns
            FROM thread_life AS l
            FULL OUTER JOIN used AS u USING (node, thread)""")
        self.run("""
            CREATE OR REPLACE TEMP TABLE _report_process AS
            WITH used AS (
                SELECT node, process, SUM(time_ns) AS time_ns FROM _report_thread GROUP BY node, process
            ),
            known AS (
                SELECT * FROM process QUALIFY ROW_NUMBER() OVER (PARTITION BY node, process ORDER BY start_ts) = 1
            )
            SELECT
                CAST(ROW_NUMBER() OVER (ORDER BY u.time_ns DESC NULLS LAST, k.start_ts, node, process) - 1 AS INTEGER) AS i,
                node, process, k.* EXCLUDE (node, process)
            FROM known AS k
            FULL OUTER JOIN used AS u USING (node, process)""")
        self.run("""
            CREATE OR REPLACE TEMP TABLE _report_call AS
            SELECT
                CAST(ROW_NUMBER() OVER (ORDER BY SUM(u.io_ns) DESC, u.call) - 1 AS INTEGER) AS i,
                u.call, MAX(u.kind) AS kind, COALESCE(MAX(c.meaning), '') AS meaning
            FROM activity AS u
            LEFT JOIN call AS c ON c.call = u.call
            GROUP BY u.call""")
        self.run("""
            CREATE OR REPLACE TEMP TABLE _report_file AS
            WITH used AS (
                SELECT node, COALESCE(file, 0) AS f, SUM(time_ns) AS time_ns, COUNT(*) AS cells FROM cell GROUP BY ALL
            ),
            known AS (
                SELECT node, file AS f, MIN(path) AS path FROM file GROUP BY node, file
            )
            SELECT
                CAST(ROW_NUMBER() OVER (ORDER BY u.time_ns DESC NULLS LAST, k.path, node, f) - 1 AS INTEGER) AS i,
                node, f AS file, CASE WHEN f = 0 THEN '(no file)' ELSE COALESCE(k.path, '(unknown file)') END AS path,
                CAST(SUM(COALESCE(u.cells, 0)) OVER (ORDER BY u.time_ns DESC NULLS LAST, k.path, node, f) AS BIGINT) AS cells
            FROM known AS k
            FULL OUTER JOIN used AS u USING (node, f)
            -- Files that were named but not used by a call of this trail would only lengthen the page.
            WHERE u.f IS NOT NULL
                OR EXISTS (SELECT 1 FROM unseen AS n WHERE n.node = k.node AND n.file = k.f)""")
        self.fold_files()

    def fold_files(self) -> None:
        """Where the cells would make the page too large, let the files of least time share one row."""
        kept = self.one("SELECT COUNT(*) AS n FROM _report_file WHERE cells <= " + str(MOST_CELLS))["n"]
        files = self.one("SELECT COUNT(*) AS n FROM _report_file")["n"]
        if kept >= files - 1:
            return
        self.folded = files - kept
        self.run(
            f"""UPDATE _report_file SET i = {kept}, path = '({self.folded} files of little time)' WHERE i >= {kept}"""
        )

    def cells(self) -> dict[str, list[int]]:
        """Operations by time bucket, thread, file and call, with their latency histograms."""
        self.run(f"""
            CREATE OR REPLACE TEMP TABLE _report_bin AS
            SELECT
                {self.bucket_of("u.ts")} AS b, t.i AS t, f.i AS f, c.i AS c, u.bucket,
                CAST(SUM(u.n) AS BIGINT) AS n, CAST(SUM(u.errors) AS BIGINT) AS errors,
                CAST(SUM(u.bytes) AS BIGINT) AS bytes, CAST(SUM(u.time_ns) AS BIGINT) AS time_ns,
                MAX(u.max_ns) AS max_ns
            FROM cell AS u
            JOIN _report_thread AS t ON t.node = u.node AND t.thread = u.thread
            JOIN _report_file AS f ON f.node = u.node AND f.file = COALESCE(u.file, 0)
            JOIN _report_call AS c ON c.call = u.call
            GROUP BY ALL""")
        cells = self.columns("""
            SELECT
                b, t AS thread, f AS file, c AS call, CAST(SUM(n) AS BIGINT) AS ops, CAST(SUM(errors) AS BIGINT) AS errors,
                CAST(SUM(bytes) AS BIGINT) AS bytes, CAST(SUM(time_ns) AS BIGINT) AS dur,
                COALESCE(MAX(max_ns), 0) AS max, COUNT(bucket) AS bins
            FROM _report_bin
            GROUP BY b, t, f, c
            ORDER BY b, t, f, c""")
        bins = self.columns("""
            SELECT bucket AS bin, n AS count FROM _report_bin WHERE bucket IS NOT NULL ORDER BY b, t, f, c, bucket""")
        del cells["b"]
        return {"first": self.first("_report_bin", "COUNT(DISTINCT (t, f, c))"), **cells, **bins}

    def split(self) -> dict[str, Any]:
        """What each thread did with its time, by time bucket. Without `cpu` its times on CPUs are unknown, not 0, and
        without `waited` (an import without any wait) its times waiting."""
        self.run(f"""
            CREATE OR REPLACE TEMP TABLE _report_split AS
            SELECT {self.bucket_of("s.ts")} AS b, t.i AS t, s.compute_ns, s.queued_ns, s.fault_ns, s.io_ns,
                s.sync_ns, s.idle_ns, s.unknown_ns
            FROM time_split_over_time AS s
            JOIN _report_thread AS t ON t.thread = s.thread""")
        columns = self.columns("""
            SELECT
                t AS thread, COALESCE(compute_ns, 0) AS compute, COALESCE(queued_ns, 0) AS queued,
                COALESCE(fault_ns, 0) AS fault, io_ns AS io, sync_ns AS sync, idle_ns AS idle, unknown_ns AS unknown
            FROM _report_split ORDER BY b, t""")
        known = self.one("""
            SELECT COUNT(compute_ns) > 0 AS cpu, COUNT(compute_ns) > 0 OR SUM(sync_ns + idle_ns) > 0 AS waited
            FROM _report_split""")
        return {"first": self.first("_report_split"), **known, **columns}

    def waits(self) -> dict[str, list[Any]]:
        """What threads waited for longest, over the whole run."""
        rows = self.trail.rows_of(f"""
            SELECT t.i AS i, w.*
            FROM waited_for AS w
            JOIN _report_thread AS t ON t.node = w.node AND t.thread = w.thread
            ORDER BY w.time_ns DESC, t.i, w.call LIMIT {MOST_WAITS}""")
        return {
            "thread": [row["i"] for row in rows],
            "what": [waited_object(row) for row in rows],
            "call": [row["call"] for row in rows],
            "count": [row["n"] for row in rows],
            "time": [row["time_ns"] for row in rows],
            "max": [row["max_ns"] for row in rows],
        }

    def depth(self) -> dict[str, Any]:
        """Operations under way at once in each time bucket, on average and at most; and whether those of one thread are,
        so that its I/O time over time is not the mean."""
        if not self.timed:
            return {"mean": None, "most": None, "overlaps": False}
        most, module = ("most", "queue_depth")
        if self.trail.rows["file_op"] > MOST_SORTED:
            most, module = ("NULL", "in_flight")
        columns = self.columns(f"""
            SELECT COALESCE(q.mean, 0) AS mean, COALESCE(q.most, 0) AS most
            FROM range({self.buckets}) AS r(b)
            LEFT JOIN (SELECT {self.bucket_of("ts")} AS b, mean, {most} AS most FROM {module}) AS q ON q.b = r.b
            ORDER BY r.b""")
        under_way = self.one("SELECT SUM(busy_ns) AS ns FROM in_flight")["ns"]
        of_threads = self.one("SELECT SUM(io_ns) AS ns FROM _report_split")["ns"]
        overlaps = float(under_way or 0) > OVERLAP * float(of_threads or 0)
        return {
            "mean": columns["mean"],
            "most": None if most == "NULL" else columns["most"],
            "overlaps": overlaps,
        }

    def heat(self) -> dict[str, Any]:
        """Where in a file, and when: the files of most operations, as many as the page can hold."""
        # Files that may fit, each with at most a cell an operation; what they take decides below.
        files = self.one(f"""
            SELECT COUNT(*) AS n, COUNT(*) FILTER (WHERE cells <= {4 * MOST_HEAT_CELLS}) AS fitting
            FROM (
                SELECT SUM(LEAST(SUM(ops), {self.buckets * HEAT_ROWS})) OVER (ORDER BY SUM(ops) DESC) AS cells
                FROM activity AS a
                -- devices of a block trace have their map in the block view
                ANTI JOIN block_device AS d ON d.node = a.node AND d.file = a.file
                WHERE kind IN ('read', 'write') AND max_pos IS NOT NULL AND file IS NOT NULL
                GROUP BY node, file
            )""")
        if files["n"] == 0:
            return {"files": [], "omitted": 0}
        self.trail.set_params({"heat_files": max(1, files["fitting"])})
        self.run(f"""
            CREATE OR REPLACE TEMP TABLE _report_heat AS
            SELECT
                f.i AS f, h.width, {self.bucket_of("h.ts")} AS b, CAST(h.pos / h.width AS INTEGER) AS p,
                h.reads, h.writes, h.bytes_read, h.bytes_written
            FROM heat AS h
            JOIN _report_file AS f ON f.node = h.node AND f.file = h.file
            ANTI JOIN block_device AS d ON d.node = h.node AND d.file = h.file""")
        shown = self.trail.rows_of(f"""
            WITH drawn AS (
                SELECT
                    f AS file, MAX(width) AS width, SUM(reads + writes) AS ops,
                    LIST(b ORDER BY b, p) AS bucket, LIST(p ORDER BY b, p) AS pos, LIST(reads ORDER BY b, p) AS reads,
                    LIST(writes ORDER BY b, p) AS writes, LIST(bytes_read ORDER BY b, p) AS "readBytes",
                    LIST(bytes_written ORDER BY b, p) AS "writeBytes"
                FROM _report_heat WHERE f < {self.kept_files} GROUP BY f
            )
            SELECT * EXCLUDE (ops) FROM drawn
            QUALIFY ROW_NUMBER() OVER (ORDER BY ops DESC, file) = 1
                OR SUM(LEN(bucket)) OVER (ORDER BY ops DESC, file) <= {MOST_HEAT_CELLS}
            ORDER BY ops DESC, file""")
        return {"files": shown, "omitted": files["n"] - len(shown)}

    def diagnosis(self) -> list[dict[str, Any]]:
        """The cards in their order, with the findings behind each."""
        places = {
            table: {
                row["id"]: row["i"]
                for row in self.trail.rows_of(
                    f"SELECT {table} AS id, MIN(i) AS i FROM _report_{table} GROUP BY {table}"
                )
            }
            for table in ("process", "thread", "file")
        }
        return [
            {
                **{
                    name: card[name]
                    for name in ("cause", "severity", "title", "location", "kind", "ops", "bytes")
                },
                **{table: places[table].get(card[table]) for table in places},
                "cost": card["cost_ns"],
                "gain": card["gain_ns"],
                "share": card["gain_share"],
                "start": None if card["start_ts"] is None else card["start_ts"] - self.start,
                "stop": None if card["end_ts"] is None else card["end_ts"] - self.start,
                "evidence": card["evidence"],
                "advice": card["advice"],
                "details": [
                    {
                        "cost": detail["cost_ns"],
                        **{name: detail[name] for name in ("finding", "severity", "title", "evidence")},
                    }
                    for detail in card["details"]
                ],
            }
            for card in collect_cards(self.trail)
        ]

    def files(self) -> dict[str, list[Any]]:
        return self.columns("""
            SELECT
                CASE WHEN COUNT(*) > 1 THEN 'others' WHEN MAX(file) <> 0 THEN CAST(MAX(file) AS VARCHAR) END AS id,
                MAX(path) AS path
            FROM _report_file GROUP BY i ORDER BY i""")

    def processes(self) -> dict[str, list[Any]]:
        return self.columns(f"""
            SELECT
                CAST(process AS VARCHAR) AS id, node, COALESCE(pid, 0) AS pid, COALESCE(name, 'unknown process') AS name,
                role, rank, cmd, COALESCE(start_ts, {self.start}) - {self.start} AS start,
                end_ts - {self.start} AS stop, COALESCE(ended, 'running') AS ended, status,
                user_ns AS user, system_ns AS system
            FROM _report_process ORDER BY i""")

    def threads(self) -> dict[str, list[Any]]:
        return self.columns(f"""
            SELECT
                CAST(t.thread AS VARCHAR) AS id, COALESCE(t.tid, 0) AS tid, t.thread_name AS name, p.i AS process,
                COALESCE(t.start_ts, {self.start}) - {self.start} AS start, t.end_ts - {self.start} AS stop
            FROM _report_thread AS t
            JOIN _report_process AS p ON p.node = t.node AND p.process = t.process
            ORDER BY t.i""")

    @property
    def kept_files(self) -> int:
        """Files with a row of their own."""
        count: int = self.one("SELECT COUNT(DISTINCT i) AS n FROM _report_file")["n"]
        return count - 1 if self.folded else count

    def bucket_of(self, ts: str) -> str:
        """SQL: the number of the time bucket that begins at `ts`."""
        return f"CAST(({ts} - {self.origin}) / {self.width} AS INTEGER)"

    def first(self, table: str, rows: str = "COUNT(*)") -> list[int]:
        """Where the rows of each bucket begin in a table ordered by bucket, and where the last ends."""
        counts = self.columns(f"""
            SELECT COALESCE(n, 0) AS n
            FROM range({self.buckets}) AS r(b)
            LEFT JOIN (SELECT b, {rows} AS n FROM {table} GROUP BY b) AS c ON c.b = r.b
            ORDER BY r.b""")
        first = [0]
        for count in counts["n"]:
            first.append(first[-1] + count)
        return first

    def run(self, sql: str) -> None:
        self.trail.prepare(sql)
        with self.trail.errors(sql):
            self.trail.connection.execute(sql)

    def one(self, sql: str, *values: object) -> dict[str, Any]:
        """The only row of a query."""
        return self.trail.rows_of(sql, {str(i): value for i, value in enumerate(values, 1)} or None)[0]

    def columns(self, sql: str) -> dict[str, list[Any]]:
        """A query's result as columns."""
        relation = self.trail.query(sql)
        with self.trail.errors(sql):
            table = relation.to_arrow_table()
        return {name: table.column(name).to_pylist() for name in table.column_names}

"""Pruning: raw records of requests give way to sums over stretches of time (Stardust, SIGMETRICS 2006, sections 3.4, 5.4).

What is pruned are whole components of breadcrumbs: what stitches connect, up and down, so that no share of work done for
several is computed from half of them. The sums are those of the modules that answer later questions, asked of the
records to be pruned alone. docs/decisions/0010-rollups-by-workload.md says why they look as they do.
"""

import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from iotrail import native
from iotrail.errors import DamagedTrailError, PrunedError, TrailError, UsageError
from iotrail.pruned import RAW, ROLLUPS, width
from iotrail.requests import critical, find, walk
from iotrail.snapshot import DataFile
from iotrail.trail import Trail

# What --keep takes: rollups, and tables whose rows stay.
TABLES = {"buffer": "buffer_op", "disk": "disk_op"}
KEEPS = (*ROLLUPS, *TABLES)
# Another writer may publish in between, a compaction say: how often to begin anew.
MOST_TRIES = 5

_FLAGGED = tuple(TABLES.values())


@dataclass(frozen=True)
class Size:
    """What a table takes."""

    rows: int
    bytes: int


@dataclass(frozen=True)
class Done:
    """Sizes of the tables that changed, before and after; nothing changed if there are none."""

    before: Mapping[str, Size]
    after: Mapping[str, Size]
    # Sizes of the whole trail.
    whole_before: Size
    whole_after: Size


def prune(
    path: Path,
    *,
    every_ns: int,
    keep: frozenset[str],
    before_ts: int | None = None,
    grace: str = "60s",
    dry_run: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> Done:
    """Replace what ended before `before_ts` (None: all), each record by the clock of its machine, by sums over
    `every_ns`. With `dry_run` nothing is changed."""
    for _ in range(MOST_TRIES):
        trail = Trail(path)
        if not (path / "session.json").exists():
            # where one is recorded they may yet come
            find.expect_requests(trail)
        with tempfile.TemporaryDirectory(prefix="iotrail-prune-") as folder:
            change = _Change(trail, Path(folder), every_ns, keep, before_ts, progress)
            change.compute()
            if not change.removed and not change.streams:
                return _done(trail, trail, {})
            if dry_run:
                return change.sizes()
            if change.publish(grace):
                return _done(trail, Trail(path), change.tables)
        progress("another writer changed the trail: once more")
    raise TrailError(
        f"{path}: other writers changed it each of {MOST_TRIES} times", "prune it when they are done"
    )


class _Change:
    """Which files go, and which rows come instead."""

    def __init__(
        self,
        trail: Trail,
        folder: Path,
        every_ns: int,
        keep: frozenset[str],
        before_ts: int | None,
        progress: Callable[[str], None],
    ) -> None:
        self.trail = trail
        self.folder = folder
        self.every = every_ns
        self.keep = keep
        self.kept_whole = {TABLES[name] for name in keep if name in TABLES}
        self.progress = progress
        self.ended = "true" if before_ts is None else f"ts + COALESCE(dur, 0) < {before_ts}"
        self.end_ts = before_ts
        self.removed: list[DataFile] = []
        self.streams: dict[str, Path] = {}
        # Sources as they are in the trail; the views are those of what is pruned.
        self.source = {name: trail.source(name) for name in trail.tables}
        # DuckDB would draw it over stdout after two seconds
        trail.connection.execute("SET enable_progress_bar = false")

    @property
    def tables(self) -> dict[str, None]:
        """The tables that change."""
        names = [file.name.split("/")[1] for file in self.removed]
        return dict.fromkeys((*names, *self.streams))

    def compute(self) -> None:
        """Find what goes and write what comes."""
        self.progress("looking for requests that are done")
        self._choose()
        for table in RAW:
            self._part(table)
        pruned = sum(self._count(f"prune_{table}") for table in RAW)
        dropped = sum(self._count(f"drop_{table}") for table in _FLAGGED)
        coarser = self._fit_widths()
        fewer = self._no_longer_kept()
        if not (pruned or dropped or coarser or fewer):
            return
        self._view()
        if pruned or coarser:
            if "demand" in self.keep:
                self.progress("summing demand")
                self._demand(coarser)
            if "graphs" in self.keep:
                self.progress("summing steps")
                self._graphs(coarser)
            self._kernel_seen()
        for table in fewer:
            self.removed += self.trail.files(table)
        self.progress("writing what is left")
        for table in RAW:
            self._leave(table)
        self._note(coarser)

    # which records

    def _choose(self) -> None:
        """The temporary table `prune_set`: breadcrumbs of components all of whose records ended."""
        run = self._run
        ends = [
            f"SELECT node, crumb, MAX(ts + COALESCE(dur, 0)) AS end_ts FROM ({self.source[table]}) AS t "
            f"WHERE crumb <> 0{' AND pruned IS NULL' if table in _FLAGGED else ''} GROUP BY node, crumb"
            for table in RAW
        ]
        stitches = f"({self.source['stitch']})"
        run(
            f"""CREATE OR REPLACE TEMP TABLE prune_crumb AS
            SELECT node, crumb, MAX(end_ts) AS end_ts, ROW_NUMBER() OVER () - 1 AS i FROM (
                {" UNION ALL ".join(ends)}
                UNION ALL
                SELECT parent_node, parent_crumb, NULL FROM {stitches} AS s WHERE parent_crumb <> 0 AND crumb <> 0
            ) AS e GROUP BY node, crumb"""
        )
        pairs = self.trail.connection.sql(
            f"""SELECT c.i AS child, p.i AS parent FROM {stitches} AS s
            JOIN prune_crumb AS c ON c.node = s.node AND c.crumb = s.crumb
            JOIN prune_crumb AS p ON p.node = s.parent_node AND p.crumb = s.parent_crumb"""
        ).fetchnumpy()
        count = self._count("prune_crumb")
        child, parent = (np.asarray(pairs[name], dtype=np.int64) for name in ("child", "parent"))
        links = coo_matrix((np.ones(len(child), dtype=np.int8), (child, parent)), shape=(count, count))
        labels = connected_components(links, directed=False)[1] if count else np.zeros(0, dtype=np.int32)
        labelled = pa.table({"i": np.arange(count, dtype=np.int64), "label": labels.astype(np.int64)})
        self.trail.connection.register("prune_label", labelled)
        # Of a request whose caller is in another trail only that one knows for whom it is: it waits for their merger.
        run(
            f"""CREATE OR REPLACE TEMP TABLE prune_set AS
            WITH labelled AS (SELECT * FROM prune_crumb JOIN prune_label USING (i)),
            node AS (
                SELECT node FROM ({self.source["service_op"]}) AS s UNION SELECT node FROM ({self.source["pruned"]}) AS p
            ),
            abroad AS (
                SELECT DISTINCT c.label FROM {stitches} AS s
                JOIN labelled AS c ON c.node = s.node AND c.crumb = s.crumb
                WHERE s.parent_crumb <> 0 AND s.parent_node NOT IN (SELECT node FROM node)
            ),
            done AS (
                SELECT label FROM labelled GROUP BY label
                HAVING {"true" if self.end_ts is None else f"MAX(end_ts) < {self.end_ts}"}
            )
            SELECT c.node, c.crumb FROM labelled AS c SEMI JOIN done USING (label) ANTI JOIN abroad USING (label)"""
        )
        self.trail.connection.unregister("prune_label")

    def _part(self, table: str) -> None:
        """`hit_T`: rows of a table with the file each is in and whether it is pruned; `prune_T`: those that are; `drop_T`:
        those kept so far though they were pruned."""
        scan = self.trail.scan(table, self.trail.files(table), filename=True)
        self._run(
            f"""CREATE OR REPLACE TEMP VIEW hit_{table} AS
            SELECT t.*, k.crumb IS NOT NULL OR (t.crumb = 0 AND {self.ended}) AS hit
            FROM ({scan}) AS t LEFT JOIN prune_set AS k ON k.node = t.node AND k.crumb = t.crumb"""
        )
        fresh = " AND pruned IS NULL" if table in _FLAGGED else ""
        self._run(
            f"CREATE OR REPLACE TEMP TABLE prune_{table} AS SELECT * EXCLUDE (filename, hit) FROM hit_{table} "
            f"WHERE hit{fresh}"
        )
        if table in _FLAGGED:
            gone = "false" if table in self.kept_whole else f"pruned = 1 AND {self.ended}"
            self._run(
                f"CREATE OR REPLACE TEMP TABLE drop_{table} AS SELECT * EXCLUDE (filename, hit) FROM hit_{table} "
                f"WHERE {gone}"
            )

    def _fit_widths(self) -> bool:
        """Whether there are sums over shorter times, which become longer; refused where they can't."""
        widths = set()
        for table in (*ROLLUPS["demand"], *ROLLUPS["graphs"]):
            found = self.trail.connection.sql(
                f"SELECT DISTINCT dur FROM ({self.source[table]}) AS r"
            ).fetchall()
            widths |= {dur for (dur,) in found}
        for had in sorted(widths):
            if had < 1:
                raise DamagedTrailError(
                    f"{self.trail.path}: expected sums over a time, found one over {had} ns",
                    f"iotrail trail check {self.trail.path}",
                )
            if max(had, self.every) % min(had, self.every):
                raise PrunedError(
                    f"{self.trail.path}: --every {width(self.every)}: it was pruned into sums of {width(had)}, which "
                    "can't be cut",
                    f"--every {width(had)}, or a multiple of it",
                )
        return any(had < self.every for had in widths)

    def _no_longer_kept(self) -> list[str]:
        """Rollups that the trail has and that are to be kept no longer."""
        return [
            table
            for what, tables in ROLLUPS.items()
            for table in tables
            if what not in self.keep and self.trail.files(table)
        ]

    def _view(self) -> None:
        """Let modules say of what is pruned what they say of the trail."""
        kernel = (
            f"SELECT * FROM ({self.source['kernel_seen']}) AS k UNION SELECT node, thread, NULL FROM ({self.source['cpu_slice']}) AS c "
            f"WHERE kind = 'kernel' UNION SELECT node, NULL, dev FROM ({self.source['disk_op']}) AS d "
            "WHERE kind = 'kernel'"
        )
        self._run(f"CREATE OR REPLACE TEMP TABLE prune_kernel AS {kernel}")
        rollups = {
            name: f"SELECT * FROM ({self.source[name]}) AS r LIMIT 0"
            for names in ROLLUPS.values()
            for name in names
        }
        self.trail.let(
            {table: f"SELECT * FROM prune_{table}" for table in RAW}
            | rollups
            | {"kernel_seen": "SELECT * FROM prune_kernel"}
        )

    # sums

    def _demand(self, coarser: bool) -> None:
        self._roll(
            "demand_rollup",
            f"SELECT ts, {self.every} AS dur, node, component, client, resource, place, name, n, time_ns, bytes, hits, "
            "unknown FROM demand",
            ("n", "time_ns", "bytes", "hits", "unknown"),
            coarser,
        )
        self._roll(
            "served_rollup",
            f"SELECT ts, {self.every} AS dur, node, component, op, client, n, errors, unfinished, time_ns, bytes "
            "FROM served",
            ("n", "errors", "unfinished", "time_ns", "bytes"),
            coarser,
        )

    def _graphs(self, coarser: bool) -> None:
        self.trail.prepare("request request_count edge point_kind crumb_span")
        self._workloads()
        critical.walk_from(
            self.trail,
            "SELECT node, crumb, MIN_BY(whose, ts) AS whose FROM prune_request GROUP BY node, crumb",
        )
        self._roll(
            "request_rollup",
            f"""SELECT ts, {self.every} AS dur, node, component, op, client, status, least, n, time_ns, length,
                CAST(0 AS BIGINT) AS path_ns
            FROM request_count
            UNION ALL
            SELECT k.ts, {self.every}, b.node, k.component, k.op, k.client, NULL, NULL, 0, 0, 0, b.ns
            FROM critical_begun AS b JOIN prune_kind AS k USING (whose)""",
            ("n", "time_ns", "length", "path_ns"),
            coarser,
        )
        self._steps()
        if not coarser:
            # their numbers say the same of what was pruned before
            self._roll("step_rollup", "FROM prune_step", self._STEP_SUMS, coarser, largest="max_ns")
            self._write(
                "workload",
                f"SELECT * FROM prune_workload_row WHERE workload NOT IN (SELECT workload FROM "
                f"({self.source['workload']}) AS w) ORDER BY ts, workload",
            )
            return
        self._widen()
        self._roll(
            "step_rollup",
            "FROM prune_step",
            self._STEP_SUMS,
            coarser,
            largest="max_ns",
            had="SELECT s.* REPLACE (COALESCE(w.wide, s.workload) AS workload) FROM "
            f"({self.source['step_rollup']}) AS s LEFT JOIN prune_wide AS w ON w.workload = s.workload",
        )
        self.removed += self.trail.files("workload")
        self._write(
            "workload",
            "SELECT DISTINCT * FROM (FROM prune_workload_row UNION ALL FROM prune_wide_row) AS w ORDER BY ts, workload",
        )

    _STEP_SUMS = ("n", "time_ns", "critical", "critical_ns")

    def _workloads(self) -> None:
        """`prune_kind`: kinds of requests, a number `whose` each; `prune_owner`: of each breadcrumb the kinds it works
        for; `prune_workload`: the number of each set of them, by content, so that those of several prunings agree."""
        every = self.every
        self._run(
            f"""CREATE OR REPLACE TEMP TABLE prune_request AS
            SELECT node, crumb, ts, bucket, component, op, client,
                DENSE_RANK() OVER (ORDER BY bucket, component, op, client) AS whose
            FROM (SELECT *, ts - ts % {every} AS bucket FROM request) AS r""",
            f"""CREATE OR REPLACE TEMP TABLE prune_kind AS
            SELECT DISTINCT whose, bucket AS ts, CAST({every} AS BIGINT) AS dur, component, op, client
            FROM prune_request""",
        )
        walk.down_from(
            self.trail, "SELECT '' AS root_node, whose AS root_crumb, node, crumb FROM prune_request"
        )
        self._run(
            "CREATE OR REPLACE TEMP TABLE prune_owner AS "
            "SELECT node, crumb, list_sort(list(root_crumb)) AS kinds FROM walk GROUP BY node, crumb",
            f"""CREATE OR REPLACE TEMP TABLE prune_workload AS
            SELECT kinds, {_NUMBER} AS workload, MIN(k.ts) AS ts
            FROM (
                SELECT kinds, UNNEST(kinds) AS whose
                FROM (SELECT kinds FROM prune_owner UNION SELECT [whose] FROM prune_kind)
            ) AS s
            JOIN prune_kind AS k USING (whose) GROUP BY kinds""",
            """CREATE OR REPLACE TEMP TABLE prune_workload_row AS
            SELECT DISTINCT k.ts, k.dur, w.workload, k.component, k.op, k.client
            FROM (SELECT workload, UNNEST(kinds) AS whose FROM prune_workload) AS w JOIN prune_kind AS k USING (whose)""",
        )

    def _steps(self) -> None:
        """`prune_step`: steps as `step_rollup` has them."""
        every = self.every
        sides = ", ".join(
            f"{at}.record AS {side}_record, {at}.component AS {side}_component, {at}.kind AS {side}_kind, "
            f"{at}.op AS {side}_op, {at}.place AS {side}_place, {at}.moment_number AS {side}_moment"
            for side, at in (("from", "f"), ("to", "t"))
        )
        self._run(
            f"""CREATE OR REPLACE TEMP TABLE prune_step AS
            SELECT s.ts, CAST({every} AS BIGINT) AS dur, s.workload, {sides}, s.kind,
                CAST(s.across AS BIGINT) AS across, s.least, s.n, s.time_ns, s.max_ns, s.critical, s.critical_ns
            FROM (
                -- times of all buckets are in one row: those of each would be most of the bytes
                WITH step AS (
                    SELECT COALESCE(w.ts, c.first_ts - c.first_ts % {every}) AS ts, COALESCE(w.workload, 0) AS workload,
                        e.from_kind, e.to_kind, e.kind, e.across, e.least, SUM(e.weight) AS n,
                        SUM(e.latency * e.weight) AS time_ns,
                        MAX(e.latency) AS max_ns
                    FROM edge AS e
                    JOIN crumb_span AS c ON c.node = e.of_node AND c.crumb = e.of_crumb
                    LEFT JOIN prune_owner AS o ON o.node = e.of_node AND o.crumb = e.of_crumb
                    LEFT JOIN prune_workload AS w ON w.kinds = o.kinds
                    GROUP BY ALL
                )
                SELECT * REPLACE (NULL AS time_ns, NULL AS max_ns), 0 AS critical, 0 AS critical_ns FROM step
                UNION ALL
                SELECT ts, workload, from_kind, to_kind, kind, across, NULL, 0, SUM(time_ns), MAX(max_ns), 0, 0
                FROM step GROUP BY ALL
                UNION ALL
                SELECT w.ts, w.workload, c.from_kind, c.to_kind, c.kind, c.across, NULL, 0, NULL, NULL, c.n, c.time_ns
                FROM critical AS c JOIN prune_workload AS w ON w.kinds = [c.whose]
            ) AS s
            JOIN point_kind AS f ON f.point_kind = s.from_kind
            JOIN point_kind AS t ON t.point_kind = s.to_kind"""
        )

    def _widen(self) -> None:
        """`prune_wide_row`: kinds of requests pruned before, over longer times; `prune_wide`: their numbers then."""
        self._run(
            f"""CREATE OR REPLACE TEMP TABLE prune_wide_row AS
            SELECT DISTINCT ts - ts % GREATEST(dur, {self.every}) AS ts, GREATEST(dur, {self.every}) AS dur, workload,
                component, op, client
            FROM ({self.source["workload"]}) AS w""",
            f"""CREATE OR REPLACE TEMP TABLE prune_wide AS
            SELECT workload, {_NUMBER} AS wide FROM prune_wide_row AS k GROUP BY workload""",
            """CREATE OR REPLACE TEMP TABLE prune_wide_row AS
            SELECT DISTINCT ts, dur, wide AS workload, component, op, client
            FROM prune_wide_row JOIN prune_wide USING (workload)""",
        )

    def _roll(
        self, table: str, fresh: str, sums: tuple[str, ...], coarser: bool, largest: str = "", had: str = ""
    ) -> None:
        """Write the rows of a rollup: fresh ones, and those there were where both are of one time."""
        columns = [column.name for column in self.trail.tables[table].columns]
        self._run(f"CREATE OR REPLACE TEMP TABLE prune_fresh AS {fresh}")
        [(first,)] = self.trail.connection.sql(
            f"SELECT MIN(ts - ts % {self.every}) FROM prune_fresh"
        ).fetchall()
        files = self.trail.files(table)
        if not coarser:
            files = [f for f in files if first is not None and f.max_ts is not None and f.max_ts >= first]
        self.removed += files
        aggregates = {name: f"CAST(SUM({name}) AS BIGINT) AS {name}" for name in sums}
        aggregates |= {largest: f"MAX({largest}) AS {largest}"} if largest else {}
        selected = [
            aggregates.get(name, f"ts - ts % GREATEST(dur, {self.every}) AS ts" if name == "ts" else name)
            if name != "dur"
            else f"GREATEST(dur, {self.every}) AS dur"
            for name in columns
        ]
        old = had or self.trail.scan(table, files)
        names = ", ".join(columns)
        self._write(
            table,
            f"SELECT {', '.join(selected)} FROM (SELECT {names} FROM prune_fresh UNION ALL SELECT {names} FROM ({old}) "
            "AS o) AS r GROUP BY ALL ORDER BY ALL",
        )

    def _kernel_seen(self) -> None:
        """Which threads and disks the kernel's records were of, while there may be more of them."""
        self._run(
            "CREATE OR REPLACE TEMP TABLE prune_seen AS "
            "SELECT DISTINCT node, thread, CAST(NULL AS VARCHAR) AS dev FROM prune_cpu_slice WHERE kind = 'kernel' "
            "UNION SELECT DISTINCT node, NULL, dev FROM prune_disk_op WHERE kind = 'kernel' "
            f"EXCEPT FROM ({self.source['kernel_seen']})"
        )
        self._write("kernel_seen", "FROM prune_seen ORDER BY node, thread, dev")

    # what is left

    def _leave(self, table: str) -> None:
        """Files of a table that hold pruned rows go; their other rows come anew."""
        if table in self.kept_whole:
            changed, left = "hit AND pruned IS NULL", "true"
            columns = "* EXCLUDE (filename, hit) REPLACE (CASE WHEN hit THEN 1 ELSE pruned END AS pruned)"
        else:
            flagged = f" OR COALESCE(pruned = 1 AND {self.ended}, false)" if table in _FLAGGED else ""
            changed = f"(hit{flagged})"
            left, columns = f"NOT {changed}", "* EXCLUDE (filename, hit)"
        found = self.trail.connection.sql(
            f"SELECT DISTINCT filename FROM hit_{table} WHERE {changed}"
        ).fetchall()
        paths = {path for (path,) in found}
        files = [file for file in self.trail.files(table) if str(file.path.absolute()) in paths]
        if files:
            self.removed += files
            listed = ", ".join("'" + str(f.path.absolute()).replace("'", "''") + "'" for f in files)
            order = ", ".join(self.trail.tables[table].order)
            self._write(
                table,
                f"SELECT {columns} FROM hit_{table} WHERE {left} AND filename IN ({listed}) ORDER BY {order}",
            )

    def _note(self, coarser: bool) -> None:
        """What was pruned so far, and now."""
        still = [name for name in KEEPS if name in self.keep]
        kept, now = ",".join(still), time.time_ns()
        parts = [
            f"SELECT *, '{table}' AS record FROM (SELECT ts, dur, node FROM prune_{table}) AS t"
            for table in RAW
            if table not in self.kept_whole
        ]
        parts += [
            f"SELECT *, '{table}' AS record FROM (SELECT ts, dur, node FROM drop_{table}) AS t"
            for table in _FLAGGED
        ]
        had = " || ".join(
            f"CASE WHEN list_contains(string_split(kept, ','), '{name}') THEN ',{name}' ELSE '' END"
            for name in still
        )
        self.removed += self.trail.files("pruned")
        self._write(
            "pruned",
            f"""SELECT MIN(ts) AS ts, MAX(end_ts) - MIN(ts) AS dur, node, record, every_ns, kept,
                MAX(pruned_ts) AS pruned_ts, CAST(SUM(n) AS BIGINT) AS n
            FROM (
                SELECT ts, ts + COALESCE(dur, 0) AS end_ts, node, record, CAST({self.every} AS BIGINT) AS every_ns,
                    '{kept}' AS kept, CAST({now} AS BIGINT) AS pruned_ts, 1 AS n
                FROM ({" UNION ALL ".join(parts)}) AS p
                UNION ALL
                SELECT ts, ts + dur, node, record,
                    {f"GREATEST(every_ns, {self.every})" if coarser else "every_ns"},
                    ltrim({had or "''"}, ','), pruned_ts, n
                FROM ({self.source["pruned"]}) AS o
            ) AS a
            GROUP BY node, record, every_ns, kept ORDER BY 1, node, record""",
        )

    # to the trail

    def publish(self, grace: str) -> bool:
        """Make it so, in one step; False if another writer took off a file meanwhile, and nothing was changed."""
        listed = self.folder / "removed"
        listed.write_text("".join(f"{file.name}\n" for file in self.removed), encoding="utf-8")
        words = ["trail", "replace", self.trail.path, "--remove", listed, "--grace", grace, *self._streams()]
        with self._native(words) as failed:
            if failed is None:
                return True
            live = {file.name for table in self.tables for file in Trail(self.trail.path).files(table)}
            if not {file.name for file in self.removed} <= live:
                return False
            raise TrailError(*failed)

    def sizes(self) -> Done:
        """What it would make of the trail."""
        made = self.folder / "made.trail"
        with self._native(["ingest", "-o", made, *self._streams()]) as failed:
            if failed is not None:
                raise TrailError(*failed)
        comes, gone = Trail(made), {file.name for file in self.removed}
        after = {
            table: [f for f in self.trail.files(table) if f.name not in gone] + comes.files(table)
            for table in self.trail.rows
        }
        return _sizes({name: self.trail.files(name) for name in self.trail.rows}, after, self.tables)

    def _streams(self) -> list[str]:
        return [f"{table}={path}" for table, path in self.streams.items()]

    @contextmanager
    def _native(self, words: list[Any]) -> Iterator[tuple[str, str | None] | None]:
        """Run a native verb: None if it went well, else what it said."""
        with tempfile.TemporaryFile() as errors:
            done = subprocess.run(
                [native.binary(), *words], stdout=subprocess.DEVNULL, stderr=errors, check=False
            )
            yield native.said(errors) if done.returncode else None

    def _write(self, table: str, select: str) -> None:
        """Rows as an Arrow stream; no rows, no stream."""
        with self.trail.errors(select):
            reader = self.trail.connection.sql(select).to_arrow_reader()
            path = self.folder / f"{table}.arrow"
            rows = 0
            with pa.ipc.new_stream(str(path), reader.schema) as stream:
                for batch in reader:
                    rows += batch.num_rows
                    stream.write_batch(batch)
        if rows:
            self.streams[table] = path

    def _run(self, *statements: str) -> None:
        for statement in statements:
            self.trail.prepare(statement)
            with self.trail.errors(statement):
                self.trail.connection.execute(statement)

    def _count(self, table: str) -> int:
        return int(self.trail.connection.execute(f"SELECT COUNT(*) FROM {table}").fetchall()[0][0])


# Of the rows k of a set, in 63 bits, never 0.
_NUMBER = """CAST(GREATEST(md5_number_lower(string_agg(
    to_json({'ts': k.ts, 'dur': k.dur, 'component': k.component, 'op': k.op, 'client': k.client})::VARCHAR, chr(10)
    ORDER BY k.ts, k.component, k.op, k.client)) >> 1, 1) AS BIGINT)"""


def _done(before: Trail, after: Trail, tables: Mapping[str, None]) -> Done:
    return _sizes(
        {name: before.files(name) for name in before.rows},
        {name: after.files(name) for name in after.rows},
        tables,
    )


def _sizes(
    before: Mapping[str, list[DataFile]], after: Mapping[str, list[DataFile]], tables: Mapping[str, None]
) -> Done:
    def size(files: list[DataFile]) -> Size:
        return Size(sum(file.rows for file in files), sum(file.bytes for file in files))

    def sizes(of: Mapping[str, list[DataFile]]) -> dict[str, Size]:
        return {name: size(files) for name, files in of.items() if name in tables}

    def whole(of: Mapping[str, list[DataFile]]) -> Size:
        return size([file for files in of.values() for file in files])

    return Done(sizes(before), sizes(after), whole(before), whole(after))


def keeps(text: str) -> frozenset[str]:
    """What --keep says."""
    names = [name.strip() for name in text.replace("+", ",").split(",") if name.strip()]
    for name in names:
        if name not in KEEPS:
            raise UsageError(f"--keep: expected {', '.join(KEEPS)}, found {name!r}", "--keep demand,graphs")
    if not set(names) & set(ROLLUPS):
        raise UsageError(
            f"--keep {text}: it would leave no answer about requests", "--keep demand, graphs or both"
        )
    return frozenset(names)

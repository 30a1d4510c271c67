"""Read a trail with SQL: its tables and the modules of `sql/` as views in DuckDB.

    trail = Trail("app.trail")
    trail.query("SELECT call, n FROM call_summary WHERE errors > $least", values={"least": 0})

A trail is pinned to its newest readable snapshot when opened, so that a compaction running beside
changes nothing under a reader. Views are made when a query first names them, in order of dependency.
Rows are never handled in Python.
"""

import atexit
import difflib
import functools
import itertools
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import duckdb

from iotrail import modules as sql_modules
from iotrail import schema as trail_schema
from iotrail import snapshot as snapshots
from iotrail.errors import (
    DamagedTrailError,
    IotrailError,
    ParameterError,
    QueryError,
    QueryInterrupted,
    TrailError,
    UnknownNameError,
)
from iotrail.modules import Column, Param
from iotrail.schema import CALL_TABLE, Table
from iotrail.snapshot import DataFile

# Keys of a join that DuckDB holds one by one against the bounds of files and row groups before it reads them; of more
# it takes the smallest and largest. Its own 50 are less than a path of many parts has.
_FEW = 1000
# Node of parents that another tracing system made (crates/sdk/src/context.rs).
_FOREIGN = "opentelemetry"
# Where a query reads comments.
_CATALOGUE = re.compile(r"\b(duckdb_\w+|information_schema)\b", re.IGNORECASE)
# Characters of DuckDB's messages that are shown.
_LONGEST_MESSAGE = 10_000


class Trail:
    """A trail opened for reading. Holds one DuckDB connection, which `query` uses."""

    def __init__(self, path: str | os.PathLike[str], params: Mapping[str, object] | None = None) -> None:
        """Open the trail; `params` sets parameters of modules for all queries."""
        self.path = Path(path)
        self.modules = sql_modules.load()
        self.params = sql_modules.parameters(self.modules.values())
        self._values = {name: self._check(name, value) for name, value in (params or {}).items()}
        snapshot = snapshots.newest(self.path)
        self.snapshot, self.tables, self._files = snapshot.number, snapshot.tables, snapshot.files
        self.nodes = snapshot.nodes
        self._check_files()
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._made: set[str] = set()
        self._sources: dict[str, str] = {}
        # The stretch of time that is left, if it was cut.
        self.part: tuple[int | None, int | None] | None = None
        # Tables are narrowed or their nodes numbered: not again from the files.
        self._settled = False

    @property
    def _where(self) -> str:
        return f"{self.path}/snapshots/{self.snapshot:08}.json"

    @property
    def rows(self) -> Mapping[str, int]:
        """Rows of each table, as the snapshot says."""
        return {name: sum(file.rows for file in files) for name, files in self._files.items()}

    def files(self, table: str) -> list[DataFile]:
        """The files of a table."""
        return self._files.get(table, [])

    def query(self, sql: str, values: Mapping[str, object] | None = None) -> duckdb.DuckDBPyRelation:
        """Run one SELECT and return its relation. `values` are the query's own `$name` parameters."""
        relation = self.ask(sql, values)
        if relation is None:
            raise QueryError("the statement gives no rows", "write a SELECT")
        return relation

    def ask(self, sql: str, values: Mapping[str, object] | None = None) -> duckdb.DuckDBPyRelation | None:
        """Run any one statement; None if it gives no rows."""
        self.prepare(sql)
        given = dict(values) if values else None
        with self.errors(sql):
            try:
                return self.connection.sql(sql, params=given)
            except duckdb.BinderException:
                # a relation's error lacks the place in the text: execute refuses it alike, but says where
                self.connection.execute(sql, given)
                raise

    def rows_of(self, sql: str, values: Mapping[str, object] | None = None) -> list[dict[str, Any]]:
        """The result of one SELECT as dictionaries: for small results."""
        relation = self.query(sql, values)
        with self.errors(sql):
            names = relation.columns
            return [dict(zip(names, row, strict=True)) for row in relation.fetchall()]

    @property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """The connection `query` uses; has the views that queries needed so far."""
        if self._connection is None:
            self._connection = _open_duckdb()
            self._create_params(self._connection)
        return self._connection

    def prepare(self, sql: str) -> None:
        """Make the views that a query names. A word that only looks like a name costs an unused view, so
        the query need not be parsed, which would have to follow every addition to DuckDB's grammar."""
        words = dict.fromkeys(re.findall(r"\w+", sql.lower()))
        for name in words:
            if name in self.tables or name in self.modules:
                self._create(name)
        if _CATALOGUE.search(sql):
            self._comment()

    def set_params(self, params: Mapping[str, object]) -> None:
        """Set parameters of modules for the queries that follow."""
        self._values |= {name: self._check(name, value) for name, value in params.items()}
        self._create_params(self.connection)
        # A materialised module was computed with the parameters before; views follow by themselves.
        for name in [name for name in self._made if name in self.modules and self.modules[name].materialize]:
            used = {p.name for m in sql_modules.closure([name], self.modules) for p in m.params}
            if not used.isdisjoint(params):
                self._made.remove(name)

    def describe(self, name: str) -> tuple[str, tuple[Column, ...]]:
        """What a table or module is, and its columns."""
        if table := self.tables.get(name):
            return table.meaning, table.columns
        if module := self.modules.get(name):
            return module.doc, module.columns
        raise unknown("table or module", name, (*self.tables, *self.modules))

    def source(self, table: str) -> str:
        """The SELECT that reads a table's files: for queries over two trails in one connection."""
        if table not in self._sources:
            self._sources[table] = self._scan(self.tables[table])
        return self._sources[table]

    def number_nodes(self) -> None:
        """Hold the names of machines as numbers, DuckDB's ENUM, for the queries that follow: they ask for millions of
        keys (node, crumb), which then take less memory and time to join and sort. Order and text stay the same. A trail
        that was narrowed stays as it is: it has few."""
        if self._settled:
            return
        self._settled = True
        names = set(self.nodes)
        names |= {row["name"] for row in self.rows_of("SELECT DISTINCT parent_node AS name FROM stitch")}
        known = ", ".join(_text(name) for name in sorted(names - {None}))
        self.connection.execute(f"CREATE TYPE machine AS ENUM ({known})")
        for table in self.tables.values():
            columns = {column.name for column in table.columns}
            if {"node", "crumb"} <= columns:
                casts = ", ".join(
                    f"CAST({name} AS machine) AS {name}"
                    for name in ("node", "parent_node")
                    if name in columns
                )
                self._sources[table.name] = f"SELECT * REPLACE ({casts}) FROM ({self.source(table.name)})"
                self.connection.execute(
                    f"CREATE OR REPLACE VIEW {quoted(table.name)} AS {self._sources[table.name]}"
                )
                self._made.add(table.name)
        # their columns have other types now
        self._made -= self.modules.keys()

    def narrow(self, kept: str, pruned: str = "false") -> None:
        """Leave of every table with breadcrumbs only the rows whose (node, crumb) is in the relation `kept`, for
        the queries that follow: modules then say of a few requests what they say of all. Of pruned requests those
        are left of which `pruned` is true, a condition on client, component, op and ts."""
        self._settled = True
        if self.rows.get("pruned"):
            self.let(
                {
                    "request_rollup": f"SELECT * FROM ({self.source('request_rollup')}) AS r WHERE {pruned}",
                    "step_rollup": f"SELECT * FROM ({self.source('step_rollup')}) AS s WHERE workload IN "
                    f"(SELECT workload FROM ({self.source('workload')}) AS w WHERE {pruned})",
                }
            )
        for table in self.tables.values():
            if {"node", "crumb"} <= {column.name for column in table.columns}:
                rows = quoted(f"narrowed_{table.name}")
                self.connection.execute(
                    # by breadcrumb alone first: DuckDB then reads the other columns only where it found one
                    f"CREATE OR REPLACE TEMP TABLE {rows} AS WITH near AS MATERIALIZED ("
                    f"SELECT * FROM ({self.source(table.name)}) AS t "
                    f"SEMI JOIN {quoted(kept)} AS k ON k.crumb = t.crumb) "
                    f"SELECT * FROM near AS r SEMI JOIN {quoted(kept)} AS k ON k.node = r.node AND k.crumb = r.crumb"
                )
                self.connection.execute(
                    f"CREATE OR REPLACE VIEW {quoted(table.name)} AS SELECT * FROM {rows}"
                )
                self._made.add(table.name)
        # what was computed from all rows is computed again
        self._made -= {name for name in self._made if name in self.modules and self.modules[name].materialize}

    def let(self, relations: Mapping[str, str]) -> None:
        """Let tables be the rows of these SELECTs, for the queries that follow."""
        for name, select in relations.items():
            with self.errors(select):
                self.connection.execute(f"CREATE OR REPLACE VIEW {quoted(name)} AS {select}")
            self._made.add(name)
        self._made -= self.modules.keys()

    def cut(self, begin: int | None, end: int | None) -> None:
        """Leave what happened from `begin` until before `end` (ns since the epoch, None: no bound), for the queries that
        follow: rows under way then, and of processes and threads the part of their lives."""
        self.part = (begin, end)
        first = "NULL" if begin is None else str(begin)
        last = "NULL" if end is None else str(end)
        relations = {}
        for table in self.tables.values():
            columns = {column.name for column in table.columns}
            source = f"SELECT * FROM ({self.source(table.name)}) AS t"
            if {"start_ts", "end_ts"} <= columns:
                source = source.replace(
                    "*",
                    f"* REPLACE (greatest(start_ts, {first}) AS start_ts, "
                    f"CASE WHEN end_ts IS NULL THEN NULL ELSE least(end_ts, {last}) END AS end_ts)",
                )
                relations[table.name] = (
                    f"{source} WHERE coalesce(end_ts >= {first}, true) AND coalesce(start_ts < {last}, true)"
                )
            elif "ts" in columns:
                ended = "ts + coalesce(dur, 0)" if "dur" in columns else "ts"
                relations[table.name] = (
                    f"{source} WHERE coalesce({ended} >= {first}, true) AND coalesce(ts < {last}, true)"
                )
        self.let(relations)

    def errors(self, sql: str) -> "_Errors":
        """A context in which DuckDB's errors become iotrail's."""
        return _Errors(self, sql)

    def _check(self, name: str, value: object) -> str:
        if name not in self.params:
            raise unknown("parameter", name, self.params)
        return literal(self.params[name], value)

    def _create_params(self, connection: duckdb.DuckDBPyConnection) -> None:
        columns = [
            f"CAST({self._values.get(param.name, param.default)} AS {param.type}) AS {quoted(param.name)}"
            for param in self.params.values()
        ]
        connection.execute(f"CREATE OR REPLACE VIEW params AS SELECT {', '.join(columns) or '0 AS none'}")

    def _create(self, name: str) -> None:
        if table := self.tables.get(name):
            if name not in self._made:
                self._create_view(name, self._scan(table))
            return
        for module in sql_modules.closure([name], self.modules):
            for required in module.requires:
                if required in self.tables:
                    self._create(required)
            if module.name not in self._made:
                self._create_view(module.name, module.sql)

    def _create_view(self, name: str, sql: str) -> None:
        with self.errors(sql):
            self.connection.execute(f"CREATE OR REPLACE {self._kind(name)} {quoted(name)} AS {sql}")
        self._made.add(name)

    def _kind(self, name: str) -> str:
        return "TABLE" if name in self.modules and self.modules[name].materialize else "VIEW"

    def _comment(self) -> None:
        """Give what is made the comments of the schema and the modules: that takes as long as making it, so it is
        done for queries of the catalogue alone."""
        comments = []
        for param in self.params.values():
            comment = f"{param.meaning} [{param.unit}]" if param.unit else param.meaning
            comments.append(f"COMMENT ON COLUMN params.{quoted(param.name)} IS {_text(comment)}")
        for name in self._made:
            meaning, columns = self.describe(name)
            comments.append(f"COMMENT ON {self._kind(name)} {quoted(name)} IS {_text(meaning)}")
            comments += [
                f"COMMENT ON COLUMN {quoted(name)}.{quoted(column.name)} IS {_text(column.comment)}"
                for column in columns
            ]
        self.connection.execute(";".join(comments))

    def _scan(self, table: Table) -> str:
        """The SELECT that reads a table: its columns in order, null where the files lack one."""
        if table.name == CALL_TABLE.name:
            calls = ", ".join(
                f"({_text(call.name)}, {_text(call.kind)}, {_text(call.meaning)})"
                for call in trail_schema.load().calls
            )
            return f"SELECT * FROM (VALUES {calls}) AS t(call, kind, meaning)"
        source = self.scan(table.name, self._files[table.name])
        return self._find_parents(source) if table.name == "stitch" else source

    def _find_parents(self, source: str) -> str:
        """The SELECT of stitches, of which some name a parent that another tracing system made, by its breadcrumb alone:
        with the machine of that span, or without a parent where nobody recorded it."""
        foreign = f"SELECT COUNT(*) FROM ({source}) AS s WHERE parent_node = '{_FOREIGN}'"
        with self.errors(foreign):
            [(count,)] = self.connection.execute(foreign).fetchall()
        if not count:
            return source
        return f"""SELECT s.* REPLACE (
                COALESCE(o.node, s.parent_node) AS parent_node,
                CASE WHEN s.parent_node = '{_FOREIGN}' AND o.node IS NULL THEN 0 ELSE s.parent_crumb END AS parent_crumb
            )
            FROM ({source}) AS s
            LEFT JOIN (
                SELECT crumb, MIN(node) AS node FROM ({self.source("service_op")}) AS spans
                WHERE trace_hi IS NOT NULL GROUP BY crumb
            ) AS o ON s.parent_node = '{_FOREIGN}' AND o.crumb = s.parent_crumb"""

    def scan(
        self,
        name: str,
        files: Iterable[DataFile],
        *,
        filename: bool = False,
    ) -> str:
        """The SELECT that reads some files of a table; with `filename` it has a column that says of which."""
        table, files = self.tables[name], list(files)
        if not files:
            columns = [f"CAST(NULL AS {c.type}) AS {quoted(c.name)}" for c in table.columns]
            columns += ["CAST(NULL AS VARCHAR) AS filename"] if filename else []
            return f"SELECT {', '.join(columns)} LIMIT 0"
        paths = ", ".join(_text(str(file.path.absolute())) for file in files)
        # by name: a file written by an older version may lack columns that another has
        source = f"read_parquet([{paths}], union_by_name = true{', filename = true' * filename})"
        describe = f"DESCRIBE SELECT * FROM {source}"
        with self.errors(describe):
            found = {row[0]: str(row[1]) for row in self.connection.execute(describe).fetchall()}
        self._check_nulls(table, paths, len(files))
        columns = ["filename"] if filename else []
        for column in table.columns:
            if column.name not in found:
                columns.append(f"CAST(NULL AS {column.type}) AS {quoted(column.name)}")
            elif found[column.name] == column.type:
                columns.append(quoted(column.name))
            else:
                raise DamagedTrailError(
                    f"{self.path}: column {table.name}.{column.name}: expected {column.type}, "
                    f"found {found[column.name]}",
                    f"iotrail trail check {self.path}",
                )
        return f"SELECT {', '.join(columns)} FROM {source}"

    def _check_nulls(self, table: Table, paths: str, files: int) -> None:
        """Columns that can't be null are declared so in every file, as the trail's writer does: then they have none,
        whoever wrote the file. A second column of that name, or one within another, says nothing of the first."""
        query = f"""
            SELECT CASE WHEN num_children IS NULL THEN lower(name) END, COUNT(*), COUNT(DISTINCT file_name),
                COUNT(*) FILTER (repetition_type = 'REQUIRED' AND name = lower(name))
            FROM parquet_schema([{paths}]) GROUP BY 1"""
        with self.errors(query):
            counts = {name: counted for name, *counted in self.connection.execute(query).fetchall()}
        hint = f"iotrail trail check {self.path}"
        if counts.get(None, [0])[0] != files:
            raise DamagedTrailError(f"{self.path}: table {table.name}: found a column of several", hint)
        for column in table.columns:
            if not column.nullable and counts.get(column.name) != [files] * 3:
                raise DamagedTrailError(
                    f"{self.path}: column {table.name}.{column.name}: expected a value in every row, "
                    "found a file without the column or with nulls in it",
                    hint,
                )

    def _check_files(self) -> None:
        for files in self._files.values():
            for file in files:
                try:
                    found = file.path.stat()
                except OSError as error:
                    raise DamagedTrailError(
                        f"{file.path}: {os.strerror(error.errno or 0)}, but {self._where} lists it",
                        f"iotrail trail check {self.path}",
                    ) from error
                if not stat.S_ISREG(found.st_mode):
                    raise DamagedTrailError(
                        f"{file.path}: {snapshots.UNREGULAR}", f"iotrail trail check {self.path}"
                    )
                if found.st_size != file.bytes:
                    raise DamagedTrailError(
                        f"{file.path}: expected {file.bytes} bytes ({self._where} says), found {found.st_size}",
                        f"iotrail trail check {self.path}",
                    )
                if not os.access(file.path, os.R_OK):
                    raise TrailError(f"{file.path}: no permission to read")


def unknown(kind: str, name: str, known: Iterable[str], hint: str | None = None) -> UnknownNameError:
    """The error for a name that doesn't exist, with the names it may have meant."""
    close = difflib.get_close_matches(name, list(known), n=3, cutoff=0.6)
    if close:
        hint = f"did you mean {' or '.join(close)}?"
    return UnknownNameError(f"no {kind} {name}", hint)


def literal(param: Param, value: object) -> str:
    """The SQL literal of a parameter's value, given as text or as a Python value."""
    text = str(value)
    try:
        match param.type:
            case "BIGINT":
                number = int(text)
                if not -(2**63) <= number < 2**63:
                    raise ValueError
                return str(number)
            case "DOUBLE":
                return repr(float(text))
            case "BOOLEAN":
                return {"true": "true", "false": "false"}[text.lower()]
            case _:
                return _text(text)
    except (ValueError, KeyError) as error:
        raise ParameterError(
            f"parameter {param.name}: expected {param.type}, found {text!r}",
            f"{param.name} is {param.meaning}" + (f" [{param.unit}]" if param.unit else ""),
        ) from error


class _Errors:
    """Turns what DuckDB raises into an IotrailError: the point of its message, the line and a caret."""

    def __init__(self, trail: Trail, sql: str) -> None:
        self._trail = trail
        self._sql = sql

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type | None, error: BaseException | None, traceback: object) -> None:
        # DuckDB's Python module raises a plain RuntimeError for Ctrl-C
        stopped = isinstance(error, RuntimeError) and "interrupt" in str(error).lower()
        if stopped or isinstance(error, duckdb.InterruptException | KeyboardInterrupt):
            raise QueryInterrupted("interrupted") from None
        if isinstance(error, duckdb.Error):
            raise query_error(error, self._trail) from error


def query_error(error: duckdb.Error, trail: Trail | None = None) -> IotrailError:
    """What DuckDB raised as an error of iotrail: of the trail whose file it can't read, else of the query."""
    # what a query asks for in vain may be a text of a file, of any length
    text = re.sub(r"^[\w ]+ Error: ", "", str(error)[:_LONGEST_MESSAGE]).strip()
    listed = (f for files in trail._files.values() for f in files) if trail else ()
    damaged = next((f for f in listed if str(f.path) in text), None)
    if trail and damaged:
        return DamagedTrailError(
            f"{damaged.path}: can't be read: {text.splitlines()[0]}", f"iotrail trail check {trail.path}"
        )
    hint = None
    if isinstance(error, duckdb.OutOfMemoryException):
        hint = "ask for less: a time span (WHERE ts …), fewer groups, --limit"
    elif "out of range" in text or text.startswith("Overflow in"):
        hint = "numbers add up beyond 64 bits: look for impossible ones with MIN and MAX of ts, dur, pos and length"
    missing = re.match(r"Table with name (\w+) does not exist!", text)
    if missing and trail:
        known = (*trail.tables, *trail.modules)
        close = difflib.get_close_matches(missing[1], known, n=3, cutoff=0.6)
        text = re.sub(r"\nDid you mean .*", "", text).replace(missing[0], f"no table or module {missing[1]}")
        hint = f"did you mean {' or '.join(close)}?" if close else "iotrail sql --modules lists them"
    if place := re.search(r"\n+LINE (\d+): (.*)\n( *\^+)\s*$", text):
        shift = len(f"LINE {place[1]}: ")
        where = f"  line {place[1]}: "
        text = f"{text[: place.start()].rstrip()}\n{where}{place[2]}\n{' ' * (len(where) - shift)}{place[3]}"
    return QueryError(text, hint)


_connections = itertools.count()


@functools.cache
def _spill_folder(pid: int) -> Path | None:
    """A folder of this process (`pid`, so that a fork has its own) that nobody else can guess or write to; None if
    none can be made. It is removed when the process ends."""
    try:
        folder = Path(tempfile.mkdtemp(prefix="iotrail-duckdb-"))
    except OSError:
        return None

    def remove() -> None:
        if os.getpid() == pid:
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder


def _open_duckdb() -> duckdb.DuckDBPyConnection:
    """An in-memory database that spills to a private temporary folder, not to the working directory,
    and never fetches an extension from the network."""
    folder = _spill_folder(os.getpid())
    return duckdb.connect(
        config={
            # DuckDB makes it when it spills; without one it says that memory is spent
            "temp_directory": str(folder / str(next(_connections))) if folder else "",
            "autoinstall_known_extensions": "false",
            "dynamic_or_filter_threshold": str(_FEW),
            # a trail's files never change under their names
            "parquet_metadata_cache": "true",
        }
    )


def quoted(name: str) -> str:
    """A name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"

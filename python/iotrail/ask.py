"""`iotrail sql`: run a query or a module and write its rows; list modules and tables.

Rows go from DuckDB to the output as Arrow batches or by DuckDB's own JSON; only the rows of a table on a
screen, which are few, pass through Python.
"""

import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import duckdb
from rich.table import Table as RichTable

from iotrail import modules as sql_modules
from iotrail import pruned
from iotrail import schema as trail_schema
from iotrail.errors import IotrailError, ParameterError, QueryError, UsageError
from iotrail.modules import Column, Module
from iotrail.terminal import WIDE, Console, Text
from iotrail.trail import Trail, quoted, unknown
from iotrail.units import NANOSECONDS, human
from iotrail.visible import one_line

if TYPE_CHECKING:
    from io import IOBase

    import pyarrow as pa

# Rows a table on a screen holds unless --limit says otherwise.
MOST_ROWS = 1000

# Types of values made of values.
_NESTED = re.compile(r"\[\d*\]$|^(STRUCT|MAP|UNION|VARIANT)")

_EVERY = re.compile(r"(\d+(?:\.\d+)?)\s*(ns|us|µs|ms|s|min|m|h)")


def open_trail(path: Path) -> Trail:
    """Open the trail of the command line."""
    return Trail(path)


def read_query(path: Path) -> str:
    """The query in a file."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 text: {error.reason} at byte {error.start}") from error


def parameters(trail: Trail, given: Iterable[str], query: str) -> dict[str, object]:
    """Set the modules' parameters from `NAME=VALUE` texts; return those that are the query's own `$NAME`."""
    own: dict[str, object] = {}
    params: dict[str, object] = {}
    names = set(re.findall(r"\$([A-Za-z_]\w*)", query))
    for text in given:
        name, separator, value = text.partition("=")
        if not separator:
            raise ParameterError(f"parameter {text!r}: expected NAME=VALUE")
        if name in names:
            own[name] = _guess(value)
        elif name in trail.params:
            params[name] = value
        else:
            raise unknown("parameter", name, (*trail.params, *names), "iotrail sql --modules lists them")
    if missing := names - own.keys():
        name = min(missing)
        raise ParameterError(f"the query's ${name} has no value", f"--param {name}=…")
    if params:
        trail.set_params(params)
    return own


def _guess(text: str) -> object:
    """A value for the query's own parameter: a number if it reads like one."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def nanoseconds(text: str, option: str = "--every") -> int:
    """A time like 10ms, 1s or 5min; `option` is named if it is none."""
    found = _EVERY.fullmatch(text.strip())
    ns = round(float(found[1]) * NANOSECONDS[found[2]]) if found else 0
    if ns <= 0:
        raise UsageError(f"{option}: expected a time, found {text!r}", "10ms, 1s, 5min")
    return ns


def module_query(
    trail: Trail, name: str, by: Sequence[str] = (), every: str | None = None, where: str = "true"
) -> str:
    """The query that asks a module or table, grouped by dimensions and time if asked: then `where` says which rows
    count."""
    module = trail.modules.get(name)
    if module is None:
        if name not in trail.tables:
            raise unknown("module", name, (*trail.modules, *trail.tables), "iotrail sql --modules lists them")
        if by or every:
            raise UsageError(f"{name} is a table: --by and --every group modules", "iotrail sql --modules")
        return f"SELECT * FROM {name}"
    for dimension in by:
        if dimension not in module.dimensions:
            has = f"{name} has {', '.join(module.dimensions)}" if module.dimensions else f"{name} has none"
            error = unknown("dimension", dimension, module.dimensions, has)
            raise UsageError(f"{error.message} in module {name}", error.hint)
    if module.grouped and by and not every:
        return _select_grouped(trail, module, by)
    selected = []
    if every:
        ns = nanoseconds(every)
        pruned.expect_width(trail, name, ns)
        if module.column("ts") is None:
            timed = ", ".join(m.name for m in trail.modules.values() if m.column("ts") and m.measures)
            raise UsageError(f"--every: module {name} has no column ts", f"these have: {timed}")
        if any("every_ns" in {p.name for p in m.params} for m in sql_modules.closure([name], trail.modules)):
            trail.set_params({"every_ns": ns})
        selected.append(f"ts - ts % {ns} AS ts")
    if not by and not every:
        return f"SELECT * FROM {name}" + (f" ORDER BY {module.order}" if module.order else "")
    if not module.measures:
        raise UsageError(f"module {name} can't be grouped: it declares no measures")
    selected += by
    groups = len(selected)
    for measure, expression in module.measures.items():
        column = module.column(measure)
        # sum of BIGINT is HUGEINT in DuckDB
        cast = f"CAST({expression} AS {column.type})" if column else expression
        selected.append(f"{cast} AS {measure}")
    positions = ", ".join(str(i + 1) for i in range(groups))
    rows = name if where == "true" else f"(SELECT * FROM {name} WHERE {where}) AS {name}"
    return f"SELECT {', '.join(selected)} FROM {rows} GROUP BY {positions} ORDER BY {positions}"


def _select_grouped(trail: Trail, module: Module, by: Sequence[str]) -> str:
    """Rows that come grouped already: those whose grouping is the one asked for."""
    known = trail.rows_of(f"SELECT DISTINCT {module.grouped} AS per FROM {module.name} ORDER BY 1")
    wanted = next((r["per"] for r in known if set(r["per"].split(", ")) == set(by)), None)
    if wanted is None:
        has = "; ".join(r["per"] for r in known)
        raise UsageError(f"module {module.name} isn't grouped by {', '.join(by)}", f"it is by: {has}")
    return f"SELECT * FROM {module.name} WHERE {module.grouped} = '{wanted}' ORDER BY n DESC"


def run(
    trail: Trail,
    *,
    query: str | None,
    module: str | None,
    by: Sequence[str],
    every: str | None,
    param: Sequence[str],
    limit: int | None,
    format: str,
) -> None:
    """Run what the command line asks for and write its rows to standard output."""
    if module is None and query is not None and re.fullmatch(r"\s*\w+\s*", query):
        module = query.strip()
    if module is not None:
        own = parameters(trail, param, "")
        statements = [module_query(trail, module, by, every)]
    else:
        assert query is not None
        own = parameters(trail, param, query)
        statements = split(trail, query)
    for statement in statements:
        pruned.warn(trail, statement)
        show(trail, statement, own, limit, format)


def split(trail: Trail, query: str) -> list[str]:
    """The statements of a text."""
    with trail.errors(query):
        statements = [
            statement.query.strip().rstrip(";") for statement in trail.connection.extract_statements(query)
        ]
    if not statements:
        raise QueryError("no statement in the query")
    return statements


def show(trail: Trail, query: str, values: Mapping[str, object], limit: int | None, format: str) -> None:
    """Run one statement and write its rows in a format."""
    own = {name: value for name, value in values.items() if f"${name}" in query} or None
    with trail.errors(query):
        _interruptible(trail, lambda: _write(trail, query, own, limit, format))


def _interruptible(trail: Trail, work: Callable[[], None]) -> None:
    """Do work that asks DuckDB so that Ctrl-C stops it: DuckDB doesn't look for signals while rows are fetched,
    so it works in a thread and the main one, which gets the signal, tells it."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        future = pool.submit(work)
        try:
            future.result()
        except KeyboardInterrupt:
            trail.connection.interrupt()
            raise


def _write(trail: Trail, query: str, own: dict[str, object] | None, limit: int | None, format: str) -> None:
    relation = trail.ask(query, own)
    if relation is None:  # a statement without rows, like SET
        return
    if limit is not None:
        relation = relation.limit(limit)
    match format:
        case "csv":
            _write_csv(relation)
        case "json":
            _write_json(relation)
        case "arrow":
            _write_arrow(relation)
        case _:
            # one more row than is shown tells whether there are more
            rows = (relation if limit is not None else relation.limit(MOST_ROWS + 1)).fetchall()
            columns = [(name, str(kind)) for name, kind in zip(relation.columns, relation.types, strict=True)]
            print_rows(trail, query, columns, rows if limit is not None else rows[:MOST_ROWS])
            if limit is None and len(rows) > MOST_ROWS:
                print(f"the first {MOST_ROWS:,} rows; --limit N or --format csv gives more", file=sys.stderr)


def _batches(relation: duckdb.DuckDBPyRelation | None) -> "pa.RecordBatchReader":
    assert relation is not None
    reader: pa.RecordBatchReader = relation.to_arrow_reader()
    return reader


def _write_csv(result: duckdb.DuckDBPyRelation) -> None:
    from pyarrow import csv

    if any(_NESTED.search(str(kind)) for kind in result.types):
        # Arrow writes no lists and structs as CSV: DuckDB's text of them
        result = result.project(
            ", ".join(
                f"CAST({name} AS VARCHAR) AS {name}" if _NESTED.search(str(kind)) else name
                for name, kind in zip((quoted(c) for c in result.columns), result.types, strict=True)
            )
        )
    reader = _batches(result)
    options = csv.WriteOptions(quoting_style="needed")
    with csv.CSVWriter(sys.stdout.buffer, reader.schema, write_options=options) as writer:
        for batch in reader:
            writer.write_batch(batch)
    sys.stdout.buffer.flush()


def _write_arrow(result: duckdb.DuckDBPyRelation) -> None:
    import pyarrow as pa

    if sys.stdout.isatty():
        raise UsageError("an Arrow stream is not for a terminal", "redirect it to a file or another program")
    reader = _batches(result)
    with pa.ipc.new_stream(cast("IOBase", sys.stdout.buffer), reader.schema) as writer:
        for batch in reader:
            writer.write_batch(batch)
    sys.stdout.buffer.flush()


def _write_json(result: duckdb.DuckDBPyRelation) -> None:
    """An array of objects, one a line."""
    out = sys.stdout
    between = "["
    # a struct of all columns under their names, as DuckDB writes it
    for batch in _batches(result.query("q", "SELECT CAST(to_json(q) AS VARCHAR) AS j FROM q")):
        if batch.num_rows:
            out.write(between + "\n" + ",\n".join(map(str, batch.column(0).to_pylist())))
            between = ","
    out.write(("[" if between == "[" else "\n") + "]\n")


def units_of(trail: Trail, query: str) -> dict[str, str]:
    """The unit of each column name among the tables and modules a query names, where they agree."""
    units: dict[str, str] = {}
    for name in dict.fromkeys(re.findall(r"\w+", query.lower())):
        if name in trail.tables or name in trail.modules:
            for column in trail.describe(name)[1]:
                if units.setdefault(column.name, column.unit) != column.unit:
                    units[column.name] = ""
    return units


def print_rows(
    trail: Trail, query: str, columns: Sequence[tuple[str, str]], rows: Sequence[tuple[Any, ...]]
) -> None:
    """Print rows as a table, or one value a line where a table would be wider than the screen."""
    console = Console(piped=WIDE)
    units = units_of(trail, query)
    start = _start_of(trail) if any(_is_moment(name, units.get(name, "")) for name, _ in columns) else None
    cells = [
        [
            _cell(value, name, units.get(name, ""), start)
            for value, (name, _) in zip(row, columns, strict=True)
        ]
        for row in rows
    ]
    numeric = [kind not in ("VARCHAR", "BOOLEAN") for _, kind in columns]
    names = [name for name, _ in columns]
    widths = [max([len(name), *(Text(row[i]).cell_len for row in cells)]) for i, name in enumerate(names)]
    if sum(widths) + 2 * len(widths) <= console.width:
        table = RichTable(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
        for name, right in zip(names, numeric, strict=True):
            table.add_column(Text(name), justify="right" if right else "left", no_wrap=True)
        for row in cells:
            table.add_row(*(Text(cell) for cell in row))
        console.print(table)
    else:
        longest = max(map(len, names))
        for number, row in enumerate(cells, 1):
            console.print(Text(f"── {number} ".ljust(min(console.width, 40), "─"), style="dim"))
            for name, cell in zip(names, row, strict=True):
                console.print(Text(f"{name.ljust(longest)}  ", style="bold") + Text(cell, style="not bold"))
    if console.is_terminal:
        console.print(Text(f"{len(rows):,} row{'' if len(rows) == 1 else 's'}", style="dim"))


def _cell(value: Any, name: str, unit: str, start: int | None) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return one_line(str(value))
    if start is not None and _is_moment(name, unit):
        return f"{(value - start) / 1e9:+.6f} s"
    return human(value, unit) if unit else str(value) if isinstance(value, int) else f"{value:.6g}"


def _is_moment(name: str, unit: str) -> bool:
    """Whether a column holds moments, which a screen shows since the start of the trail."""
    return unit == "ns" and (name == "ts" or name.endswith("_ts"))


def _start_of(trail: Trail) -> int | None:
    start = trail.rows_of("SELECT start_ts FROM trail_span")[0]["start_ts"]
    return None if start is None else int(start)


def show_listing(path: Path | None, modules: bool, tables: bool) -> None:
    """List modules and tables with what they mean, their columns and units."""
    console = Console()
    trail = Trail(path) if path else None
    if tables:
        known = trail.tables if trail else {**trail_schema.load().tables, "call": trail_schema.CALL_TABLE}
        for table in known.values():
            rows = trail.rows.get(table.name) if trail else None
            count = "" if rows is None else f"  ({rows:,} rows)"
            console.print(
                Text(table.name, style="bold cyan") + Text(f"{count}  {table.meaning}", style="not bold")
            )
            print_columns(console, table.columns)
    if modules:
        for module in sql_modules.load().values():
            console.print(
                Text(module.name, style="bold cyan") + Text(f"  {module.summary}", style="not bold")
            )
            for param in module.params:
                value = (
                    f"{human(int(param.default), param.unit)}" if param.type == "BIGINT" else param.default
                )
                console.print(Text(f"    --param {param.name}={param.default}", style="yellow"), end="")
                unit = f" [{param.unit}: {value}]" if param.unit and param.default != "0" else ""
                console.print(Text(f"  {param.meaning}{unit}"), soft_wrap=True)
            if module.measures:
                dimensions = ", ".join(module.dimensions) or "–"
                time = "  --every" if module.column("ts") else ""
                console.print(Text(f"    --by {dimensions}{time}", style="green"), soft_wrap=True)
            if not module.name.startswith(sql_modules.FOLDERS["finding"]):
                print_columns(console, module.columns)


def print_columns(console: Console, columns: Iterable[Column]) -> None:
    """One line a column: name, type, unit, meaning."""
    table = RichTable(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, style="dim")
    table.add_column(no_wrap=True, style="dim")
    table.add_column(overflow="fold")
    for column in columns:
        table.add_row(Text(f"    {column.name}"), column.type, Text(column.unit), Text(column.meaning))
    console.print(table)


def failed(error: IotrailError) -> str:
    """An error as the prompt shows it."""
    return f"error: {error.message}" + (f"\n  hint: {error.hint}" if error.hint else "")

#!/usr/bin/env python3
"""Hold the modules of sql/ to what sql/README.md says: part of `make lint`.

Each module must be one SELECT that sqlglot parses as DuckDB's and as Spark's SQL, use nothing the two engines
run differently, require exactly what it reads, and declare the columns and types that DuckDB reports.
"""

import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from iotrail import modules as sql_modules
from iotrail import schema as trail_schema
from iotrail.errors import IotrailError
from iotrail.modules import Module
from iotrail.trail import Trail

# Functions that one engine lacks or computes differently, and what to write instead.
FORBIDDEN_FUNCTIONS = {
    "any_value": "which row it takes is not defined: use min, max or max_by",
    "approx_quantile": "its result changes between runs: use the histogram",
    "explode": "DuckDB has no EXPLODE",
    "first": "which row is first is not defined: use min, max or min_by",
    "format": "Spark has no FORMAT: use printf('%,d', n)",
    "format_number": "DuckDB has no FORMAT_NUMBER: use printf('%,d', n)",
    "generate_series": "use module number",
    "group_concat": "its order differs: use array_sort(array_agg(x))",
    "last": "which row is last is not defined: use min, max or max_by",
    "list": "use array_sort(array_agg(x))",
    "listagg": "its order differs: use array_sort(array_agg(x))",
    "log": "its base differs: use ln, log2 or log10",
    "quantile": "use the histogram, or percentile_cont(p) WITHIN GROUP (ORDER BY x)",
    "quantile_cont": "use percentile_cont(p) WITHIN GROUP (ORDER BY x)",
    "quantile_disc": "use the histogram",
    "range": "use module number",
    "read_csv": "a module reads tables and modules",
    "read_parquet": "a module reads tables and modules",
    "string_agg": "its order differs: use array_sort(array_agg(x))",
    "unnest": "Spark has no UNNEST",
}
FORBIDDEN_NODES: dict[type[exp.Expression], str] = {
    exp.IntDiv: "// is DuckDB's only: subtract the remainder, then divide",
    exp.Lateral: "lateral joins differ",
    exp.Pivot: "PIVOT differs",
    exp.Placeholder: "parameters are read from the view params",
    exp.Parameter: "parameters are read from the view params",
    exp.Lambda: "lambdas differ",
}
# Relations a module may read without requiring them.
GIVEN = {"params"}


def problems(module: Module) -> Iterator[str]:
    """What is wrong with a module's text."""
    try:
        parsed = sqlglot.parse(module.sql, dialect="duckdb")
        sqlglot.parse(module.sql, dialect="spark")
    except SqlglotError as error:
        yield f"doesn't parse: {str(error).splitlines()[0]}"
        return
    if len(parsed) != 1 or not isinstance(parsed[0], exp.Query):
        yield "expected one SELECT"
        return
    tree = parsed[0]
    # as written: sqlglot's own names of functions are the same for several spellings
    tokens = sqlglot.tokenize(module.sql, dialect="duckdb")
    for token, following in pairwise(tokens):
        name = token.text.lower()
        if following.text == "(" and name in FORBIDDEN_FUNCTIONS:
            yield f"line {token.line}: {name}: {FORBIDDEN_FUNCTIONS[name]}"
    for kind, instead in FORBIDDEN_NODES.items():
        for node in tree.find_all(kind):
            yield f"{node.sql(dialect='duckdb')[:40]}: {instead}"
    for aggregate in tree.find_all(exp.ArrayAgg):
        if isinstance(aggregate.this, exp.Order):
            yield "array_agg(… ORDER BY …): use array_sort(array_agg(x))"
    for percentile in tree.find_all(exp.PercentileCont, exp.PercentileDisc):
        if percentile.expression:
            yield "a percentile with two arguments: use percentile_cont(p) WITHIN GROUP (ORDER BY x)"
    for clause in tree.find_all(exp.With):
        if clause.recursive:
            yield "a recursive CTE: Spark stops at 100 levels"
    for join in tree.find_all(exp.Join):
        if join.method and join.method.upper() == "ASOF":
            yield "an ASOF join: Spark has none"
    for cast in tree.find_all(exp.Cast):
        whole = cast.to.this in (exp.DType.BIGINT, exp.DType.INT)
        if whole and isinstance(cast.this, exp.Div) and not exact(cast.this):
            yield f"{cast.sql(dialect='duckdb')[:60]}: DuckDB rounds a fraction, Spark truncates it"
    ctes = {cte.alias for cte in tree.find_all(exp.CTE)}
    read = {table.name for table in tree.find_all(exp.Table)} - ctes - GIVEN
    if missing := read - set(module.requires):
        yield f"@requires lacks {', '.join(sorted(missing))}"
    if unused := set(module.requires) - read:
        yield f"@requires names {', '.join(sorted(unused))}, which it doesn't read"
    for param in module.params:
        if not any(column.name == param.name for column in tree.find_all(exp.Column)):
            yield f"@param {param.name} is not used"
    # Trail.set_params computes again what declares a parameter: one that is read undeclared would stay as it was.
    own = {param.name for param in module.params}
    everywhere = sql_modules.parameters(sql_modules.load().values())
    for select in tree.find_all(exp.Select):
        tables = {table.alias_or_name: table.name for table in select.find_all(exp.Table)}
        for column in select.find_all(exp.Column):
            source = tables.get(column.table) if column.table else next(iter(tables.values()), None)
            undeclared = column.name in everywhere and column.name not in own
            if undeclared and source == "params" and (column.table or len(tables) == 1):
                yield f"@param {column.name} is missing"


def exact(division: exp.Div) -> bool:
    """Whether the dividend is made a multiple of the divisor by taking its remainder off."""
    dividend = division.this.unnest()
    return isinstance(dividend, exp.Sub) and isinstance(dividend.expression.unnest(), exp.Mod)


def declared(trail: Trail, module: Module) -> Iterator[str]:
    """Where the header's columns aren't those that DuckDB reports."""
    relation = trail.query(f"SELECT * FROM {module.name}")
    found = list(zip(relation.columns, map(str, relation.types), strict=True))
    expected = [(column.name, column.type) for column in module.columns]
    for i in range(max(len(found), len(expected))):
        ours = " ".join(expected[i]) if i < len(expected) else "nothing"
        theirs = " ".join(found[i]) if i < len(found) else "nothing"
        if ours != theirs:
            yield f"column {i + 1}: the header says {ours}, DuckDB {theirs}"
            return


def empty_trail(folder: Path) -> Trail:
    """A trail without a file: enough to ask for columns, and needs no binary."""
    known = trail_schema.load()
    tables = {
        table.name: {
            "meaning": table.meaning,
            "order": table.order,
            "columns": [asdict(column) for column in table.columns],
            "files": [],
        }
        for table in known.tables.values()
    }
    snapshot = {
        "iotrail_trail": known.trail_version,
        "snapshot": 1,
        "created": "2026-01-01T00:00:00Z",
        "writer": "lint_sql",
        "node": [],
        "tables": tables,
    }
    (folder / "snapshots").mkdir()
    (folder / "snapshots" / "00000001.json").write_text(json.dumps(snapshot))
    return Trail(folder)


def main() -> int:
    """Check all modules; 1 if one has a problem."""
    count = 0
    with tempfile.TemporaryDirectory() as folder:
        try:
            trail = empty_trail(Path(folder))
        except IotrailError as error:
            print(f"lint_sql: {error.message}", file=sys.stderr)
            return 1
        for module in sql_modules.load().values():
            found = list(problems(module))
            try:
                found += declared(trail, module)
            except IotrailError as error:
                found.append(error.message)
            for problem in found:
                print(f"{module.path}: {problem}")
            count += len(found)
    print(f"sql: {len(sql_modules.load())} modules, {count} problems")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())

"""The lint of modules refuses what it says it refuses, and passes every module there is."""

import runpy
from pathlib import Path

import pytest

from iotrail import modules

LINT = runpy.run_path(str(Path(__file__).parents[2] / "scripts/lint_sql.py"))

BAD = {
    "SELECT ts // 2 AS x FROM op": "doesn't parse",
    "SELECT list(ts) AS x FROM op": "list",
    "SELECT unnest(array_agg(ts)) AS x FROM op": "unnest",
    "SELECT string_agg(call, ',') AS x FROM op": "string_agg",
    "SELECT array_agg(ts ORDER BY dur) AS x FROM op": "array_agg",
    "SELECT approx_quantile(dur, 0.5) AS x FROM op": "approx_quantile",
    "SELECT percentile_cont(dur, 0.5) AS x FROM op": "two arguments",
    "SELECT log(dur) AS x FROM op": "log",
    "SELECT any_value(ts) AS x FROM op": "any_value",
    "SELECT a.ts AS x FROM op AS a ASOF JOIN op AS b ON a.ts >= b.ts": "ASOF",
    "WITH RECURSIVE r AS (SELECT ts AS x FROM op) SELECT x FROM r": "recursive",
    "SELECT CAST(ts / 2 AS BIGINT) AS x FROM op": "truncates",
    "SELECT $a AS x FROM op": "view params",
    "SELECT ts AS x FROM op JOIN file_op USING (ts)": "@requires lacks file_op",
    "SELECT op.ts % p.every_ns AS x FROM op CROSS JOIN params AS p": "@param every_ns is missing",
    "SELECT 1 AS x": "which it doesn't read",
    "SELECT ts AS x FROM op; SELECT 2": "one SELECT",
    "SELECT FROM op WHERE (": "doesn't parse",
    "DELETE FROM op": "one SELECT",
}
GOOD = [
    "SELECT CAST((ts - ts % 7) / 7 AS BIGINT) AS x FROM op",
    "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY dur) AS x FROM op",
    "SELECT array_sort(array_agg(ts) FILTER (WHERE ts IS NOT NULL)) AS x FROM op",
]


def module(tmp_path: Path, sql: str) -> modules.Module:
    """A module that requires op."""
    path = tmp_path / "m.sql"
    path.write_text(f"-- A module.\n--\n-- @requires op\n-- @column x BIGINT: a number\n{sql}\n")
    return modules.parse(path, "m")


@pytest.mark.parametrize("sql", BAD)
def test_refuses(sql: str, tmp_path: Path) -> None:
    """Each of these differs between the engines or from its header."""
    found = list(LINT["problems"](module(tmp_path, sql)))
    assert any(BAD[sql] in problem for problem in found), found


@pytest.mark.parametrize("sql", GOOD)
def test_allows(sql: str, tmp_path: Path) -> None:
    """What is written instead passes."""
    assert list(LINT["problems"](module(tmp_path, sql))) == []


def test_all_modules_pass(capsys: pytest.CaptureFixture[str]) -> None:
    """Also their columns and types, as DuckDB reports them."""
    assert LINT["main"]() == 0, capsys.readouterr().out

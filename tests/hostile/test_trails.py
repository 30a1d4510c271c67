"""Trails that somebody else made: what their snapshot says becomes SQL and paths, so nothing in it is believed."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from iotrail.errors import DamagedTrailError
from iotrail.trail import Trail

FIXTURE = Path(__file__).parents[1] / "fixtures" / "v1.trail"
Document = dict[str, Any]


def changed(folder: Path, change: Callable[[Document], None]) -> Path:
    """A copy of the fixture with its newest snapshot only, which was changed."""
    trail = folder / "x.trail"
    shutil.copytree(FIXTURE, trail)
    (trail / "snapshots/00000001.json").unlink()
    [path] = (trail / "snapshots").iterdir()
    stored = json.loads(path.read_text())
    change(stored)
    path.chmod(0o644)
    path.write_text(json.dumps(stored))
    return trail


def column(stored: Document) -> Document:
    return {"name": "more", "type": "BIGINT", "unit": "", "nullable": True, "meaning": "more"}


def of_files(stored: Document) -> Document:
    """A table that has files."""
    return next(table for table in stored["tables"].values() if table["files"])


def with_type(text: str) -> Callable[[Document], None]:
    def change(stored: Document) -> None:
        stored["tables"]["file_op"]["columns"].append(column(stored) | {"type": text})

    return change


def with_column(name: str) -> Callable[[Document], None]:
    return lambda stored: stored["tables"]["file_op"]["columns"].append(column(stored) | {"name": name})


def with_path(path: object) -> Callable[[Document], None]:
    return lambda stored: of_files(stored)["files"][0].update(path=path)


def with_table(name: str, **more: object) -> Callable[[Document], None]:
    table = {"meaning": "m", "order": [], "columns": [], "files": []} | more
    return lambda stored: stored["tables"].update({name: table})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (with_column('a" AS b; COPY (SELECT 1) TO'), "expected a name"),
        (with_column("MORE"), "expected a name"),
        (with_column("ts"), "listed twice"),
        (with_table("x; DROP TABLE y"), "expected a name"),
        (with_table("x", order=["y"]), "order names a column"),
        (with_table("x", columns=[{"name": "a"}]), "'type' is missing"),
        (with_table("x", columns={}), "expected a list"),
        (with_table("x", meaning=None), "expected text"),
        (with_path("../../etc/passwd"), "expected a path data/"),
        (with_path("/etc/passwd"), "expected a path data/"),
        (with_path("data/file_op/../../x.parquet"), "expected a path data/"),
        (with_path("data/file_op/*.parquet"), "expected a path data/"),
        (with_path("data/file_op/a\0.parquet"), "expected a path data/"),
        (with_path(7), "expected text"),
        (lambda stored: of_files(stored)["files"].append(of_files(stored)["files"][0]), "listed twice"),
        (lambda stored: of_files(stored)["files"][0].update(rows=-1), "whole number"),
        (lambda stored: of_files(stored)["files"][0].update(rows=1 << 70), "whole number"),
        (lambda stored: of_files(stored)["files"][0].update(min_ts="now"), "whole number"),
        (lambda stored: stored.update(node=[1]), "expected text"),
        (lambda stored: stored.update(tables=[]), "expected an object"),
        (lambda stored: stored["tables"]["file_op"]["columns"][0].update(type="VARCHAR"), "expected BIGINT"),
    ],
)
def test_a_snapshot_that_says_what_it_may_not(
    tmp_path: Path, native: Path, change: Callable[[Document], None], said: str
) -> None:
    """Both readers refuse it, and say so in a line."""
    trail = changed(tmp_path, change)
    with pytest.raises(DamagedTrailError, match=said):
        Trail(trail)
    done = subprocess.run([native, "trail", "info", trail], capture_output=True, text=True, check=False)
    assert done.returncode != 0 and done.stderr.startswith("iotrail: error: ") and len(done.stderr) < 2000


@pytest.mark.parametrize("verb", ["summary", "report", "sql", "export", "diff"])
def test_sql_in_the_type_of_a_column_is_not_run(tmp_path: Path, verb: str) -> None:
    """Of a table without files the type of a column was part of a query: it could write any file."""
    written = tmp_path / "written"
    attack = f"BIGINT) AS a; COPY (SELECT 'x') TO '{written}'; SELECT CAST(NULL AS BIGINT"
    known = changed(tmp_path, with_type(attack))
    words = {
        "summary": ["summary", known],
        "report": ["report", known, "-o", tmp_path / "x.html"],
        "sql": ["sql", known, "SELECT * FROM file_op"],
        "export": ["export", "csv", known, "-o", tmp_path / "x"],
        "diff": ["diff", known, FIXTURE],
    }[verb]
    subprocess.run([sys.executable, "-m", "iotrail", *map(str, words)], capture_output=True, check=False)
    assert not written.exists()
    # A type that this version doesn't know may be of a later one: the column is left out.
    assert "more" not in {c.name for c in Trail(known).tables["file_op"].columns}


@pytest.mark.parametrize("deep", ["[" * 200_000, '{"a":' * 200_000])
def test_a_document_without_end_of_nesting(tmp_path: Path, deep: str) -> None:
    trail = changed(tmp_path, lambda stored: None)
    [path] = (trail / "snapshots").iterdir()
    path.write_text(deep)
    with pytest.raises(DamagedTrailError):
        Trail(trail)


def test_tables_of_a_later_version_are_left_out_or_read(tmp_path: Path) -> None:
    later = [column({}), column({}) | {"name": "shape", "type": "GEOMETRY"}]

    def change(stored: Document) -> None:
        with_table("later_one", columns=later)(stored)
        with_table("later_two", columns=later[:1], order=["more"])(stored)

    trail = Trail(changed(tmp_path, change))
    assert "later_one" not in trail.tables and trail.rows_of("SELECT * FROM later_two") == []

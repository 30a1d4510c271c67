"""Trails that somebody else made: what their snapshot says becomes SQL and paths, so nothing in it is believed."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iotrail import __main__, cli
from iotrail.errors import DamagedTrailError, QueryError
from iotrail.exporters import export
from iotrail.trail import Trail
from tests.sql.tiny import ingest

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


@pytest.mark.parametrize("kind", ["pipe", "device"])
@pytest.mark.parametrize("place", ["snapshot", "data", "session"])
def test_what_is_no_file_is_not_waited_for(tmp_path: Path, native: Path, place: str, kind: str) -> None:
    """A pipe or an endless device under the name of a trail's file: an error, at once."""
    trail = changed(tmp_path, lambda stored: of_files(stored)["files"][0].update(bytes=0))
    [document] = (trail / "snapshots").iterdir()
    data = trail / of_files(json.loads(document.read_text()))["files"][0]["path"]
    path = {"snapshot": document, "data": data, "session": trail / "session.json"}[place]
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    verbs: list[list[str | Path]] = [[native, "trail", "check", trail]]
    if place != "session":
        verbs.append([sys.executable, "-m", "iotrail", "summary", trail])
    for verb in verbs:
        done = subprocess.run(verb, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 1, (verb, done.stdout)
        assert "expected a regular file" in done.stdout + done.stderr


def with_session(trail: Path, folder: Path) -> None:
    """The trail of a recorder that is gone, whose session is said to be there."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    document = {"session_dir": str(folder), "pid": 4_194_304, "start": 1, "boot_id": boot, "node": "n"}
    (trail / "session.json").write_text(json.dumps(document))


@pytest.mark.parametrize("name", ["documents", "iotrail-abcdef", "iotrail-abcdef/aaaabbbbccccdddd"])
def test_no_other_folder_is_taken_for_a_session(tmp_path: Path, native: Path, name: str) -> None:
    """`trail check` recovers and removes a recorder's session, and nothing else that a trail names so."""
    trail = changed(tmp_path, lambda stored: None)
    places = [tmp_path / name, Path("/dev/shm") / f"iotrail-test-{os.getpid()}" / name]
    for folder in places:
        folder.mkdir(parents=True)
        (folder / "control").write_bytes(bytes(4096))
        (folder / "precious").write_text("mine")
        for said in (folder, folder / "..", folder / "." / ".."):
            with_session(trail, said)
            done = subprocess.run(
                [native, "trail", "check", trail], capture_output=True, text=True, check=False
            )
            assert (done.returncode, done.stderr[:16]) == (1, "iotrail: error: "), done.stdout
            assert (folder / "precious").read_text() == "mine"
    shutil.rmtree(Path("/dev/shm") / f"iotrail-test-{os.getpid()}")


def test_a_session_in_use_is_not_taken(tmp_path: Path, native: Path) -> None:
    """A trail that names the session of a recording under way: that one goes on, and loses nothing."""
    out, ready, go = (tmp_path / name for name in ("live.trail", "ready", "go"))
    program = f"echo x > {ready}; while ! [ -e {go} ]; do sleep 0.05; done; echo y > {tmp_path}/last"
    recorder = subprocess.Popen([native, "record", "-o", out, "--", "sh", "-c", program])
    try:
        while not ready.exists():
            assert recorder.poll() is None
            time.sleep(0.05)
        session = Path(json.loads((out / "session.json").read_text())["session_dir"])
        trail = changed(tmp_path, lambda stored: None)
        with_session(trail, session)
        done = subprocess.run([native, "trail", "check", trail], capture_output=True, text=True, check=False)
        assert done.returncode == 1 and "is being recorded into" in done.stderr, done.stderr
        assert session.is_dir()
    finally:
        go.touch()
        status = recorder.wait()
    assert status == 0
    written = "SELECT COUNT(*) AS n FROM file_op JOIN file USING (node, file) WHERE path LIKE '%/last'"
    assert Trail(out).rows_of(written)[0]["n"] > 0


def with_values(folder: Path, table: str, name: str, value: object) -> Path:
    """A copy of the fixture whose rows of a table all have this value in a column."""

    def change(stored: Document) -> None:
        [file] = stored["tables"][table]["files"]
        path = folder / "x.trail" / file["path"]
        rows = pq.read_table(path)
        at = rows.column_names.index(name)
        kind = rows.schema.field(at).type
        field = pa.field(name, kind, nullable=value is None)
        path.chmod(0o644)
        pq.write_table(rows.set_column(at, field, pa.array([value] * rows.num_rows, kind)), path)
        file["bytes"] = path.stat().st_size

    return changed(folder, change)


def test_a_column_without_nulls_that_has_some(tmp_path: Path) -> None:
    """Readers count on what the schema says of nulls."""
    trail = Trail(with_values(tmp_path, "process", "pid", None))
    with pytest.raises(DamagedTrailError, match=r"column process\.pid: expected a value in every row"):
        trail.rows_of("SELECT pid FROM process")


@pytest.mark.parametrize(
    ("table", "name", "value"),
    [
        ("file_op", "call", "of_a_later_version"),
        ("process", "pid", 1 << 62),
        ("process", "process", -1),
        ("thread", "tid", -1 << 63),
        ("file_op", "thread", -1),
        ("file_op", "ts", -1),
    ],
)
def test_numbers_and_calls_that_perfetto_has_no_room_for(
    tmp_path: Path, table: str, name: str, value: object
) -> None:
    written = export(Trail(with_values(tmp_path, table, name, value)), "perfetto", tmp_path / "x.pftrace")
    assert written.stat().st_size > 0


def test_a_call_of_more_pages_than_memory_holds(tmp_path: Path, native: Path) -> None:
    row = {"ts": 0, "dur": 1, "node": "n", "thread": 1, "crumb": 0, "call": "read", "file": 1, "pos": 0}
    row |= {"result": 1 << 60, "errno": 0, "calls": 1}
    trail = Trail(ingest(native, {"file_op": pa.Table.from_pylist([row])}, tmp_path / "x.trail"))
    with pytest.raises(QueryError, match=f"a call moved {1 << 60} bytes: expected at most"):
        export(trail, "oracle-general", tmp_path / "x.oracleGeneral")


@pytest.mark.parametrize("error", [MemoryError(), duckdb.Error("TProtocolException: " + "x" * (1 << 20))])
def test_what_libraries_raise_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception
) -> None:
    """DuckDB finds damage while rows are fetched too, and shows a text whole that it can't take for a number."""

    def fail(**_: object) -> None:
        raise error

    monkeypatch.setattr(cli, "app", fail)
    monkeypatch.setattr(sys, "argv", ["iotrail", "summary"])
    with pytest.raises(SystemExit) as ended:
        __main__.main()
    assert ended.value.code == 1
    said = capsys.readouterr().err
    assert said.startswith("iotrail: error: ") and len(said) < 11_000

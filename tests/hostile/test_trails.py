"""Trails that somebody else made: what their snapshot says becomes SQL and paths, so nothing in it is believed."""

import asyncio
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
from iotrail.errors import DamagedTrailError, QueryError, TrailError
from iotrail.exporters import export
from iotrail.serve.sandbox import Sandbox
from iotrail.trail import Trail
from iotrail.units import shell_line
from tests.sql.tiny import ingest, write_trail

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


def with_column(name: str, **more: object) -> Callable[[Document], None]:
    changed = {"name": name} | more
    return lambda stored: stored["tables"]["file_op"]["columns"].append(column(stored) | changed)


def with_path(path: object) -> Callable[[Document], None]:
    return lambda stored: of_files(stored)["files"][0].update(path=path)


def with_table(name: str, **more: object) -> Callable[[Document], None]:
    table = {"meaning": "m", "order": [], "columns": [], "files": []} | more
    return lambda stored: stored["tables"].update({name: table})


def with_order(*order: str) -> Callable[[Document], None]:
    return lambda stored: stored["tables"]["file_op"].update(order=order)


def without_column(name: str) -> Callable[[Document], None]:
    def change(stored: Document) -> None:
        columns = stored["tables"]["file_op"]["columns"]
        columns.remove(next(column for column in columns if column["name"] == name))

    return change


def with_dead(path: str) -> Callable[[Document], None]:
    return lambda stored: stored.update(dead=[{"path": path, "since": 0}])


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
        # a known table's order became part of what `trail prune` asks
        (with_order("ts; COPY (SELECT 1) TO 'x'"), "order names a column"),
        (with_order("ts"), "expected the order"),
        (without_column("call"), "column call is missing"),
        (with_column("more", nullable=1), "expected true or false"),
        (lambda stored: stored.update(snapshot=7), "says that it is snapshot 7"),
        (lambda stored: stored.update(parent=2), "can't have parent 2"),
        (lambda stored: stored.update(created=None), "expected text"),
        (lambda stored: stored.update(node=["\ud800"]), "half a character"),
        (with_table("x", meaning="\udfff"), "half a character"),
        (lambda stored: of_files(stored)["files"][0].update(crc32=1 << 32), "whole number"),
        (
            lambda stored: of_files(stored)["files"][0].update(min_ts=9, max_ts=8),
            "min_ts 9 is after max_ts 8",
        ),
        (lambda stored: of_files(stored)["files"][0].update(min_ts=None, max_ts=8), "come together"),
        (with_dead("data/../../etc/x.parquet"), "expected a path data/"),
        (with_dead("data/../x.parquet"), "expected a path data/"),
        (lambda stored: with_dead(of_files(stored)["files"][0]["path"])(stored), "listed twice"),
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


@pytest.mark.parametrize(
    "name", ["٠٠٠٠٠٠٠٩.json", "000000009.json", "18446744073709551616.json", "00000000.json", "9.json"]
)
def test_a_name_that_no_snapshot_has(tmp_path: Path, native: Path, name: str) -> None:
    """Both readers leave it out: else `trail check` would look at another snapshot than those who ask."""
    trail = changed(tmp_path, lambda stored: None)
    [path] = (trail / "snapshots").iterdir()
    (path.parent / name).write_text(json.dumps(json.loads(path.read_text()) | {"snapshot": 9}))
    assert Trail(trail).snapshot == 2
    done = subprocess.run(
        [native, "trail", "info", "--json", trail], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout)["snapshot"] == 2


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-8-sig"])
def test_a_document_of_another_encoding(tmp_path: Path, native: Path, encoding: str) -> None:
    """Neither reader takes it."""
    trail = changed(tmp_path, lambda stored: None)
    [path] = (trail / "snapshots").iterdir()
    path.write_text(path.read_text(), encoding=encoding)
    with pytest.raises(DamagedTrailError):
        Trail(trail)
    assert subprocess.run([native, "trail", "info", trail], capture_output=True, check=False).returncode == 1


@pytest.mark.parametrize("version", [True, 0, -1, 1.0, "1", None])
def test_a_version_that_is_none(tmp_path: Path, native: Path, version: object) -> None:
    trail = changed(tmp_path, lambda stored: stored.update(iotrail_trail=version))
    with pytest.raises(TrailError):
        Trail(trail)
    assert subprocess.run([native, "trail", "info", trail], capture_output=True, check=False).returncode == 1


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


def rewritten(folder: Path, table: str, change: Callable[[pa.Table], pa.Table]) -> Path:
    """A copy of the fixture whose rows of a table were changed, and with them the types of its columns."""

    def written(stored: Document) -> None:
        [file] = stored["tables"][table]["files"]
        path = folder / "x.trail" / file["path"]
        rows = change(pq.read_table(path))
        path.chmod(0o644)
        pq.write_table(rows, path)
        file["bytes"] = path.stat().st_size

    return changed(folder, written)


def optional(rows: pa.Table, name: str) -> pa.Table:
    """All nulls in a column, which may be."""
    at = rows.column_names.index(name)
    kind = rows.schema.field(at).type
    return rows.set_column(at, pa.field(name, kind), pa.nulls(rows.num_rows, kind))


def with_pid(rows: pa.Table, name: str) -> pa.Table:
    """Another column, which says that it has a value in every row."""
    return rows.append_column(pa.field(name, pa.int64(), nullable=False), pa.array([7] * rows.num_rows))


def with_inner_pid(rows: pa.Table) -> pa.Table:
    inner = pa.StructArray.from_arrays(
        [pa.array([7] * rows.num_rows)], fields=[pa.field("pid", pa.int64(), nullable=False)]
    )
    return rows.append_column("more", inner)


@pytest.mark.parametrize(
    "change",
    [
        lambda rows: with_inner_pid(optional(rows, "pid")),
        lambda rows: with_inner_pid(rows.drop_columns("pid")),
        lambda rows: with_pid(optional(rows, "pid"), "pid"),
        lambda rows: with_pid(rows.drop_columns("pid"), "PID"),
        lambda rows: with_pid(optional(rows, "pid"), "PID"),
    ],
    ids=["within another", "only within another", "twice", "in capitals", "also in capitals"],
)
def test_another_column_says_nothing_of_nulls(tmp_path: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    """A file whose schema has a column of that name and without nulls elsewhere."""
    trail = Trail(rewritten(tmp_path, "process", change))
    with pytest.raises(DamagedTrailError, match=r"a column of several|expected a value in every row"):
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


def of_two_files(native: Path, folder: Path) -> Path:
    """A trail that a compaction changes."""
    row = {"dur": 0, "node": "n", "member": "m", "metric": "load", "value": 1.0}
    parts = [
        ingest(native, {"node_sample": pa.Table.from_pylist([row | {"ts": ts}])}, folder / f"{ts}.trail")
        for ts in (1, 2)
    ]
    trail = folder / "x.trail"
    subprocess.run([native, "trail", "merge", *parts, "-o", trail], check=True, capture_output=True)
    return trail


def compact(native: Path, trail: Path, **options: Any) -> subprocess.CompletedProcess[str]:
    words = [native, "trail", "compact", trail, "--grace", "0s"]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=60, **options)


@pytest.mark.parametrize("folder", ["snapshots", "data", "data/node_sample"])
def test_nothing_is_deleted_through_a_link(tmp_path: Path, native: Path, folder: str) -> None:
    """A folder of a trail that is a link to another: nothing is made or deleted there."""
    trail, elsewhere = of_two_files(native, tmp_path), tmp_path / "elsewhere"
    (trail / folder).rename(elsewhere)
    (trail / folder).symlink_to(elsewhere)
    # files that are to be deleted, and that no snapshot lists
    mine = [(trail / "data/node_sample").resolve() / f"{name}.parquet" for name in ("dead", "orphan")]
    for path in mine:
        path.write_text("mine")
        os.utime(path, (0, 0))
    document = max((trail / "snapshots").glob("*.json"))
    stored = json.loads(document.read_text())
    stored["dead"] = [{"path": "data/node_sample/dead.parquet", "since": 0}]
    document.write_text(json.dumps(stored))
    before = sorted(elsewhere.rglob("*"))
    for done in (
        compact(native, trail),
        subprocess.run(
            [native, "trail", "check", "--repair", trail], capture_output=True, text=True, check=False
        ),
    ):
        assert done.returncode == 1 and "expected a folder, found a symbolic link" in done.stderr, done.stderr
    assert sorted(elsewhere.rglob("*")) == before and all(path.read_text() == "mine" for path in mine)


def test_nothing_is_written_through_a_link(tmp_path: Path, native: Path) -> None:
    """The next snapshot is written under a name that whoever made the trail knows, but for the pid."""
    trail, precious = of_two_files(native, tmp_path), tmp_path / "precious"
    precious.write_text("mine")
    taken = max(int(path.stem) for path in (trail / "snapshots").glob("*.json"))

    def plant() -> None:
        (trail / f"snapshots/.{taken + 1:08}.{os.getpid()}").symlink_to(precious)

    done = compact(native, trail, preexec_fn=plant)
    assert done.returncode == 0, done.stderr
    assert (trail / f"snapshots/{taken + 1:08}.json").is_file()
    assert precious.read_text() == "mine"


@pytest.mark.parametrize("is_read", [True, False])
def test_no_snapshot_follows_that_of_the_highest_number(tmp_path: Path, native: Path, is_read: bool) -> None:
    """The next was number 0, which nobody reads and which was there already the second time: tried again without end."""
    trail = of_two_files(native, tmp_path)
    newest = max((trail / "snapshots").glob("*.json"))
    number = (1 << 64) - 1
    stored = json.loads(newest.read_text()) | {"snapshot": number}
    (trail / f"snapshots/{number}.json").write_text(json.dumps(stored) if is_read else "{")
    for _ in range(2):
        done = compact(native, trail)
        assert done.returncode == 1 and "no other can follow" in done.stderr, done.stderr


def changed_story(native: Path, folder: Path, story: str, change: Callable[[Document], None]) -> Path:
    """The trail of a story of tests/sql, of which the newest snapshot was changed."""
    trail = write_trail(native, Path(__file__).parents[1] / "sql" / story, folder)
    *older, path = sorted((trail / "snapshots").glob("*.json"))
    for other in older:
        other.unlink()
    stored = json.loads(path.read_text())
    change(stored)
    path.write_text(json.dumps(stored))
    return trail


def test_sql_in_the_order_of_a_table_is_not_run(tmp_path: Path, native: Path) -> None:
    """What is left of a pruned table is written in its order."""
    written = tmp_path / "written"

    def change(stored: Document) -> None:
        for table in stored["tables"].values():
            table["order"] = [f"ts; COPY (SELECT 'x') TO '{written}'; SELECT 1 AS ts ORDER BY ts"]

    trail = changed_story(native, tmp_path, "store", change)
    words = [sys.executable, "-m", "iotrail", "trail", "prune", trail]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "order names a column" in done.stderr, done.stderr
    assert not written.exists()


def test_sums_over_no_time(tmp_path: Path, native: Path) -> None:
    """Times of sums are divided by each other when a trail is pruned again."""

    def change(table: str, rows: pa.Table) -> pa.Table:
        if not table.endswith("_rollup"):
            return rows
        at = rows.column_names.index("dur")
        return rows.set_column(at, "dur", pa.array([0] * rows.num_rows))

    trail = write_trail(native, Path(__file__).parents[1] / "sql/pruned", tmp_path, change)
    words = [sys.executable, "-m", "iotrail", "trail", "prune", trail]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "expected sums over a time, found one over 0 ns" in done.stderr, (
        done.stderr
    )


def test_a_command_of_deep_json() -> None:
    """What a trail says of its command is shown as it is where it is no list of words."""
    for deep in ("[" * 200_000, '{"a":' * 200_000):
        assert shell_line(deep) == deep


@pytest.mark.parametrize("listed", [False, True])
def test_sql_of_a_page_reads_no_file_through_a_link(tmp_path: Path, listed: bool) -> None:
    """Neither through a folder nor as a file that the snapshot lists."""
    trail, elsewhere = changed(tmp_path, lambda stored: None), tmp_path / "elsewhere"
    elsewhere.mkdir()
    (trail / "out").symlink_to(elsewhere)
    (elsewhere / "secret").write_text("secret")
    asked = f"SELECT * FROM read_text('{trail}/out/secret')"
    if listed:
        [file] = Trail(trail).files("file_op")
        file.path.rename(elsewhere / "moved")
        file.path.symlink_to(elsewhere / "moved")
        asked = f"SELECT * FROM read_blob('{file.path}')"

    async def never() -> None:
        await asyncio.sleep(60)

    answer = json.loads(asyncio.run(Sandbox(trail).ask(asked, never)))
    assert "disabled by configuration" in answer["error"]
    answer = json.loads(asyncio.run(Sandbox(trail).ask("SELECT COUNT(*) AS n FROM process", never)))
    assert answer["rows"][0][0] > 0

"""`iotrail sql` and `iotrail summary`: answers in each format, and what bad input is told."""

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

RUN = Path(__file__).parent / "run"


def iotrail(
    *arguments: object, text: str | None = None, **environment: str
) -> subprocess.CompletedProcess[bytes]:
    """Run the command."""
    return subprocess.run(
        [sys.executable, "-m", "iotrail", *map(str, arguments)],
        input=text.encode() if text is not None else None,
        stdin=subprocess.DEVNULL if text is None else None,
        capture_output=True,
        env=os.environ | {"NO_COLOR": "1", "COLUMNS": "200"} | environment,
        check=False,
        timeout=120,
    )


@pytest.fixture
def trail(make_trail: Callable[[Path], Path]) -> Path:
    """The trail of tests/sql/run."""
    return make_trail(RUN)


@pytest.fixture
def copy(trail: Path, tmp_path: Path) -> Path:
    """One that may be damaged."""
    return Path(shutil.copytree(trail, tmp_path / "copy.trail"))


def refused(done: subprocess.CompletedProcess[bytes], *says: str, status: int = 1) -> None:
    """It ended with a message of a few lines that says all this, and no traceback."""
    error = done.stderr.decode()
    assert done.returncode == status, error
    assert error.startswith("iotrail: error: "), error
    assert "Traceback" not in error
    assert len(error.splitlines()) <= 6, error
    for words in says:
        assert words in error, error


def test_csv(trail: Path) -> None:
    done = iotrail("sql", trail, "SELECT call, n FROM call_summary WHERE kind = 'flush'", "--format", "csv")
    assert done.stdout == b'"call","n"\n"fsync",1\n'


def test_json(trail: Path) -> None:
    done = iotrail(
        "sql", trail, "SELECT thread, dur, NULL AS x FROM op WHERE thread = 12 ORDER BY ts", "--format=json"
    )
    assert json.loads(done.stdout) == [{"thread": 12, "dur": d, "x": None} for d in (20, 30, None)]


def test_json_of_no_rows(trail: Path) -> None:
    assert json.loads(iotrail("sql", trail, "FROM op WHERE false", "--format", "json").stdout) == []


def test_arrow(trail: Path) -> None:
    done = iotrail("sql", trail, "file_op", "--format", "arrow")
    assert pa.ipc.open_stream(io.BytesIO(done.stdout)).read_all().num_rows == 11


def test_table_has_units(trail: Path) -> None:
    line = (
        iotrail("sql", trail, "SELECT ts, dur, moved, bucket FROM op WHERE moved = 2048")
        .stdout.decode()
        .splitlines()
    )
    assert line[1].split() == ["+0.000000", "s", "20", "ns", "2.00", "KiB", "20"]


def test_query_from_a_file_and_from_stdin(trail: Path, tmp_path: Path) -> None:
    file = tmp_path / "q.sql"
    file.write_text("SELECT 1 AS a;\nSELECT 2 AS b")
    expected = b'"a"\n1\n"b"\n2\n'
    assert iotrail("sql", trail, "-f", file, "--format", "csv").stdout == expected
    assert iotrail("sql", trail, "-", "--format", "csv", text=file.read_text()).stdout == expected


def test_by_and_every(trail: Path) -> None:
    # process 1 reads 14336 bytes before 500 ns and 4096 after (tests/sql/run/throughput.sql)
    done = iotrail(
        "sql", trail, "--module", "throughput", "--by", "kind", "--every", "500ns", "--format", "json"
    )
    rows = {(r["ts"], r["kind"]): r["bytes"] for r in json.loads(done.stdout)}
    assert rows[0, "read"] == 14336 and rows[500, "read"] == 4096 and rows[0, "write"] == 100


def test_by_of_a_grouped_module(trail: Path) -> None:
    done = iotrail("sql", trail, "percentiles", "--by", "kind", "--format", "json")
    assert {r["kind"]: r["n"] for r in json.loads(done.stdout)} == {
        "read": 5,
        "write": 2,
        "flush": 1,
        "meta": 2,
    }


def test_param_of_a_module_and_of_the_query(trail: Path) -> None:
    query = "SELECT count(*) AS n, $x AS x FROM time_bucket"
    done = iotrail("sql", trail, query, "--param", "every_ns=500", "--param", "x=4", "--format", "csv")
    assert done.stdout == b'"n","x"\n3,4\n'


def test_limit(trail: Path) -> None:
    assert iotrail("sql", trail, "op", "--limit", "2", "--format", "csv").stdout.count(b"\n") == 3


def test_listings(trail: Path) -> None:
    tables = iotrail("sql", trail, "--tables").stdout.decode()
    assert "file_op  (11 rows)" in tables and "Offset in the file" in tables
    modules = iotrail("sql", "--modules").stdout.decode()
    assert "time_split" in modules and "finding_small_reads" in modules and "--param every_ns=0" in modules


def test_comments_are_in_the_database(trail: Path) -> None:
    query = "SELECT comment FROM duckdb_columns() WHERE table_name = 'op' AND column_name = 'dur'"
    done = iotrail("sql", trail, f"{query} -- op", "--format", "csv")
    assert done.stdout.splitlines()[1] == b'"time until it returned; null if it never did, or unknown [ns]"'


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_query_stops(trail: Path, tmp_path: Path, number: signal.Signals) -> None:
    """And leaves no folder behind for what it might have spilled."""
    tmp_path.joinpath("tmp").mkdir()
    endless = "SELECT count(*) FROM range(100000000) a, range(100000) b WHERE a.range * b.range % 7 = 3"
    process = subprocess.Popen(
        [sys.executable, "-m", "iotrail", "sql", trail, endless],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(tmp_path / "tmp")},
    )
    try:
        time.sleep(3)  # it has begun; no other sign of that comes out
        assert list(tmp_path.joinpath("tmp").glob("iotrail-duckdb-*"))
        process.send_signal(number)
        _, error = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 130 and error == b"iotrail: error: interrupted\n"
    assert not list(tmp_path.joinpath("tmp").iterdir())


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("SELEC 1", ["syntax error", "line 1: SELEC 1\n          ^^^^^"]),
        ("SELECT\n  foo FROM op", ['"foo" not found', "line 2:   foo FROM op\n            ^^^"]),
        ("SELECT * FROM latncy", ["no table or module latncy", "did you mean latency"]),
        ("SELECT 'a' + 1 FROM op GROUP BY nothing", ["line 1"]),
        ("latncy", ["no module latncy", "did you mean latency"]),
        ("SELECT $a", ["$a has no value", "--param a=…"]),
        ("", ["no statement"]),
    ],
)
def test_sql_with_an_error(trail: Path, query: str, says: list[str]) -> None:
    refused(iotrail("sql", trail, query), *says)


def test_wrong_names_and_values(trail: Path) -> None:
    refused(iotrail("sql", trail, "op", "--param", "every=3"), "no parameter every", "did you mean every_ns")
    refused(iotrail("sql", trail, "op", "--param", "every_ns=x"), "expected BIGINT, found 'x'")
    refused(iotrail("sql", trail, "op", "--param", "every_ns"), "expected NAME=VALUE")
    refused(
        iotrail("sql", trail, "latency", "--by", "cal"), "no dimension cal", "did you mean call", status=2
    )
    refused(iotrail("sql", trail, "latency", "--every", "1s"), "has no column ts", "throughput", status=2)
    refused(iotrail("sql", trail, "throughput", "--every", "1x"), "expected a time, found '1x'", status=2)
    refused(iotrail("sql", trail, "file_op", "--by", "call"), "file_op is a table", status=2)
    refused(
        iotrail("sql", trail, "percentiles", "--by", "file,process"),
        "isn't grouped by",
        "call, file",
        status=2,
    )
    refused(iotrail("sql"), "which trail", status=2)
    refused(iotrail("sql", trail, "op", "-f", "/nowhere"), "one of QUERY", status=2)
    refused(iotrail("sql", trail, "-f", "/nowhere"), "/nowhere: No such file", status=2)


def test_not_a_trail(tmp_path: Path) -> None:
    refused(iotrail("sql", tmp_path / "no.trail", "op"), "no such trail")
    refused(iotrail("summary", tmp_path), "not a trail")
    (tmp_path / "snapshots").mkdir()
    refused(iotrail("summary", tmp_path), "without a snapshot", "iotrail trail check")
    (tmp_path / "snapshots" / "00000001.json").write_text("{")
    refused(iotrail("summary", tmp_path), "00000001.json", "iotrail trail check")
    (tmp_path / "snapshots" / "00000001.json").write_text("[]")
    refused(iotrail("summary", tmp_path), "iotrail trail check")
    (tmp_path / "snapshots" / "00000001.json").write_text('{"iotrail_trail": 99}')
    refused(iotrail("summary", tmp_path), "found 99", "upgrade")
    (tmp_path / "snapshots" / "00000001.json").write_text(
        '{"iotrail_trail": 1, "node": [], "tables": {"x": 3}}'
    )
    refused(iotrail("summary", tmp_path), "00000001.json", "iotrail trail check")


@pytest.mark.parametrize("name", ["n" * 300, "/".join(["n" * 200] * 25)], ids=["name", "path"])
@pytest.mark.parametrize(
    "line",
    [
        "anonymize {long} -o a.trail",
        "anonymize {trail} -o {long}",
        "demand {long}",
        "diff {trail} {long}",
        "diff {trail} {trail} --html {long}",
        "export csv {trail} -o {long}",
        "import {long}",
        "path {long} --slowest 1",
        "record -o {long} -- true",
        "replay {long} --root r",
        "replay {trail} --root {long}",
        "report {trail} -o {long}",
        "report {trail} --json -o {long}",
        "serve {long} --port 0",
        "sql {long} op",
        "summary {long}",
        "trail info {long}",
        "trail prune {long}",
    ],
)
def test_a_path_that_is_too_long(trail: Path, tmp_path: Path, line: str, name: str) -> None:
    """Longer than a name (255 bytes) or a path (4096) may be, see path_resolution(7)."""
    long = tmp_path / name
    words = [word.format(trail=trail, long=long) for word in line.split()]
    refused(iotrail(*words), str(long), "File name too long")


def test_a_file_that_may_not_be_looked_for(trail: Path, tmp_path: Path) -> None:
    """Whatever verb stumbles over it: a link that leads to itself."""
    (tmp_path / "loop").symlink_to("loop")
    refused(iotrail("export", "csv", trail, "-o", tmp_path / "loop/x"), "loop", "Too many levels")
    refused(iotrail("import", "csv", tmp_path / "loop"), "loop", "Too many levels")


def test_the_newest_readable_snapshot_counts(copy: Path) -> None:
    (copy / "snapshots" / "00000009.json").write_text('{"cut')
    assert iotrail("sql", copy, "SELECT count(*) AS n FROM op", "--format", "csv").stdout == b'"n"\n11\n'


def test_damaged_files(copy: Path) -> None:
    file = next((copy / "data" / "file_op").iterdir())
    whole = file.read_bytes()
    file.write_bytes(whole[:-100])
    refused(
        iotrail("summary", copy), str(file), f"expected {len(whole)} bytes", f"iotrail trail check {copy}"
    )
    file.write_bytes(whole[:-100] + b"x" * 100)
    refused(iotrail("summary", copy), str(file), "can't be read", f"iotrail trail check {copy}")
    file.unlink()
    refused(iotrail("summary", copy), str(file), "No such file", f"iotrail trail check {copy}")


def test_a_file_of_an_older_version_lacks_a_column(copy: Path) -> None:
    import pyarrow.parquet as pq

    file = next((copy / "data" / "file_op").iterdir())
    pq.write_table(pq.read_table(file).drop_columns(["file2"]), file)
    snapshot = max((copy / "snapshots").iterdir())
    stored = json.loads(snapshot.read_text())
    stored["tables"]["file_op"]["files"][0]["bytes"] = file.stat().st_size
    snapshot.write_text(json.dumps(stored))
    done = iotrail("sql", copy, "SELECT count(*) AS n, count(file2) AS m FROM op", "--format", "csv")
    assert done.stdout == b'"n","m"\n11,0\n'


def test_an_empty_trail(make_trail: Callable[[Path], Path]) -> None:
    done = iotrail("summary", make_trail(RUN.parent / "empty"))
    assert done.returncode == 0 and "No call was recorded" in done.stdout.decode()


def test_summary(trail: Path) -> None:
    text = iotrail("summary", trail).stdout.decode()
    for words in (
        "1.00 µs",
        "2 processes",
        "5 reads of 18.0 KiB",
        "1 failed",
        "1 never returned",
        "/data/a",
        "mapped file",
    ):
        assert words in text, text
    data = json.loads(iotrail("summary", trail, "--json").stdout)
    assert data["overview"]["io_ns"] == 800 and data["calls"][0]["call"] == "pread"


def test_a_missing_binary(tmp_path: Path) -> None:
    refused(iotrail("trail", "info", "x", IOTRAIL_NATIVE=str(tmp_path / "no")), "no iotrail-native there")


def test_a_binary_of_another_version(tmp_path: Path) -> None:
    binary = tmp_path / "iotrail-native"
    binary.write_text('#!/bin/sh\n[ "$1" = --version ] && exec echo iotrail-native 0.0.0\nexit 7\n')
    binary.chmod(0o755)
    done = iotrail("schema", IOTRAIL_NATIVE=str(binary))
    assert done.returncode == 7 and b"is version 0.0.0" in done.stderr


def test_the_binary_of_the_package_compares_versions_itself(native: Path, tmp_path: Path) -> None:
    """It is told by a variable which version the package is; a recorded program doesn't get it."""
    told = os.environ | {"IOTRAIL_PACKAGE_VERSION": "0.0.0"}
    command = [native, "record", "-o", tmp_path / "x.trail", "--", "env"]
    done = subprocess.run(command, capture_output=True, text=True, env=told, check=True)
    assert "the Python package 0.0.0" in done.stderr and "IOTRAIL_PACKAGE_VERSION" not in done.stdout


def test_verbs_of_the_binary_import_next_to_nothing() -> None:
    """What is imported before exec is CPU of each recording: 70 ms of it were three standard modules and a process."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "iotrail", "schema"], capture_output=True, text=True, check=True
    )  # fmt: skip
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "iotrail.native" in imported
    assert not imported & {
        "subprocess",
        "tempfile",
        "importlib.metadata",
        "email.message",
        "iotrail.cli",
        "duckdb",
    }


def test_help_lists_native_verbs() -> None:
    text = iotrail("--help").stdout.decode()
    assert all(verb in text for verb in ("record", "trail", "ingest", "sql", "summary", "report"))


def test_schema_is_the_binarys(native: Path) -> None:
    from iotrail import schema

    printed = json.loads(subprocess.run([native, "schema"], capture_output=True, check=True).stdout)
    committed = json.loads((Path(schema.__file__).parent / "schema.json").read_text())
    assert printed == committed, "iotrail schema > python/iotrail/schema.json"

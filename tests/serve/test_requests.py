"""The page's questions about requests, asked of a real `iotrail serve` over HTTP."""

import json
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from iotrail.trail import Trail
from tests.sql.tiny import write_trail

NATIVE = Path(__file__).parents[2] / "python/iotrail/_native/iotrail-native"
IOTRAIL = Path(sys.executable).with_name("iotrail")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small store of tests/sql/store."""
    return write_trail(NATIVE, Path(__file__).parents[1] / "sql/store", tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def address(store: Path) -> Iterator[str]:
    """Where it is served."""
    server = subprocess.Popen(
        [IOTRAIL, "serve", store, "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    line = server.stdout.readline()
    assert " on http://" in line, server.communicate()[1]
    yield line.split(" on ")[1].strip()
    server.terminate()
    assert server.wait(20) in (0, -15)


def get(address: str, path: str, **query: object) -> Any:
    """The answer to a question."""
    with urllib.request.urlopen(f"{address}api/{path}?{urllib.parse.urlencode(query)}", timeout=60) as answer:
        return json.load(answer)


def refused(address: str, path: str, **query: object) -> tuple[int, str]:
    """Status and message of a question that isn't answered."""
    with pytest.raises(urllib.error.HTTPError) as error:
        get(address, path, **query)
    return error.value.code, json.load(error.value)["error"]


def post(address: str, sql: str) -> Any:
    """The answer to SQL."""
    asked = urllib.request.Request(f"{address}api/sql", data=sql.encode(), method="POST")
    with urllib.request.urlopen(asked, timeout=60) as answer:
        return json.load(answer)


def test_requests_are_counted_and_the_slowest_listed(address: str, store: Path) -> None:
    """As module `request` has them."""
    found = get(address, "requests", slowest=3)
    rows = Trail(store).rows_of("SELECT COUNT(*) AS n, MAX(dur) AS slowest FROM request")[0]
    assert found["count"] == rows["n"] == sum(kind["n"] for kind in found["kinds"])
    assert [r["dur"] for r in found["slowest"]] == sorted((r["dur"] for r in found["slowest"]), reverse=True)
    assert found["slowest"][0]["dur"] == rows["slowest"]
    of_bob = get(address, "requests", client="bob")
    assert 0 < of_bob["count"] < found["count"]
    assert {kind["client"] for kind in of_bob["kinds"]} == {"bob"}


def test_requests_through_a_machine(address: str, store: Path) -> None:
    """A click on a machine: only requests with a part there, of which each has its whole path."""
    nodes = {row["node"] for row in Trail(store).rows_of("SELECT DISTINCT node FROM service_op")}
    alone = {node: get(address, "requests", through=node)["count"] for node in nodes}
    everything = get(address, "requests")["count"]
    assert max(alone.values()) == everything
    assert 0 < min(alone.values()) < everything
    status, said = refused(address, "requests", through="nowhere")
    assert status == 404
    assert "nowhere" in said


def test_the_heat_map_has_each_request_once(address: str, store: Path) -> None:
    """Counts by time and latency."""
    rows = Trail(store).rows_of(
        "SELECT MIN(ts) AS first, MAX(ts) AS last, COUNT(dur) AS replied FROM request"
    )[0]
    start, end = rows["first"] // 1_000_000, rows["last"] // 1_000_000 + 1
    every = max(1, (end - start) // 50)
    cells = get(address, "heat", start_ms=start, end_ms=end, every_ms=every)["cells"]
    assert sum(n for _, _, n in cells) == rows["replied"]
    assert refused(address, "heat", start_ms=0, end_ms=10**12, every_ms=1)[0] == 400


def test_graph_and_path_are_those_of_the_command_line(address: str, store: Path) -> None:
    """The same numbers in the page and in the terminal."""
    there = get(address, "graph", client="bob", op="read")
    done = subprocess.run(
        [IOTRAIL, "graph", store, "--client", "bob", "--op", "read", "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    here = json.loads(done.stdout)
    assert there["total_ns"] == here["total_ns"]
    assert [{k: v for k, v in edge.items() if k != "share"} for edge in there["edges"]] == here["edges"]
    assert there["dot"].startswith("digraph")
    slowest = get(address, "requests", slowest=1)["slowest"][0]
    path = get(address, "path", node=slowest["node"], crumb=slowest["crumb"])
    assert path["lines"][0]["dur_ns"] == slowest["dur"]
    assert path["span_ns"] >= slowest["dur"]
    assert all(line["bars"] for line in path["lines"] if line["at_ns"] is not None and not path["missing"])
    assert refused(address, "path", node="nowhere", crumb=5)[0] == 404


def test_sql_answers_one_select(address: str) -> None:
    """Large ids arrive whole, as text."""
    found = post(
        address, "SELECT COUNT(*) AS n, CAST(9007199254740993 AS BIGINT) AS id, NULL AS nothing FROM stitch"
    )
    assert [column["name"] for column in found["columns"]] == ["n", "id", "nothing"]
    assert found["rows"][0][1:] == ["9007199254740993", None]
    assert not found["more"]
    many = post(address, "FROM range(6000)")
    assert len(many["rows"]) == 5000
    assert many["more"]


def test_the_list_of_what_can_be_asked(address: str) -> None:
    """Every table and module with its documentation."""
    entries = {entry["name"]: entry for entry in get(address, "modules")}
    assert entries["service_op"]["rows"] > 0
    assert entries["graph_edge"]["kind"] == "module"
    assert all(entry["meaning"] and entry["columns"] for entry in entries.values())


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT * FROM read_text('/etc/passwd')", "disabled by configuration"),
        ("SELECT * FROM '/etc/passwd'", "does not exist"),
        ("SELECT * FROM glob('/etc/*')", "disabled by configuration"),
        ("SELECT * FROM read_csv('http://127.0.0.1/x')", "disabled by configuration"),
        ("SELECT * FROM read_parquet('data/../../*')", "disabled by configuration"),
        ("COPY (SELECT 1) TO '/tmp/iotrail-escaped'", "only a SELECT"),
        ("ATTACH '/tmp/iotrail-escaped'", "only a SELECT"),
        ("CREATE TABLE t AS SELECT 1", "only a SELECT"),
        ("DROP VIEW service_op", "only a SELECT"),
        ("SET enable_external_access = true", "only a SELECT"),
        ("LOAD httpfs", "only a SELECT"),
        ("INSTALL httpfs", "only a SELECT"),
        ("PRAGMA database_list", "only a SELECT"),
        ("SELECT 1; SELECT 2", "found 2"),
        ("SELEC 1", "syntax error"),
        ("", "nothing to ask"),
    ],
)
def test_sql_that_does_more_is_refused(address: str, sql: str, said: str) -> None:
    """Files, network, extensions, settings and changes."""
    assert said in post(address, sql)["error"]
    assert not Path("/tmp/iotrail-escaped").exists()

"""The report's file: odd trails, odd outputs, and the same bytes each time."""

import base64
import gzip
import json
import os
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from playwright.sync_api import Browser

from iotrail import report
from iotrail.errors import IotrailError, UsageError
from iotrail.trail import Trail

from .conftest import Ingest, run_report
from .test_page import latency_table, opened, table_rows

START = 1_760_000_000_000_000_000


def op(
    thread: int = 1, ts: int = 0, dur: int | None = 100, call: str = "pread", **columns: Any
) -> dict[str, Any]:
    """A row of file_op, `ts` after the start."""
    base = {"node": "n", "crumb": 0, "file": 7, "pos": 0, "length": 10, "result": 10, "errno": 0, "calls": 1}
    return {"ts": START + ts, "dur": dur, "thread": thread, "call": call, **base, **columns}


def people(threads: int = 1, processes: int = 1, life: int = 1_000_000) -> dict[str, pa.Table]:
    """Processes and threads that live for `life`; thread t belongs to process 100 + t modulo `processes`."""
    process = [
        {
            "node": "n",
            "process": 100 + p,
            "pid": 1000 + p,
            "name": "app",
            "start_ts": START,
            "end_ts": START + life,
            "ended": "exit",
        }
        for p in range(processes)
    ]
    thread = [
        {"node": "n", "thread": t, "pid": 1000 + t % processes, "tid": 5000 + t, "process": 100 + t % processes,
         "start_ts": START, "end_ts": START + life}
        for t in range(1, threads + 1)
    ]  # fmt: skip
    return {"process": pa.Table.from_pylist(process), "thread": pa.Table.from_pylist(thread)}


def files(*paths: str) -> pa.Table:
    return pa.Table.from_pylist([{"node": "n", "file": 7 + i, "path": path} for i, path in enumerate(paths)])


SYNC = {"node": "n", "thread": 1, "crumb": 0, "call": "recv", "kind": "socket", "result": 0, "errno": 0}
ODD = "/tmp/</script><script>alert(1)</script>&lt;'\"\u2028{{}}"

TRAILS: dict[str, dict[str, pa.Table]] = {
    "empty": {"recording": pa.table({"node": ["n"], "name": ["command"], "value": ["true"]})},
    "one_op": {**people(), "file": files("/a"), "file_op": pa.Table.from_pylist([op()])},
    "only_sync": {**people(), "sync_op": pa.Table.from_pylist([{**SYNC, "ts": START + 5, "dur": 500_000}])},
    "unfinished": {
        **people(),
        "file": files("/a"),
        "file_op": pa.Table.from_pylist([op(), op(ts=500, dur=None, result=None)]),
    },
    "no_people": {"file_op": pa.Table.from_pylist([op(file=None, pos=None), op(ts=1000, call="close", pos=None)])},
    "odd_names": {**people(), "file": files(ODD, "/tmp/\ufffd\ufffd\x01"), "file_op": pa.Table.from_pylist([op(), op(ts=500, file=8)])},
    "zero_length": {**people(life=0), "file": files("/a"), "file_op": pa.Table.from_pylist([op(dur=0)])},
    "threads": {
        **people(threads=1000, processes=4),
        "file": files("/a"),
        "file_op": pa.Table.from_pylist([op(thread=t, ts=7 * t) for t in range(1, 1001)]),
    },
    "files": {
        **people(),
        "file": files(*(f"/data/file-{i:05}" for i in range(10_000))),
        "file_op": pa.Table.from_pylist([op(file=7 + i, ts=97 * i, dur=10 + i % 50) for i in range(10_000)]),
    },
}  # fmt: skip

# Operations, and rows of the table of files.
EXPECTED = {
    "empty": (0, 0),
    "one_op": (1, 1),
    "only_sync": (0, 0),
    "unfinished": (2, 1),
    "no_people": (2, 2),
    "odd_names": (2, 2),
    "zero_length": (1, 1),
    "threads": (1000, 1),
    "files": (10_000, 10_000),
}


@pytest.mark.parametrize("name", TRAILS)
def test_odd_trails_have_a_report(name: str, ingest: Ingest, browser: Browser) -> None:
    trail = ingest(name, TRAILS[name])
    output = trail.with_suffix(".html")
    done = run_report(trail, "-o", output)
    assert done.returncode == 0, done.stderr
    operations, rows = EXPECTED[name]
    with opened(browser, output) as page:
        assert (
            page.locator(".tile", has_text="Operations").get_attribute("title")
            == f"{operations:,} file operations"
        )
        assert f"Files {rows:,}" in page.locator("#tables .choices").inner_text().replace("\n", " ")
        assert page.evaluate("document.documentElement.scrollWidth") == 1366
        if name == "odd_names":
            assert set(table_rows(page)) == {ODD.replace("\u2028", "\\u2028"), "/tmp/\ufffd\ufffd\\x01"}
        if name == "unfinished":
            # It counts as an operation, but has no latency.
            assert latency_table(page)["pread"]["ops"] == 2
            assert latency_table(page)["pread"]["max"] == 100
        if name == "threads":
            # All threads are there, but only those in sight are drawn.
            page.get_by_role("button", name="Show the 250 threads").first.click()
            assert page.locator(".lane").count() < 60
            assert page.locator(".lanes").get_attribute("aria-rowcount") == "254"


def test_files_are_folded_when_the_page_would_grow_too_large(
    ingest: Ingest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, browser: Browser
) -> None:
    trail = ingest("folded", TRAILS["files"])
    monkeypatch.setattr(report, "MOST_CELLS", 100)
    data = report.collect(Trail(trail))
    assert data["folded"]["files"] == 9900
    assert len(data["files"]["path"]) == 101
    assert sum(data["cells"]["ops"]) == 10_000
    output = tmp_path / "folded.html"
    output.write_bytes(report.render(data))
    with opened(browser, output) as page:
        assert page.locator(".tile", has_text="Files").locator("dd[data-total]").inner_text() == "10,000"


def test_json_is_what_the_page_carries(database: Path, page_file: Path) -> None:
    done = run_report(database, "--json")
    assert done.returncode == 0, done.stderr
    packed = re.search(r'<script id="iotrail-data" type="text/plain">([^<]*)</script>', page_file.read_text())
    assert packed is not None
    inside, outside = json.loads(gzip.decompress(base64.b64decode(packed[1]))), json.loads(done.stdout)
    assert inside.pop("made")["by"] == outside.pop("made")["by"]
    assert inside == outside


def test_an_older_report_is_replaced_and_nothing_else(
    database: Path, page_file: Path, tmp_path: Path
) -> None:
    own = tmp_path / "own.html"
    own.write_bytes(page_file.read_bytes())
    assert run_report(database, "-o", own).returncode == 0
    other = tmp_path / "thesis.html"
    other.write_text("years of work")
    done = run_report(database, "-o", other)
    assert (done.returncode, done.stderr.splitlines()) == (
        2,
        [f"iotrail: error: {other}: exists and is not an iotrail report", "  hint: --force replaces it"],
    )
    assert other.read_text() == "years of work"
    assert run_report(database, "-o", other, "--force").returncode == 0
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_errors_say_what_to_do(database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="is a directory"):
        report.check_output(tmp_path, force=False)
    with pytest.raises(IotrailError, match=r"nowhere/x\.html: can't be written: No such file or directory"):
        report.write_whole(tmp_path / "nowhere" / "x.html", b"x")
    # /dev/full answers ENOSPC to every write, as a full disk does.
    monkeypatch.setattr(Path, "with_name", lambda self, name: Path("/dev/full"))
    monkeypatch.setattr(Path, "unlink", lambda self, missing_ok=False: None)
    with pytest.raises(IotrailError, match="No space left on device") as full:
        report.write_whole(tmp_path / "x.html", b"x" * 4096)
    assert full.value.hint == "it takes 4,096 bytes: -o names another place"


def test_no_permission(database: Path, tmp_path: Path) -> None:
    if os.geteuid() == 0:
        # root may write anywhere but where nobody can
        target = Path("/proc/report.html")
    else:
        target = tmp_path / "closed" / "report.html"
        target.parent.mkdir(mode=0o500)
    done = run_report(database, "-o", target)
    assert done.returncode == 1
    assert done.stderr.startswith(f"iotrail: error: {target}: can't be written: ")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("duration", "width"),
    [
        (0, 1000),
        (499_000 - 1, 1000),
        (499_000, 2000),
        (60_000_000_000, 200_000_000),
        (86_400_000_000_000, 200_000_000_000),
    ],
)
def test_buckets_are_round_and_few(duration: int, width: int) -> None:
    assert report.bucket_width(duration) == width
    assert duration // width + 2 <= report.MOST_BUCKETS + 1


def test_a_part_of_a_trail_has_a_report(ingest: Ingest) -> None:
    trail = ingest("part", TRAILS["files"])
    whole = json.loads(run_report(trail, "--json").stdout)
    part = json.loads(run_report(trail, "--json", "--from", "+500us", "--to", "+600us").stdout)
    # operations of 10 to 59 ns, one each 97 ns: the first one began before, the last one ends after
    expected = [i for i in range(10_000) if 97 * i < 600_000 and 97 * i + 10 + i % 50 >= 500_000]
    assert sum(part["cells"]["ops"]) == len(expected)
    assert len(part["files"]["id"]) < len(whole["files"]["id"])
    assert part["run"]["start"] == str(
        START + 500_000 - (500_000 - 97 * expected[0] if 97 * expected[0] < 500_000 else 0)
    )
    assert part["run"]["duration"] < 100_200
    for options, said in (
        (("--from", "+10s"), "nothing between --from and --to"),
        (("--from", "+2us", "--to", "+1us"), "nothing between --from and --to"),
        (("--from", "noon"), "--from: expected a moment, found 'noon'"),
    ):
        done = run_report(trail, "-o", "x.html", *options)
        assert done.returncode == 1 or done.returncode == 2
        assert said in done.stderr
        assert not (trail.parent / "x.html").exists()

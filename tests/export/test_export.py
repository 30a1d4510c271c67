"""`iotrail export`: what other tools read of a recording is what the recording says."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos

from iotrail import native
from iotrail.exporters import export
from iotrail.exporters.oracle_general import REQUEST
from iotrail.trail import Trail
from tests.command import run

# Prime numbers: of writes of 5000 bytes, of reads of 4096 at every third page, of reads of what isn't there.
PROGRAM = """
import os, sys, threading
fd = os.open(sys.argv[1] + "/data, with a space", os.O_RDWR | os.O_CREAT)
for i in range(97):
    os.pwrite(fd, b"x" * 5000, i * 5000)
os.fsync(fd)
def read():
    for i in range(37):
        os.pread(fd, 4096, i * 3 * 4096)
thread = threading.Thread(target=read)
thread.start()
thread.join()
os.fdatasync(fd)
"""


@pytest.fixture(scope="module")
def trail(tmp_path_factory: pytest.TempPathFactory) -> Trail:
    folder = tmp_path_factory.mktemp("export")
    command = [
        native.binary(),
        "record",
        "-o",
        folder / "run.trail",
        "--",
        sys.executable,
        "-c",
        PROGRAM,
        folder,
    ]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    return Trail(folder / "run.trail")


def iotrail(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    return run("export", *arguments, cwd=cwd)


def test_csv_and_parquet(trail: Trail, tmp_path: Path) -> None:
    expected = trail.query("SELECT * FROM op ORDER BY ts, thread").to_arrow_table()
    parquet = pq.read_table(export(trail, "parquet", tmp_path / "x.parquet"))
    assert parquet.cast(expected.schema).equals(expected)
    csv = pyarrow.csv.read_csv(export(trail, "csv", tmp_path / "x.csv"))
    assert csv.column_names == expected.column_names
    for name in ("ts", "pos", "errno", "moved"):
        assert csv[name].to_pylist() == expected[name].to_pylist()


def test_perfetto(trail: Trail, tmp_path: Path) -> None:
    trace = protos.Trace.FromString(export(trail, "perfetto", tmp_path / "x").read_bytes())
    tracks = {
        p.track_descriptor.uuid: p.track_descriptor for p in trace.packet if p.HasField("track_descriptor")
    }
    threads = trail.rows_of(
        "SELECT thread, tid, pid, thread_name FROM thread_life JOIN process USING (process, pid)"
    )
    for row in threads:
        assert (tracks[row["thread"]].thread.tid, tracks[row["thread"]].thread.pid) == (
            row["tid"],
            row["pid"],
        )
    assert any(t.process.process_name.startswith("python") for t in tracks.values())
    counters = {t.name for t in tracks.values() if t.HasField("counter")}
    assert counters == {"read throughput", "write throughput", "queue depth"}

    events = [p for p in trace.packet if p.HasField("track_event")]
    assert all(p.track_event.track_uuid in tracks for p in events)
    begins = [p for p in events if p.track_event.type == protos.TrackEvent.TYPE_SLICE_BEGIN]
    ends = [p for p in events if p.track_event.type == protos.TrackEvent.TYPE_SLICE_END]
    calls = trail.rows_of("SELECT call, SUM(n) AS n FROM call_summary GROUP BY call")
    assert len(begins) == sum(row["n"] for row in calls)
    ended = trail.rows_of("""
        SELECT COUNT(*) AS n, SUM(CAST(ts + dur AS HUGEINT)) AS t
        FROM (SELECT ts, dur FROM file_op UNION ALL SELECT ts, dur FROM sync_op) WHERE dur IS NOT NULL""")[0]
    assert (len(ends), sum(p.timestamp for p in ends)) == (ended["n"], ended["t"])
    texts: dict[str, dict[int, str]] = {}
    for packet in trace.packet:
        for field, entries in packet.interned_data.ListFields():
            known = texts.setdefault(field.name, {})
            known |= {e.iid: e.str.decode() if field.name.endswith("values") else e.name for e in entries}
    names, kinds = texts["event_names"], texts["event_categories"]
    counted = Counter(names[p.track_event.name_iid] for p in begins)
    assert counted == {row["call"]: row["n"] for row in calls}
    results = [
        a.int_value
        for p in begins
        for a in p.track_event.debug_annotations
        if texts["debug_annotation_names"][a.name_iid] == "result"
    ]
    of_all = "SELECT result FROM file_op UNION ALL SELECT result FROM sync_op"
    expected = trail.rows_of(
        f"SELECT COUNT(result) AS n, SUM(result) AS total, MIN(result) AS least FROM ({of_all})"
    )[0]
    assert (len(results), sum(results), min(results)) == tuple(expected.values()) and min(results) == -1
    pwrites = [p.track_event for p in begins if names[p.track_event.name_iid] == "pwrite"]
    assert {kinds[iid] for event in pwrites for iid in event.category_iids} == {"write"}
    arguments = [
        {
            texts["debug_annotation_names"][a.name_iid]: texts["debug_annotation_string_values"].get(
                a.string_value_iid, a.int_value
            )
            for a in event.debug_annotations
        }
        for event in pwrites
    ]
    assert sorted(a["pos"] for a in arguments) == [i * 5000 for i in range(97)]
    assert all(a["length"] == a["result"] == 5000 and a["path"].endswith("with a space") for a in arguments)


def test_fio_runs_the_job(trail: Trail, tmp_path: Path) -> None:
    folder = export(trail, "fio", tmp_path / "job")
    recorded = next(trail.path.parent.glob("data*"))
    before = recorded.stat().st_mtime_ns
    done = subprocess.run(
        ["fio", "--output-format=json", "job.fio"],
        capture_output=True,
        text=True,
        cwd=folder,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    jobs = json.loads(done.stdout[done.stdout.index("{") :])["jobs"]
    acted = "kind = 'read' AND errno = 0 AND dur IS NOT NULL AND pos IS NOT NULL AND length > 0 AND file IS NOT NULL"
    reads = trail.rows_of(f"SELECT COUNT(*) AS n FROM op WHERE {acted}")[0]["n"]
    assert sum(job["read"]["total_ios"] for job in jobs) == reads
    writes = sum(job["write"]["io_bytes"] for job in jobs)
    assert (
        writes
        == trail.rows_of(
            "SELECT CAST(SUM(length) AS BIGINT) AS n FROM op WHERE kind = 'write' AND pos IS NOT NULL AND errno = 0"
        )[0]["n"]
    )
    logs = "".join(log.read_text() for log in folder.glob("*.iolog"))
    assert logs.count(" sync ") == 1 and logs.count(" datasync ") == 1
    assert recorded.stat().st_mtime_ns == before, "the recorded file is not touched"
    assert str(recorded) in (folder / "job.fio").read_text()


def test_oracle_general(trail: Trail, tmp_path: Path) -> None:
    path = export(trail, "oracle-general", tmp_path / "x")
    assert path.stat().st_size % 24 == 0
    requests = np.fromfile(path, REQUEST)
    # bytes i * 5000 to i * 5000 + 4999 touch this many pages, and each read one
    pages = sum((i * 5000 + 4999) // 4096 - i * 5000 // 4096 + 1 for i in range(97)) + 37
    others = trail.rows_of("""
        SELECT CAST(COALESCE(SUM((pos + moved - 1) // 4096 - pos // 4096 + 1), 0) AS BIGINT) AS n FROM op
        WHERE moved > 0 AND pos IS NOT NULL AND file IS NOT NULL AND path NOT LIKE '%with a space'""")[0]["n"]
    assert len(requests) == pages + others
    last: dict[int, int] = {}
    for place in range(len(requests), 0, -1):
        request = requests[place - 1]
        assert request["next"] == last.get(int(request["object"]), -1)
        last[int(request["object"])] = place
    assert set(requests["size"]) == {4096}
    larger = np.fromfile(export(trail, "oracle-general", tmp_path / "y", page=65536), REQUEST)
    assert len(larger) < len(requests) and set(larger["size"]) == {65536}


def test_bad_input(trail: Trail, tmp_path: Path) -> None:
    for arguments, says, status in (
        (["word", trail.path], "no format 'word'", 2),
        (["csv", tmp_path / "no.trail"], "no such trail", 1),
        (["csv", trail.path, "-o", trail.path], "exists already", 2),
        (["csv", trail.path, "-o", "/proc/x.csv"], "can't be written", 1),
        (["oracle-general", trail.path, "--page", "0"], "--page 0", 2),
        (["fio", trail.path, "-o", tmp_path, "--force"], "no export wrote", 2),
    ):
        done = iotrail(*arguments, cwd=tmp_path)
        assert done.returncode == status and says in done.stderr and "Traceback" not in done.stderr, (
            done.stderr
        )
    assert list(tmp_path.iterdir()) == [], "and nothing is left behind"
    assert iotrail("csv", trail.path, cwd=tmp_path).stdout == "run.csv\n"
    assert iotrail("csv", trail.path, cwd=tmp_path).returncode == 2
    assert iotrail("csv", trail.path, "--force", cwd=tmp_path).returncode == 0

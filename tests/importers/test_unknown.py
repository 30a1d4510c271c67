"""What a trace doesn't say is null, never 0; and its order among equal times is kept, to the exports and back."""

import itertools
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos

from iotrail import native, report, summary
from iotrail.anonymize import anonymize
from iotrail.errors import UsageError
from iotrail.exporters import export
from iotrail.exporters.oracle_general import REQUEST
from iotrail.exporters.perfetto import lanes
from iotrail.trail import Trail

# 3,000 requests of two volumes within three seconds, whole seconds only: three of four follow the last of their volume.
COUNT = 3000
VOLUMES = (7, 11)


def places() -> list[tuple[int, int]]:
    """(volume, sector) of each request."""
    at, found = dict.fromkeys(VOLUMES, 0), []
    for number in range(COUNT):
        volume = VOLUMES[number * 7 % 3 % 2]
        at[volume] = at[volume] + 8 if number % 4 else (number * 7919) % 100_000 * 8
        found.append((volume, at[volume]))
    return found


def untimed() -> str:
    """The same as Tencent's CSV."""
    return "".join(
        f"{1538323200 + n // 1000},{sector},8,{n % 2},{v}\n" for n, (v, sector) in enumerate(places())
    )


def test_a_trace_without_durations_has_none(bring):
    trail = Trail(bring("tencent", untimed()).path)
    assert trail.query("SELECT DISTINCT dur, result FROM file_op").fetchall() == [(None, 4096)]
    overview = trail.rows_of("SELECT ops, reads, writes, unfinished FROM overview")[0]
    assert overview == {"ops": COUNT, "reads": COUNT // 2, "writes": COUNT // 2, "unfinished": 0}
    assert trail.query(
        "SELECT DISTINCT unfinished, time_ns, p50_ns, p99_ns, max_ns FROM call_summary"
    ).fetchall() == [(0, None, None, None, None)]
    assert trail.query("SELECT DISTINCT time_ns, read_ns, meta_ns FROM file_summary").fetchall() == [
        (None,) * 3
    ]
    assert trail.query("SELECT count(*) FROM percentiles").fetchall() == [(0,)]
    assert trail.query("SELECT DISTINCT mean, most, mean_reads, busy_ns FROM queue_depth").fetchall() == [
        (None,) * 4
    ]
    assert trail.query("SELECT sum(n), count(time_ns) FROM throughput").fetchall() == [(COUNT, 0)]
    # each in the second in which it began
    assert (
        trail.query("SELECT sum(n) FROM throughput GROUP BY ts - ts % 1000000000 ORDER BY 1").fetchall()
        == [(1000,)] * 3
    )


def test_patterns_need_no_times(bring):
    trail = Trail(bring("tencent", untimed()).path)
    share = "SELECT sum(consecutive_ops), sum(jump_ops + strided_ops) FROM step"
    [[consecutive, others]] = trail.query(share).fetchall()
    own = [[s for v, s in places() if v == volume] for volume in VOLUMES]
    expected = sum(after == before + 8 for one in own for before, after in itertools.pairwise(one))
    assert (consecutive, consecutive + others) == (expected, COUNT - len(VOLUMES))
    # random reads in a trace without times: said, at no cost; nothing else is said
    dice = "".join(f"{1538323200 + n // 9},{n * n * 7919 % 1000003 * 8},8,0,7\n" for n in range(2000))
    [found] = summary.collect(Trail(bring("tencent", dice).path))["diagnosis"]
    assert (found["cause"], found["severity"], found["cost_ns"], found["ops"]) == (
        "untimed_access",
        "low",
        None,
        1999,
    )
    assert "1,999 reads at random places" in found["title"] and "time is not known" in found["title"]
    # the same with times has no such finding
    timed = "t_s,offset,size,op,latency_ns\n" + "".join(
        f"{n},{n * n * 7919 % 1000003 * 8},8,r,5\n" for n in range(2000)
    )
    assert "untimed_access" not in {
        f["cause"] for f in summary.collect(Trail(bring("csv", timed).path))["diagnosis"]
    }


def test_summary_and_report_say_unknown(bring, capsys):
    path = bring("tencent", untimed()).path
    summary.show(path)
    said = capsys.readouterr().out
    assert "0 ns" not in said and "0 s" not in re.sub(r"\d0 s", "", said)
    assert "response times" in said
    data = report.collect(Trail(path))
    assert data["timed"] is False and data["depth"] == {"mean": None, "most": None, "overlaps": False}
    assert sum(data["cells"]["ops"]) == COUNT and data["cells"]["bin"] == []


def test_a_request_that_never_completes_has_no_queue_depth(bring):
    # one of 100 µs; one that never completes, a second long until the next
    text = (
        " 8,0 0 1 0.000000000 7 Q R 8 + 8 [a]\n 8,0 0 2 0.000100000 0 C R 8 + 8 [0]\n"
        " 8,0 0 3 0.000200000 7 Q R 80 + 8 [a]\n 8,0 0 4 1.000000000 7 Q R 800 + 8 [a]\n 8,0 0 5 1.000100000 0 C R 800 + 8 [0]\n"
    )
    got = bring("blkparse", text)
    assert got.one("SELECT sum(busy_ns) FROM queue_depth") == 200_000
    assert got.one("SELECT max(most) FROM queue_depth") == 1
    assert got.one("SELECT unfinished FROM overview") == 1


def test_times_before_the_first_are_wrapped_by_blkparse(bring):
    """blkparse prints the seconds of -616 ns as those of 2^64 ns less 616, modulo 2^32."""
    text = (
        " 8,0 0 1 1266874889.709551000 7 Q R 8 + 8 [a]\n 8,0 0 2 0.000000000 7 Q W 80 + 8 [a]\n"
        " 8,0 0 3 0.000000384 0 C R 8 + 8 [0]\n 8,0 0 4 0.000001000 0 C W 80 + 8 [0]\n"
    )
    got = bring("blkparse", text)
    assert got.rows("SELECT ts - 946684800000000000, dur FROM file_op ORDER BY ts") == [
        (-616, 1000),
        (0, 1000),
    ]
    assert got.fact("skipped") == "0"
    absolute = bring(
        "blkparse", text.replace("1266874889", "1700000000").replace(" 0.0", " 1700000001.0"), name="late"
    )
    assert absolute.rows("SELECT ts, dur FROM file_op ORDER BY ts")[0] == (
        1_700_000_000_709_551_000,
        290_449_384,
    )
    assert absolute.fact("time_base") == "absolute"


def test_absurd_times_are_said(bring):
    got = bring("csv", "1700000000,0,512,r\n1700003600,0,512,r\n", map="ts=1,unit=ms,pos=2,length=3,op=4")
    assert "is ms the unit" not in got.said
    got = bring(
        "csv",
        "1700000000123,0,512,r\n1700000003123,0,512,r\n",
        map="ts=1,unit=us,pos=2,length=3,op=4,epoch=none",
    )
    assert "is us the unit" not in got.said
    # ms taken for µs, as of 1970; and a trace of years
    got = bring(
        "csv", "17000000001,0,512,r\n17000000002,0,512,r\n", map="ts=1,unit=100ns,pos=2,length=3,op=4"
    )
    assert got.fact("time_base") == "relative"
    got = bring("csv", "1,0,512,r\n3000000000,0,512,r\n", map="ts=1,unit=s,pos=2,length=3,op=4")
    assert "the trace lasts 95 years: is s the unit of its times?" in got.said
    got = bring("csv", "4000000000,0,512,r\n", map="ts=1,unit=s,epoch=unix,pos=2,length=3,op=4")
    assert "times lie in the future, up to 2096-10-02" in got.said


# -- order


def test_equal_times_stay_in_the_traces_order_through_compaction_and_merge(bring, tmp_path):
    path = bring("tencent", untimed()).path
    pages = [(f"/dev/disk{v}", s * 512) for v, s in places()]
    query = "SELECT path, pos FROM file_op JOIN file USING (node, file) ORDER BY ts, trace_row"
    assert Trail(path).query(query).fetchall() == pages
    subprocess.run([native.binary(), "trail", "compact", path], check=True, capture_output=True)
    assert Trail(path).query(query).fetchall() == pages
    other = bring("tencent", untimed().replace("15383", "15393"), name="later").path
    merged = tmp_path / "merged.trail"
    subprocess.run(
        [native.binary(), "trail", "merge", path, other, "-o", merged], check=True, capture_output=True
    )
    assert Trail(merged).query(query).fetchall() == pages * 2


def test_fio_keeps_the_order(bring, tmp_path):
    trail = Trail(bring("tencent", untimed()).path)
    folder = export(trail, "fio", tmp_path / "x.fio")
    logs = {}
    for log in folder.glob("thread-*.iolog"):
        lines = [line.split() for line in log.read_text().splitlines()[1:]]
        moves = [int(line[3]) for line in lines if line[2] in ("read", "write")]
        logs[len(moves)] = moves
    for volume in VOLUMES:
        own = [sector * 512 for v, sector in places() if v == volume]
        assert logs[len(own)] == own


def test_oracle_general_keeps_the_order_and_comes_back(bring, tmp_path):
    trail = Trail(bring("tencent", untimed()).path)
    path = export(trail, "oracle-general", tmp_path / "x.oracleGeneral")
    requests = np.fromfile(path, REQUEST)
    numbers: dict[tuple[int, int], int] = {}
    expected = [numbers.setdefault(place, len(numbers)) for place in places()]
    first: dict[int, int] = {}
    found = [first.setdefault(int(value), len(first)) for value in requests["object"]]
    assert found == expected
    again = bring("oracle-general", path)
    assert again.one("SELECT count(*) FROM file_op") == COUNT


def test_perfetto_shows_overlapping_requests_on_tracks_of_their_own(bring, tmp_path):
    """Of 5 ms each, a millisecond apart: five at a time."""
    lines = "".join(f"{n * 1_000_000},{n * 4096},4096,r,5000000\n" for n in range(40))
    trail = Trail(bring("t_ns,offset,size,op,latency_ns\n" + lines).path)
    trace = protos.Trace.FromString(export(trail, "perfetto", tmp_path / "x").read_bytes())
    names = {
        p.track_descriptor.uuid: p.track_descriptor.name
        for p in trace.packet
        if p.HasField("track_descriptor")
    }
    open_at: dict[int, int] = {}
    durations, tracks = [], set()
    for packet in sorted(
        (p for p in trace.packet if p.HasField("track_event")),
        key=lambda p: (p.timestamp, p.track_event.type != protos.TrackEvent.TYPE_SLICE_END),
    ):
        event = packet.track_event
        if event.type == protos.TrackEvent.TYPE_SLICE_BEGIN:
            assert event.track_uuid not in open_at, "two slices at once on a track"
            assert event.track_uuid in names
            open_at[event.track_uuid] = packet.timestamp
            tracks.add(event.track_uuid)
        elif event.type == protos.TrackEvent.TYPE_SLICE_END:
            durations.append(packet.timestamp - open_at.pop(event.track_uuid))
    assert durations == [5_000_000] * 40
    assert len(tracks) == 5


def test_perfetto_shows_what_has_no_duration_as_instants(bring, tmp_path):
    trail = Trail(bring("tencent", untimed()).path)
    trace = protos.Trace.FromString(export(trail, "perfetto", tmp_path / "x").read_bytes())
    kinds = [p.track_event.type for p in trace.packet if p.HasField("track_event")]
    assert kinds.count(protos.TrackEvent.TYPE_INSTANT) == COUNT
    assert protos.TrackEvent.TYPE_SLICE_BEGIN not in kinds


def test_lanes_never_overlap_and_are_as_many_as_overlap():
    dice = np.random.default_rng(7)
    for _ in range(300):
        count = int(dice.integers(1, 60))
        begins = np.sort(dice.integers(0, 80, count))
        ends = begins + dice.integers(0, 30, count)
        found = lanes(begins, ends)
        for lane in set(found.tolist()):
            own = found == lane
            assert (np.maximum(ends, begins + 1)[own][:-1] <= begins[own][1:]).all()
        most = max(int(((begins <= t) & (np.maximum(ends, begins + 1) > t)).sum()) for t in range(120))
        assert len(set(found.tolist())) == most


# -- anonymize


def strings(trail: Path) -> bytes:
    """All bytes of a trail's files, and of what DuckDB reads in them."""
    return (
        b"".join(path.read_bytes() for path in trail.rglob("*") if path.is_file())
        + "\n".join(
            str(row)
            for table in Trail(trail).tables
            if table != "call"
            for row in Trail(trail).rows_of(f"SELECT * FROM {table}")
        ).encode()
    )


def test_anonymize_leaves_no_name(bring, tmp_path):
    text = (
        '7 1700000000.000001 execve("/usr/bin/secretd", ["secretd", "--user=hilda"], 0x7f) = 0 <0.000001>\n'
        '7 1700000000.000002 openat(AT_FDCWD, "/home/hilda/payroll/march.sqlite", O_RDONLY) = 3 <0.000002>\n'
        '7 1700000000.000003 read(3, "x", 100) = 100 <0.000003>\n'
        '7 1700000000.000004 openat(AT_FDCWD, "/home/hilda/payroll/april.sqlite", O_RDONLY) = 4 <0.000002>\n'
        '7 1700000000.000005 read(4, "x", 100) = 100 <0.000003>\n'
    )
    path = bring("strace", text, name="lighthouse.strace").path
    before = strings(path)
    words = [b"secretd", b"hilda", b"payroll", b"march", b"april", b"lighthouse", b"sqlite"]
    assert all(word in before for word in words)
    ids = {str(row["file"]).encode() for row in Trail(path).rows_of("SELECT file FROM file")}
    out = tmp_path / "anonymous.trail"
    anonymize(Trail(path), out)
    after = strings(out)
    assert not [word for word in (*words, *ids) if word in after]
    subprocess.run([native.binary(), "trail", "check", out], check=True, capture_output=True)
    # equal things stay equal, and what was done stays
    query = "SELECT call, kind, pos, length, result, dur, trace_row FROM op ORDER BY ts"
    assert Trail(out).query(query).fetchall() == Trail(path).query(query).fetchall()
    folders = (
        Trail(out)
        .query("SELECT count(DISTINCT path), count(DISTINCT parse_dirpath(path)) FROM file")
        .fetchall()
    )
    assert (
        folders
        == Trail(path)
        .query("SELECT count(DISTINCT path), count(DISTINCT parse_dirpath(path)) FROM file")
        .fetchall()
    )
    # one key, the same names; another, others
    kept = tmp_path / "kept.trail"
    anonymize(Trail(path), kept, key=b"k" * 32, keep_extensions=True, shift=True)
    again = tmp_path / "again.trail"
    anonymize(Trail(path), again, key=b"k" * 32, keep_extensions=True)
    paths = "SELECT path FROM file ORDER BY path"
    assert Trail(kept).query(paths).fetchall() == Trail(again).query(paths).fetchall()
    assert Trail(kept).query(paths).fetchall() != Trail(out).query(paths).fetchall()
    assert sum(p.endswith(".sqlite") for (p,) in Trail(kept).query(paths).fetchall()) == 2
    assert Trail(kept).query("SELECT start_ts FROM trail_span").fetchall() == [(946_684_800 * 10**9,)]


def test_anonymize_refuses_in_words(bring, tmp_path):
    path = bring("tencent", untimed()).path
    with pytest.raises(UsageError, match="is the trail itself"):
        anonymize(Trail(path), path, force=True)
    (tmp_path / "there").mkdir()
    with pytest.raises(UsageError, match="exists already"):
        anonymize(Trail(path), tmp_path / "there")
    with pytest.raises(UsageError, match="exists and is no trail"):
        anonymize(Trail(path), tmp_path / "there", force=True)
    done = subprocess.run(
        [sys.executable, "-m", "iotrail", "anonymize", path, "-o", tmp_path / "y.trail", "--key-file", tmp_path / "none"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode != 0 and "none: can't be read" in done.stderr and "Traceback" not in done.stderr
    assert not list(tmp_path.glob(".y.trail*"))

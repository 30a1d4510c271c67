"""Recorder's folders: each layout gives the same rows; whatever is broken in one is said."""

import random
import struct
import tarfile
import zlib

import pytest

from iotrail.errors import TraceError
from iotrail.importers.base import Options

from .held import hold
from .recorder_writer import Call, grammar, joined, parted, trace, write, zipped
from .test_garbage import ROUNDS, mutated

LAYOUTS = {
    "2.3": {"version": (2, 3)},
    "2.4": {"version": (2, 4)},
    "2.4 merged": {"version": (2, 4), "merged": True},
    "2.5": {"version": (2, 5)},
    "2.5 merged": {"version": (2, 5), "merged": True},
    "3.0": {"version": (3, 0), "zip_times": False},
    "3.0 merged": {"version": (3, 0), "merged": True},
}
ROWS = """
    SELECT p.rank, o.ts - {base}, o.dur, o.call, f.path, o.pos, o.length, o.flags, o.result
    FROM file_op AS o LEFT JOIN file AS f USING (node, file) JOIN thread AS t USING (node, thread)
    JOIN process AS p ON p.node = t.node AND p.process = t.process ORDER BY p.rank, o.trace_row"""
BASE = 1_700_000_000_250_000_000


def rows(got):
    return got.rows(ROWS.format(base=BASE))


def rank(number):
    """A rank's calls: what it writes, reads again, and asks for."""
    path = f"/data/file-{number}"
    at, calls = 1000, []

    def call(function, *arguments, took=20, depth=0):
        nonlocal at
        calls.append(Call(function, arguments, at, at + took, depth=depth))
        at += 50

    call("open64", path, 578, 420)
    for _ in range(4):
        call("write", path, "%p", 100)
    call("lseek", path, 50, 0)
    for _ in range(2):
        call("read", path, "%p", 10)
        call("read", path, "%p", 20)
    call("lseek", path, 5, 1)
    call("readv", path, 30, 2)
    call("lseek64", path, 0, 2)
    call("write", path, "%p", 7)
    call("MPI_File_write_at", "0-0", 4096, "%p", 8, "MPI_BYTE", took=30)
    call("pwrite", path, "%p", 8, 4096, depth=1)
    call("close", path)
    call("MPI_Barrier", "MPI_COMM_WORLD")
    call("fopen", path, "r")
    call("fread", "%p", 3, 5, path)
    call("fseek", path, 40, 0)
    call("fread", "%p", 1, 6, path)
    call("fclose", path)
    call("rename", path, f"{path}.old")
    call("__xstat", 3, f"{path}.old", "%p")
    call("ftruncate", "???", 12)
    return calls


def expected(number):
    path = f"/data/file-{number}"
    return [
        (number, call, at, length, flags)
        for call, at, length, flags in [
            ("open", None, None, 578),
            *(("write", n * 100, 100, None) for n in range(4)),
            ("lseek", None, None, 0),
            ("read", 50, 10, None),
            ("read", 60, 20, None),
            ("read", 80, 10, None),
            ("read", 90, 20, None),
            ("lseek", None, None, 1),
            ("readv", 115, 30, None),
            ("lseek", None, None, 2),
            # its end isn't known
            ("write", None, 7, None),
            ("pwrite", 4096, 8, None),
            ("close", None, None, None),
            ("fopen", None, None, None),
            ("fread", 0, 15, None),
            ("fseek", None, None, 0),
            ("fread", 40, 6, None),
            ("fclose", None, None, None),
            ("rename", None, None, None),
            ("stat", None, None, None),
            ("truncate", None, 12, None),
        ]
    ], path


@pytest.mark.parametrize("layout", LAYOUTS)
def test_each_layout(bring, tmp_path, layout):
    ranks = [rank(0), [], rank(2)]
    folder = write(tmp_path / "node1-ann-app-77-101112.130", trace(ranks, **LAYOUTS[layout]))
    got = bring(folder)
    assert "looks like recorder" in got.said
    found = rows(got)
    for number in (0, 2):
        want, path = expected(number)
        mine = [row for row in found if row[0] == number]
        assert [(row[0], row[3], row[5], row[6], row[7]) for row in mine] == want
        assert {row[4] for row in mine} == {path, f"{path}.old", None}
        with_rows = [call for call in ranks[number] if not call.function.startswith("MPI")]
        assert [(row[1], row[2]) for row in mine] == [
            (call.begin * 100, (call.end - call.begin) * 100) for call in with_rows
        ]
    # what a call returned isn't in the trace: reads and writes are taken as whole
    moving = ("read", "write", "readv", "pwrite", "fread")
    assert [row[8] for row in found] == [row[6] if row[3] in moving else None for row in found]
    assert got.rows("SELECT rank, name, role FROM process ORDER BY rank") == [
        (0, "app", "rank"),
        (2, "app", "rank"),
    ]
    assert got.fact("calls") == str(sum(map(len, ranks)))
    assert sorted(got.fact("calls_without_rows").split(", ")) == ["2 of MPI", "2 of MPI-IO"]
    assert got.fact("skipped") == "0" and got.fact("time_base") == "absolute"
    assert "2 reads and writes without a known place" in got.said
    assert got.one("SELECT path FROM file JOIN file_op AS o ON o.file2 = file.file AND o.call = 'rename' LIMIT 1") in (
        "/data/file-0.old", "/data/file-2.old",
    )  # fmt: skip


def test_long_repeated_calls(bring, tmp_path):
    """More calls than are read at a time, as rules within rules."""
    block = [("pwrite", ("/f", "%p", 8, 0)), ("pread", ("/f", "%p", 4, 4))]
    calls = [Call(*block[n % 2], n * 10, n * 10 + 5) for n in range(200_000)]
    rules = {-1: [(-2, 10)], -2: [(-3, 100)], -3: [(-4, 1)], -4: [(-5, 100)], -5: [(0, 1), (1, 1)]}
    for zip_times in (True, False):
        got = bring(write(tmp_path / f"x{zip_times}", trace([calls], zip_times=zip_times, made=rules)))
        assert got.rows("SELECT call, count(*), sum(length), min(dur), max(dur) FROM file_op GROUP BY 1 ORDER BY 1") == [
            ("pread", 100_000, 400_000, 500, 500), ("pwrite", 100_000, 800_000, 500, 500),
        ]  # fmt: skip
        assert got.rows("SELECT ts FROM file_op ORDER BY ts") == [(BASE + n * 1000,) for n in range(200_000)]
        # a program without MPI has no rank
        assert got.rows("SELECT rank, role FROM process") == [(None, None)]


def test_threads_whose_calls_are_written_later(bring, tmp_path):
    """Recorder writes a call when it is done: a step back, in 32 bits, where it began before another thread's."""
    calls = [
        Call("read", ("/a", "%p", 1), 5000, 5100, thread=11),
        Call("read", ("/b", "%p", 1), 1000, 9000, thread=12),
        Call("read", ("/a", "%p", 1), 9100, 9200, thread=11),
        # a pause of 300 s
        Call("read", ("/a", "%p", 1), 3_000_000_000, 3_000_000_100, thread=11),
    ]
    got = bring(write(tmp_path / "x", trace([calls])))
    assert got.rows(f"SELECT (ts - {BASE}) // 100, dur // 100, tid FROM file_op JOIN thread USING (node, thread) ORDER BY trace_row")[:3] == [
        (5000, 100, 11), (1000, 8000, 12), (9100, 100, 11),
    ]  # fmt: skip
    alone = [call._replace(thread=0) for call in calls]
    got = bring(write(tmp_path / "y", trace([alone])))
    # without thread ids a step back of seconds is one, that of 300 s is a pause
    assert [row[0] for row in got.rows(f"SELECT (ts - {BASE}) // 100 FROM file_op ORDER BY trace_row")] == [
        5000, 1000, 9100, 3_000_000_000,
    ]  # fmt: skip


def test_places_that_are_not_known(bring, tmp_path):
    def place(*calls, **more):
        made = [Call(name, arguments, n, n + 1) for n, (name, *arguments) in enumerate(calls)]
        got = bring(write(tmp_path / "x", trace([made], **more)))
        return [
            pos for (pos,) in got.rows("SELECT pos FROM file_op WHERE length IS NOT NULL ORDER BY trace_row")
        ]

    write_a = ("write", "/a", "%p", 10)
    assert place(("open", "/a", 1025), write_a, write_a) == [None, None]
    assert place(("fopen", "/a", "a+"), ("fwrite", "%p", 2, 5, "/a")) == [None]
    # never opened; opened twice; known again after both are closed
    assert place(write_a) == [None]
    twice = [
        ("open", "/a", 1),
        ("open", "/a", 1),
        write_a,
        ("lseek", "/a", 0, 0),
        write_a,
        ("close", "/a"),
        write_a,
    ]
    assert place(*twice, ("close", "/a"), ("creat", "/a", 1), write_a, write_a) == [None, None, None, 0, 10]
    # a stream isn't its descriptor
    assert place(("fopen", "/a", "w"), write_a, ("fwrite", "%p", 1, 1, "/a")) == [None, 0]
    # offsets that are patterns, or steps
    assert place(("pwrite", "/a", "%p", 10, "4096*r+0")) == [None]
    assert place(("pwrite", "/a", "%p", 10, 4096), steps_of_offsets=True) == [None]


def test_what_a_folder_is(bring, tmp_path):
    files = trace([rank(0)])
    inner = write(tmp_path / "recorder-20240102" / "101112.13-node-ann-app-5", files)
    for word in (inner.parent, inner, inner / "recorder.mt"):
        got = bring("recorder", word)
        assert got.fact("calls") == "26"
        assert str(inner) in got.fact("source:0") and str(inner) in got.fact("command")
    write(inner.parent / "other", files)
    with pytest.raises(TraceError, match=r"holds 2 traces: 101112\.13-node-ann-app-5, other"):
        bring(inner.parent)
    with tarfile.open(tmp_path / "x.tar.gz", "w:gz") as tar:
        tar.add(inner, arcname="t")
    assert bring("recorder", tmp_path / "x.tar.gz").fact("calls") == "26"
    # one of a rank without calls, too
    with tarfile.open(tmp_path / "y.tar", "w") as tar:
        tar.add(write(tmp_path / "old", trace([rank(0), []], (2, 4))), arcname="t")
    assert bring("recorder", tmp_path / "y.tar").fact("skipped") == "0"
    with pytest.raises(TraceError, match="is a folder"):
        bring(write(tmp_path / "none", {"VERSION": b"3.0.0"}))
    with pytest.raises(TraceError, match=r"recorder\.dat: is of a Recorder after 3\.0"):
        bring(write(tmp_path / "new", {"recorder.dat": b"RECORDER"}))


def test_cut_times(bring, tmp_path):
    """Calls whose times are missing are left out; other ranks are read."""
    files = trace([rank(0), rank(1)], (2, 4))
    files["0.ts"] = files["0.ts"][:83]
    folder = write(tmp_path / "x", files)
    got = bring(folder)
    assert got.fact("skipped") == "16"
    assert "rank 0: times of 10 of its 26 calls" in got.said
    with pytest.raises(TraceError, match="times of 10"):
        bring(folder, strict=True)
    new = trace([rank(0), rank(1)])
    first = struct.unpack_from("<Q", new["recorder.ts"])[0]
    new["recorder.ts"] = new["recorder.ts"][:40] + b"\xff" * (first - 24) + new["recorder.ts"][16 + first :]
    got = bring(write(tmp_path / "y", new))
    assert got.fact("skipped") == "26" and got.one("SELECT count(*) FROM file_op") == 24


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("VERSION", b"4.1.0", "Recorder 2.3 to 3 can be read, found 4.1"),
        ("VERSION", b"new", "VERSION: byte 0: expected a version as 2.4.0, found 'new'"),
        ("VERSION", None, "VERSION: no such file"),
        ("recorder.cst", None, "recorder.cst: no such file"),
        ("recorder.mt", bytes(9), "expected 40 bytes of metadata, found 9"),
        ("recorder.mt", bytes(2000), "expected a number of ranks up to 16,777,216, found 0"),
        ("recorder.cst", b"12", "recorder.cst: byte 0: expected 16 bytes of sizes of signatures, found 2"),
        ("recorder.cst", struct.pack("<QQ", 9, 1 << 60) + b"x" * 9, "byte 0: expected sizes of signatures before and after"),
        ("recorder.cst", struct.pack("<QQ", 9, 50) + b"x" * 9, "zlib's data of signatures"),
        ("recorder.cst", zipped(b"\0" * 5000)[:-3], "bytes of signatures, found"),
        ("recorder.cst", zipped(struct.pack("<i", 1 << 30)), "a number of signatures that 4 bytes can hold, found 1,073,741,824"),
        ("ug.mt", struct.pack("<ii", 7, 1), "ug.mt: byte 0: expected numbers of grammars below their number"),
        ("ug.cfg", zipped(grammar({-1: [(900, 1)]})), "expected in rule -1 symbols below"),
        ("ug.cfg", zipped(grammar({-1: [(0, 0)]})), "each at least once"),
        ("ug.cfg", zipped(grammar({-2: [(0, 1)]})), "expected rule -1"),
        ("ug.cfg", zipped(grammar({-1: [(-2, 1)]})), "expected rule -2, which rule -1 names, found none"),
        ("ug.cfg", zipped(grammar({-1: [(-2, 1)], -2: [(-3, 1)], -3: [(-2, 1)]})), "made of others, found itself in it"),
        ("ug.cfg", zipped(grammar({-1: [(-2, 2)], **{-n: [(-n - 1, 2)] for n in range(2, 60)}, -60: [(0, 2)]})), "calls of a rank, found more"),
        ("ug.cfg", zipped(grammar({-1: [(0, 1 << 30)] * 2})), "times of 26 of its 2,147,483,648 calls"),
        ("recorder.ts", b"123", "expected 8 bytes of sizes of ranks' times, found 3"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_broken_files_are_refused_in_words(bring, tmp_path, name, data, said):
    files = trace([rank(0)], merged=True)
    if data is None:
        del files[name]
    else:
        files[name] = data
    with pytest.raises(TraceError) as error:
        bring("recorder", write(tmp_path / "x", files), strict=True)
    assert said in error.value.message


def test_deep_grammars(bring, tmp_path):
    """A chain of a hundred thousand rules neither recurses nor takes long for each call."""
    depth = 100_000
    rules = {-1: [(-2, 1000)], **{-n: [(-n - 1, 1)] for n in range(2, depth)}, -depth: [(0, 5)]}
    calls = [Call("read", ("/f", "%p", 1), n, n + 1) for n in range(5000)]
    got = bring(write(tmp_path / "x", trace([calls], made=rules)))
    assert got.one("SELECT count(*) FROM file_op") == 5000
    rules = {-1: [(-2, 1)], **{-n: [(0, 1), (-n - 1, 1)] for n in range(2, depth)}, -depth: [(0, 5)]}
    calls = [Call("read", ("/f", "%p", 1), n, n + 1) for n in range(depth + 3)]
    got = bring(write(tmp_path / "y", trace([calls], made=rules)))
    assert got.one("SELECT count(*) FROM file_op") == depth + 3


@pytest.mark.parametrize("layout", LAYOUTS)
def test_any_bytes(tmp_path, layout):
    """Any of its files mutated: read or refused in words."""
    files = trace([rank(0), rank(1)], **LAYOUTS[layout])
    whole = hold("recorder", parted(joined(files), tmp_path / "whole"), Options())
    assert whole is not None and whole.output.rows["file_op"] == 48
    for seed in range(ROUNDS):
        dice = random.Random(f"{layout} {seed}")
        changed = dict(files)
        name = dice.choice(list(files))
        inside = (
            name.endswith((".cst", ".cfg")) and LAYOUTS[layout]["version"] >= (2, 5) and dice.random() < 0.7
        )
        changed[name] = (
            zipped(mutated(b"".join(_unzipped(files[name])), dice)) if inside else mutated(files[name], dice)
        )
        folder = tmp_path / str(seed)
        try:
            hold("recorder", parted(joined(changed), folder), Options())
        except Exception as error:
            raise AssertionError(f"{layout} {seed} {name}: {type(error).__name__}: {error}") from error


def _unzipped(data):
    while data:
        size = struct.unpack_from("<Q", data)[0]
        yield zlib.decompress(data[16 : 16 + size])
        data = data[16 + size :]

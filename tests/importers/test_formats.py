"""biosnoop, perf script, fio's latency logs, DFTracer, Darshan, oracleGeneral: the rows each must give, and its bad lines."""

from pathlib import Path

import numpy as np
import pytest

from iotrail.errors import TraceError
from iotrail.importers import oracle_general
from iotrail.importers.command import guess

FIXTURES = Path(__file__).parents[1] / "fixtures"

START = 946_684_800_000_000_000
ROWS = f"SELECT ts - {START}, dur, call, pos, length, result, path FROM file_op JOIN file USING (node, file) ORDER BY trace_row"

BIOSNOOP = """\
TIME(s)     COMM           PID    DISK    T SECTOR     BYTES  QUE(ms) LAT(ms)
0.000004    supervise      1950   xvda1   W 13092560   4096      0.01    0.74
0.000178    Web Content    2711   xvda1   R 13092432   8192      0.00    0.61
0.001469    ?              0      xvda1   W -1         0         0.02    1.30
0.002000    renamed        1950   xvda1   R 13092432   4096      0.00    0.10
"""

PERF = """\
# comm pid cpu time event
             fio  1234 [001]   512.001000000:        block:block_bio_queue: 259,0 R 2048 + 8 [fio]
             fio  1234 [001]   512.001002000:        block:block_rq_issue: 259,0 R 4096 () 2048 + 8 none,0,0 [fio]
     Web Content    77 [000]   512.001003000:        block:block_rq_issue: 259,0 W 4096 () 4096 + 8 [Web Content]
         swapper     0 [001]   512.001102000:     block:block_rq_complete: 259,0 R () 2048 + 8 none,0,0 [0]
         swapper     0 [000]   512.001203000:     block:block_rq_complete: 259,0 W () 4096 + 8 [-5]
         swapper     0 [000]   512.001300000:     block:block_rq_complete: 259,0 R () 9999 + 8 [0]
             fio  1234 [001]   512.001400000:     sched:sched_switch: prev_comm=fio
             fio  1234 [001]   512.001500:        block:block_rq_issue: 259,0 FF 0 () 18446744073709551615 + 0 [fio]
"""

FIO_LOG = """\
1, 200000, 0, 4096, 61440, 0
1, 100000, 0, 4096, 65536, 0
3, 500000, 1, 8192, 0, 0
3, 500000, 2, 4096, 4096, 0
"""

DFTRACER = """\
[
{"id":"0","name":"FH","cat":"dftracer","ph":"M","pid":7,"tid":9,"args":{"name":"/data/b","value":"beef"}}
{"id":"1","name":"open64","cat":"POSIX","pid":"7","tid":"9","ts":"1698352095942658","dur":"8","ph":"X","args":{"hostname":"n1","fname":"/data/a","ret":3}}
{"id":"2","name":"read","cat":"POSIX","pid":"7","tid":"9","ts":"1698352095942700","dur":"10","ph":"X","args":{"hostname":"n1","fname":"/data/a","fd":3,"count":"4096","ret":"4096"}}
{"id":"3","name":"read","cat":"POSIX","pid":"7","tid":"9","ts":"1698352095942720","dur":"11","ph":"X","args":{"hostname":"n1","fname":"/data/a","fd":3,"count":"4096","ret":"100"}}
{"id":"4","name":"lseek64","cat":"POSIX","pid":"7","tid":"9","ts":"1698352095942740","dur":"1","ph":"X","args":{"hostname":"n1","fname":"/data/a","fd":3,"offset":"10","ret":"10"}}
{"id":"5","name":"read","cat":"POSIX","pid":"7","tid":"9","ts":"1698352095942750","dur":"2","ph":"X","args":{"hostname":"n1","fname":"/data/a","fd":3,"count":"6","ret":"6"}}
{"id":"6","name":"pwrite64","cat":"POSIX","pid":"7","tid":"8","ts":"1698352095942760","dur":"2","ph":"X","args":{"hostname":"n1","fhash":"beef","fd":4,"count":"6","offset":512,"ret":"6"}}
{"id":"7","name":"__xstat64","cat":"POSIX","pid":"7","tid":"8","ts":"1698352095942770","dur":"2","ph":"X","args":{"hostname":"n1","fname":"/data/a"}}
{"id":"8","name":"Trainer.step","cat":"app","pid":"7","tid":"8","ts":"1698352095942780","dur":"2","ph":"X","args":{}}
]
"""


def oracle(requests: list[tuple[int, int, int, int]]) -> bytes:
    """(time, object, size, next use) as oracleGeneral."""
    return np.array(requests, oracle_general.REQUEST).tobytes()


def test_biosnoop(bring):
    got = bring(BIOSNOOP)
    assert "looks like biosnoop" in got.said
    assert got.rows(ROWS) == [
        (4_000 - 750_000, 750_000, "pwrite", 13092560 * 512, 4096, 4096, "/dev/xvda1"),
        (178_000 - 610_000, 610_000, "pread", 13092432 * 512, 8192, 8192, "/dev/xvda1"),
        (1_469_000 - 1_320_000, 1_320_000, "fdatasync", None, None, 0, "/dev/xvda1"),
        (2_000_000 - 100_000, 100_000, "pread", 13092432 * 512, 4096, 4096, "/dev/xvda1"),
    ]
    # a thread keeps the name that it had first
    assert {name for (name,) in got.rows("SELECT name FROM thread")} == {"supervise", "Web Content", "?"}
    assert got.fact("skipped") == "0"


def test_biosnoop_without_queue_and_with_bad_lines(bring):
    text = (
        "Tracing block device I/O... Hit Ctrl-C to end.\n"
        "TIME(s)     COMM           PID    DISK    T SECTOR     BYTES   LAT(ms)\n"
        "1.5 dd 7 sda R 8 512 0.5\n1.5 dd 7 sda R 8 512\n1.5 dd x sda R 8 512 0.5\n"
    )
    got = bring(text)
    assert got.rows(ROWS) == [(1_499_500_000, 500_000, "pread", 4096, 512, 512, "/dev/sda")]
    assert got.fact("skipped") == "2"
    assert "trace:4: not understood" in got.said
    with pytest.raises(TraceError, match="no header of biosnoop with"):
        bring("biosnoop", "1.5 dd 7 sda R 8 512 0.5\n", name="headless")
    with pytest.raises(TraceError, match="column PID is in its header twice"):
        bring("biosnoop", text.replace("DISK", "PID    DISK"), name="twice")


def test_perf_script(bring):
    got = bring(PERF)
    assert "looks like perf-script" in got.said
    base = 512_001_000_000
    assert got.rows("SELECT ts - 946684800000000000, dur, call, pos // 512, length, result, errno FROM file_op ORDER BY ts") == [
        (base, 102_000, "pread", 2048, 4096, 4096, 0),
        (base + 3_000, 200_000, "pwrite", 4096, 4096, -1, 5),
        # completed without a start: nobody knows how long it took
        (base + 300_000, None, "pread", 9999, 4096, 4096, 0),
        (base + 500_000, None, "fdatasync", None, None, None, 0),
    ]  # fmt: skip
    assert {name for (name,) in got.rows("SELECT name FROM thread")} == {"fio", "Web Content", "unknown"}
    assert got.fact("skipped") == "0", got.said
    assert got.rows("SELECT path FROM file") == [("/dev/block/259:0",)]


def test_fio_latency_logs(bring):
    got = bring(FIO_LOG, name="job_lat.1.log")
    assert "looks like fio-log" in got.said
    rows = got.rows(ROWS)
    assert [row[1:] for row in rows] == [
        (200_000, "pread", 61440, 4096, 4096, "/dev/job_lat.1"),
        (100_000, "pread", 65536, 4096, 4096, "/dev/job_lat.1"),
        (500_000, "pwrite", 0, 8192, 8192, "/dev/job_lat.1"),
        (500_000, "fallocate", 4096, 4096, 0, "/dev/job_lat.1"),
    ]
    # those of one millisecond are spread over it, in the log's order
    assert [row[0] for row in rows] == sorted(row[0] for row in rows)
    assert [row[0] + row[1] for row in rows[:2]] == [1_250_000, 1_750_000]
    no_offsets = bring("fio-log", "1, 5, 0, 512, 0\n2, 5, 0, 512, 0\n", name="a_clat.1.log")
    assert no_offsets.rows("SELECT DISTINCT pos FROM file_op") == [(None,)]
    averages = bring("fio-log", "1, 5, 0, 512, 0\n2, 5, 0, 0, 0\n", name="b_lat.1.log")
    assert averages.fact("skipped") == "1" and "an average, not an I/O" in averages.said
    for kind in ("bw", "iops", "slat"):
        with pytest.raises(TraceError, match="not of I/O"):
            bring("fio-log", FIO_LOG, name=f"job_{kind}.1.log")


def test_dftracer(bring):
    got = bring(DFTRACER, name="app.pfw")
    assert "looks like dftracer" in got.said
    base = 1_698_352_095_942_000_000
    query = f"""SELECT ts - {base}, dur, call, pos, length, result, fd, path FROM file_op JOIN file USING (node, file)
        ORDER BY trace_row"""
    assert got.rows(query) == [
        (658_000, 8_000, "open", None, None, 3, None, "/data/a"),
        (700_000, 10_000, "read", 0, 4096, 4096, 3, "/data/a"),
        (720_000, 11_000, "read", 4096, 4096, 100, 3, "/data/a"),
        (740_000, 1_000, "lseek", None, None, 10, 3, "/data/a"),
        (750_000, 2_000, "read", 10, 6, 6, 3, "/data/a"),
        (760_000, 2_000, "pwrite", 512, 6, 6, 4, "/data/b"),
        (770_000, 2_000, "stat", None, None, 0, None, "/data/a"),
    ]
    assert got.rows("SELECT pid, count(*) FROM thread GROUP BY 1") == [(7, 2)]
    # metadata and the program's own functions
    assert got.fact("events_without_rows") == "2"
    broken = bring("dftracer", DFTRACER + '{"id":"9","name":\n', name="cut.pfw")
    assert broken.fact("skipped") == "1"
    assert "cut.pfw:12: not understood" in broken.said


def test_oracle_general(bring):
    got = bring(oracle([(0, 5, 4096, 3), (1, 6, 4096, -1), (1, 5, 4096, -1)]))
    assert "looks like oracle-general" in got.said
    assert got.rows(ROWS) == [
        (0, None, "pread", 5 * 4096, 4096, 4096, "/dev/trace"),
        (10**9, None, "pread", 6 * 4096, 4096, 4096, "/dev/trace"),
        (10**9, None, "pread", 5 * 4096, 4096, 4096, "/dev/trace"),
    ]
    mixed = bring("oracle-general", oracle([(0, 5, 100, 3), (1, 6, 200, -1), (1, 5, 100, -1)]) + b"cut")
    assert mixed.rows("SELECT path, pos, length FROM file_op JOIN file USING (node, file) ORDER BY trace_row") == [
        ("object/5", 0, 100), ("object/6", 0, 200), ("object/5", 0, 100),
    ]  # fmt: skip
    assert "cut off at byte 72" in mixed.said


@pytest.mark.parametrize(
    "data", [b"", b"\0" * 48, b"text that is none" * 9, oracle([(9, 1, 5, -1), (3, 1, 5, -1)])]
)
def test_what_is_no_oracle_general(data):
    assert "oracle-general" not in guess(data)


MOVED = """
    SELECT CAST(sum(result) FILTER (WHERE call IN ('read', 'pread')) AS BIGINT),
        CAST(sum(result) FILTER (WHERE call IN ('write', 'pwrite')) AS BIGINT) FROM file_op"""


def test_darshan_counts_each_call_once(bring):
    """A log of a program that wrote 10 times, read 7 times and printed 3 lines, with DXT."""
    pytest.importorskip("darshan", reason="needs iotrail[darshan]")
    got = bring(FIXTURES / "dxt.darshan")
    assert got.rows("SELECT call, count(*), CAST(sum(calls) AS BIGINT), count(dur) FROM file_op GROUP BY 1 ORDER BY 1") == [
        ("fopen", 1, 1, 0), ("fsync", 1, 1, 0), ("fwrite", 1, 3, 0), ("lseek", 1, 1, 0), ("open", 1, 1, 0), ("pread", 7, 7, 7),
        ("pwrite", 10, 10, 10),
    ]  # fmt: skip
    assert got.rows(MOVED) == [(7 * 1000, 10 * 4096)]
    files = "SELECT parse_filename(path) FROM file WHERE file IN (SELECT file FROM file_op) ORDER BY 1"
    assert got.rows(files) == [("data.bin",), ("text.txt",)]


@pytest.mark.parametrize(
    ("log", "ranks", "segments", "files", "read", "written"),
    [
        ("treddy*", 32, 320, 35, 2147483648, 2147486208),
        ("dxtexpl*", 192, 77_696, 11, 16596991456, 17496571648),
    ],
)
def test_darshan_of_shared_traces(bring, shared, log, ranks, segments, files, read, written):
    """Each segment of DXT is a call of its rank, at its place; bytes are those of the log's counters."""
    pytest.importorskip("darshan", reason="needs iotrail[darshan]")
    got = bring(next(shared("darshan").glob(log)))
    assert (
        got.one("SELECT count(*) FROM file_op WHERE call IN ('pread', 'pwrite') AND dur IS NOT NULL")
        == segments
    )
    assert got.one("SELECT count(DISTINCT rank) FROM process WHERE rank IS NOT NULL") == ranks
    assert got.one("SELECT count(DISTINCT file) FROM file_op") == files
    assert got.rows(MOVED) == [(read, written)]
    # what is only known as sums has no durations, and says of how many calls
    assert got.one("SELECT count(dur) FROM file_op WHERE calls > 1") == 0
    assert int(got.fact("summed_calls")) > 0


def test_dftracer_of_shared_traces(bring, shared):
    got = bring(shared("other/dftracer-test-trace.pfw.gz"))
    assert got.fact("lines") == "93894"
    assert got.rows("SELECT call, count(*) FROM file_op GROUP BY 1 ORDER BY 2 DESC LIMIT 2") == [
        ("lseek", 81736), ("read", 5734),
    ]  # fmt: skip
    assert got.fact("skipped") == "0"


def test_a_broken_darshan_log_is_refused_in_words(bring):
    pytest.importorskip("darshan", reason="needs iotrail[darshan]")
    with pytest.raises(TraceError, match="PyDarshan can't"):
        bring("darshan", b"3.41\0\0\0\0" + bytes(5000), name="x.darshan")

"""What fuzzing found: inputs that were read wrong, or ended in an error of Python's own."""

import re
import struct
import subprocess

import pytest

from iotrail.errors import TraceError, UsageError
from iotrail.exporters import export
from iotrail.native import binary
from iotrail.report import write_report
from iotrail.trail import Trail

from .blktrace_writer import WRITE, C, Q, X, event, wall_clock
from .test_fio_srt_vscsi import srt, vscsi

ROWS = "SELECT ts - 946684800000000000, dur, pos, length FROM file_op ORDER BY ts"
HEADER = "t_ns,offset,size,op,device\n"
LINE = "5,0,512,r,sda\n"


@pytest.mark.parametrize("open", ['6,0,"512,r,sdb', '7,0,512,r,"sdb', '8,0,512,"r,""sdb', '"'])
def test_an_open_quote_takes_its_own_line_only(bring, open):
    got = bring(HEADER + LINE * 3 + open + "\n" + '6,"0",512,r,"s,db"\n' + LINE * 5)
    assert got.one("SELECT count(*) FROM file_op") == 9
    assert got.fact("skipped") == "1"
    assert "trace:5: a quote isn't closed: " in got.said
    assert got.rows("SELECT path FROM file ORDER BY path") == [("/dev/s,db",), ("/dev/sda",)]


def test_a_last_line_of_blanks_is_none(bring):
    got = bring("disksim", "  0.5 0 100 8 0\n 10.25 1 7 3 1\n  ")
    assert (got.fact("lines"), got.fact("skipped")) == ("2", "0")


@pytest.mark.parametrize("bad", ["x", "99999999999999999999999", "1e99", ""])
def test_a_bad_number_spoils_no_other(bring, bad):
    """Lines beside a bad one are exact to the nanosecond, and their hexadecimal is read."""
    got = bring(
        "csv",
        f"1700000000123456789 0x10 512 r\n{bad or 'z'} 0 512 r\n1700000000123456790 8 512 r\n",
        map="ts=1,unit=ns,pos=2,length=3,op=4,sep=space",
    )
    assert got.rows("SELECT ts, pos FROM file_op ORDER BY ts") == [
        (1700000000123456789, 16),
        (1700000000123456790, 8),
    ]
    got = bring(f"t_s,offset,size,op\n1700000000.123456789,0,512,r\n{bad},0,512,r\n")
    assert got.rows("SELECT ts FROM file_op") == [(1700000000123456789,)]
    assert got.fact("skipped") == "1"


def test_places_with_a_point_are_no_times(bring):
    got = bring("t_s,offset,size,op\n1.5,4096.0,512.0,r\n")
    assert got.rows(ROWS) == [(1_500_000_000, None, 4096, 512)]


@pytest.mark.parametrize(
    ("map", "says"),
    [
        ("ts=1,pos=1,length=3,op=4", "ts and pos are both column 1"),
        ("ts=1,pos=2,length=3,op=4,dev=3", "length and dev are both column 3"),
        ("ts=1,pos=2,length=3,op=4,pos_unit=99999999999999999999", "expected one of"),
        ("ts=1,pos=2,length=3,op=4,pos_unit=²", "expected one of"),
        ("ts=99999999,pos=2,length=3,op=4", "columns are counted from 1 to 10,000"),
        ("ts=²,pos=2,length=3,op=4", "no column '²' for ts"),
    ],
)
def test_maps_that_cannot_be(bring, map, says):
    with pytest.raises((UsageError, TraceError), match=says):
        bring("csv", "1,2,512,r\n3,4,512,w\n", map=map)


@pytest.mark.parametrize(
    "line",
    [
        "-9223372036854775808,0,512,r,5",
        "1,-9223372036854775808,512,r,5",
        "1,0,512,r,-9223372036854775808",
        "-4000000000000000000,0,512,r,4000000000000000000",
        "1,9223372036854775807,512,r,5",
        "-4611686018427387903,0,512,r,5",
    ],
)
def test_what_is_beyond_63_bits_is_left_out(bring, line):
    got = bring(f"t_ns,offset,size,op,end\n1,0,512,r,2\n{line}\n")
    assert got.rows(ROWS) == [(1, 1, 0, 512)]
    assert got.fact("skipped") == "1"


def test_gaps_that_add_up_to_more_than_63_bits(bring):
    gaps = "W Hit 8 4 1 4000000000000000\n" * 9
    got = bring("disksim-validate", gaps)
    assert got.rows(ROWS) == [(0, 1000, 4096, 2048), (4 * 10**18, 1000, 4096, 2048)]
    assert got.fact("skipped") == "7"
    assert (
        "times that are not between 1970 and 2200, durations that are negative or over 31 years" in got.said
    )


def test_waits_that_add_up_to_more_than_63_bits(bring):
    waits = "/f read 0 512\n" + "/f wait 86400000000 0\n" * 110_000 + "/f read 0 512\n"
    got = bring("fio version 2 iolog\n" + waits)
    assert got.rows(ROWS) == [(0, None, 0, 512)]
    assert got.fact("skipped") == "1"


def test_times_before_1970_are_left_out(bring):
    got = bring(
        "msr", "128166372003061629,usr,0,Read,0,512,1\n10,usr,0,Read,0,512,1\n128166372003061629,usr,0,Read,0,512,1\n"
    )  # fmt: skip
    assert got.one("SELECT count(*) FROM file_op") == 2
    assert got.fact("skipped") == "1"


@pytest.mark.parametrize(
    "split",
    [
        event(2, X, 8, 4096, pdu=struct.pack(">Q", (1 << 64) - 1)),
        event(2, X, 8, 4096, pdu=struct.pack(">Q", 7)),
        event(2, X, 8, 4096, pdu=b"\0\0\0\x0c"),
        event(2, X, 8, 4096, pdu=bytes(8)[:0], cgroup=True),
        event(2, X, 8, 4096),
    ],
)
def test_splits_that_do_not_say_where(bring, split):
    got = bring(event(1, Q, 8, 4096) + event(5, C, 8, 4096) + split, name="sda.blktrace.0")
    assert got.rows(ROWS) == [(0, 4, 4096, 4096)]
    assert "splits that don't say where in their request" in got.said
    assert got.fact("skipped") == "1"


def test_a_wall_clock_before_the_trace_began(bring):
    """A note of the wall clock at a time later than the epoch's age: what came before was before 1970."""
    got = bring(
        wall_clock(10 * 10**9, 5, 0)
        + event(1, Q, 8, 512)
        + event(2, C, 8, 512)
        + event(10 * 10**9, Q, 16, 512, WRITE)
        + event(10 * 10**9 + 3, C, 16, 512, WRITE),
        name="sda.blktrace.0",
    )
    assert got.rows("SELECT ts, dur, pos FROM file_op") == [(5 * 10**9, 3, 8192)]
    assert got.fact("skipped") == "1"


def test_errors_of_blkparse_that_are_no_numbers_of_errors(bring):
    lines = "".join(
        f"  8,0 0 1 0.00000000{at} 9 C R {at}00 + 8 [{error}]\n"
        for at, error in enumerate(("65531", "99999", "999999", "-5", "-99999"))
    )
    got = bring("blkparse", lines)
    assert got.rows("SELECT errno FROM file_op ORDER BY ts") == [(5,), (0,), (0,), (5,), (0,)]


@pytest.mark.parametrize("year", ["9999", "1901"])
def test_srt_dates_that_are_none(bring, year):
    got = bring(srt((1, 5, 10, 300, 4096, 100, 0x8000001, 1)).replace(b"1992", year.encode()))
    assert got.fact("time_base") == "relative"
    assert got.rows(ROWS) == [(1_000_005_000, 300_000, 25600, 4096)]


def test_srt_that_ends_in_its_first_word(bring):
    """What is left of the first record isn't taken for its length."""
    whole = srt()
    with pytest.raises(TraceError, match="the last record has 4 of 52 bytes"):
        bring("srt", whole + b"\xff\xff\xff\xff")


def test_srt_sectors_of_any_size(bring):
    trace = srt((1, 5, 10, 300, 4096, 4_000_000_000, 0x8000001, 1))
    got = bring(trace.replace(b"256", b"99999999999999999999999"))
    assert got.rows("SELECT pos, length FROM file_op") == [(4_000_000_000 * 256, 4096)]


def test_vscsi_places_that_end_beyond(bring):
    good = (0x28, 512, 8, 1000)
    got = bring(vscsi(2, good, (0x28, 1 << 31, (1 << 54) - 1, 1000), good), name="w1")
    assert got.one("SELECT count(*) FROM file_op") == 2
    assert got.fact("skipped") == "1"


def test_words_that_are_no_utf8(bring):
    """A file's name and a device's, as Python decodes the command line."""
    got = bring("csv", HEADER + LINE + "x,0,512,r,sda\n", name="t\udcff.csv", device="d\udcfe")
    assert got.rows("SELECT DISTINCT node FROM file_op") == [("t\ufffd",)]
    assert "x,0,512,r,sda" in got.fact("skipped:0")
    got = bring("vscsi", vscsi(2, (0x28, 512, 8, 1000)), name="w1", device="d\udcfe")
    assert got.rows("SELECT path FROM file") == [("/dev/d\ufffd",)]


# Beyond PATH_MAX (4096), where a descriptor's whole path may be: each part of it was opened from the one before.
DEEP = "/data" + ("/" + "e" * 200) * 25 + "/f.dat"


@pytest.mark.parametrize(
    "trace",
    [
        f't_s,offset,size,op,device\n1,0,512,r,{DEEP}\n2,512,512,w,"{DEEP}"\n',
        f'7 1.000001 openat(4<{DEEP[:-6]}>, "f.dat", O_RDWR) = 3<{DEEP}> <0.000020>\n'
        f'7 1.001000 pread64(3<{DEEP}>, "x"..., 512, 0) = 512 <0.000020>\n'
        f'7 1.002000 pwrite64(3<{DEEP}>, "x"..., 512, 512) = 512 <0.000020>\n'
        f'7 1.003000 openat(AT_FDCWD, "{DEEP}", O_RDONLY) = -1 ENAMETOOLONG (File name too long) <0.000020>\n',
        "[\n"
        + "".join(
            f'{{"id":{at},"name":"{call}","cat":"POSIX","pid":7,"tid":7,"ts":{at * 100},"dur":5,"ph":"X",'
            f'"args":{{"fname":"{DEEP}","ret":512,"count":512,"offset":{at * 512}}}}}\n'
            for at, call in enumerate(["pread", "pwrite"])
        ),
    ],
    ids=["csv", "strace", "dftracer"],
)
def test_paths_beyond_what_the_kernel_takes(bring, tmp_path, trace):
    """Kept whole by import, questions, page and exports; a replay can't make such a file and says so."""
    got = bring(trace)
    assert got.fact("skipped") == "0"
    assert got.rows("SELECT path, bytes_read, bytes_written FROM file_summary") == [(DEEP, 512, 512)]
    made = tmp_path / "page.html"
    trail = Trail(got.path)
    write_report(trail, made)
    assert made.stat().st_size > 0
    for format in ("csv", "parquet", "perfetto", "fio"):
        assert export(trail, format, tmp_path / f"out.{format}").exists()
    command = [binary(), "replay", got.path, "--root", tmp_path / "root", "-o", tmp_path / "y.trail"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout
    assert re.match(r"iotrail: error: cannot make \S+: File name too long", done.stderr), done.stderr

"""Block traces in columns of text: maps, presets, headers, lines that don't parse."""

import gzip
import lzma
import resource
import subprocess
import sys

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from iotrail.errors import TraceError, UsageError
from iotrail.importers import csv as importer
from iotrail.importers.command import guess

ROWS = """SELECT ts - min(ts) OVER (), dur, call, path, pos, length, result FROM file_op JOIN file USING (node, file)
    ORDER BY file_op.ts, pos"""
S, MS, US = 10**9, 10**6, 10**3

# preset -> its text, the rows it must give, a thread's name, when it begins (None: relative)
PRESETS = {
    "msr": (
        "128166372003061629,usr,0,Read,7014609920,24576,41286\n128166372016382155,usr,1,Write,2517696512,12288,1963\n",
        [
            (0, 4_128_600, "pread", "/dev/usr_0", 7014609920, 24576, 24576),
            (1_332_052_600, 196_300, "pwrite", "/dev/usr_1", 2517696512, 12288, 12288),
        ],
        "usr",
        1_172_163_600_306_162_900,
    ),
    "msr-cut": (
        "0.000 0 200626176 4096 0\n223.412 0 3159347200 36864 1\n",
        [
            (0, None, "pwrite", "/dev/disk0", 200626176, 4096, 4096),
            (223_412 * US, None, "pread", "/dev/disk0", 3159347200, 36864, 36864),
        ],
        "/dev/disk0",
        None,
    ),
    "spc": (
        "0,20941264,8192,W,0.551706\n1,3,512,r,0.554041,extra\n",
        [
            (0, None, "pwrite", "/dev/asu0", 20941264 * 512, 8192, 8192),
            (2_335 * US, None, "pread", "/dev/asu1", 3 * 512, 512, 512),
        ],
        "/dev/asu0",
        None,
    ),
    "disksim": (
        "  0.5   0    100   8   0\n 10.25\t1 7 3 1\n",
        [
            (0, None, "pwrite", "/dev/disk0", 51200, 4096, 4096),
            (9_750 * US, None, "pread", "/dev/disk1", 3584, 1536, 1536),
        ],
        "/dev/disk0",
        None,
    ),
    "disksim-validate": (
        "W Hit    4583176   4    663.00000  45422.00000\nR Miss 8 2 10.5 3\nR Hit 10 2 1.0 1\n",
        [
            (0, 663 * US, "pwrite", "/dev/trace", 4583176 * 512, 2048, 2048),
            (45_422 * US, 10_500, "pread", "/dev/trace", 4096, 1024, 1024),
            (45_425 * US, 1_000, "pread", "/dev/trace", 5120, 1024, 1024),
        ],
        "/dev/trace",
        None,
    ),
    "mqsim": (
        "11413000 0 657728 16 1\n11565000 1 31244784 64 0\n",
        [
            (0, None, "pread", "/dev/disk0", 657728 * 512, 8192, 8192),
            (152_000, None, "pwrite", "/dev/disk1", 31244784 * 512, 32768, 32768),
        ],
        "/dev/disk0",
        None,
    ),
    "opencas": (
        "device.id,device.name,file.id,header.timestamp,io.flush,io.latency,io.lba,io.len,io.operation\n"
        "1,nvme0n1,,33493819292,false,144925,1953524992,8,Read\n"
        "1,nvme0n1,,33493993812,true,100,0,0,Write\n"
        "1,nvme0n1,5,33494134732,false,7,64,128,Discard\n",
        [
            (0, 144_925, "pread", "/dev/nvme0n1", 1953524992 * 512, 4096, 4096),
            (174_520, 100, "fdatasync", "/dev/nvme0n1", None, None, 0),
            (315_440, 7, "fallocate", "/dev/nvme0n1", 64 * 512, 65536, 0),
        ],
        "/dev/nvme0n1",
        None,
    ),
    "alibaba": (
        "419,W,8792731648,16384,1577808000000046\n7,R,4096,512,1577808000000049\n",
        [
            (0, None, "pwrite", "/dev/disk419", 8792731648, 16384, 16384),
            (3 * US, None, "pread", "/dev/disk7", 4096, 512, 512),
        ],
        "/dev/disk419",
        1_577_808_000_000_046_000,
    ),
    "tencent": (
        "1538323200,12910952,128,0,1063\n1538323201,5012,8,1,1064\n",
        [
            (0, None, "pread", "/dev/disk1063", 12910952 * 512, 65536, 65536),
            (S, None, "pwrite", "/dev/disk1064", 5012 * 512, 4096, 4096),
        ],
        "/dev/disk1063",
        1_538_323_200 * S,
    ),
    "systor17": (
        "Timestamp,Response,IOType,LUN,Offset,Size\n"
        "1456095145.133076000,0.000806000,R,0,899056122368,131072\n1456095145.133176000,,W,4,4096,8192\n",
        [
            (0, 806 * US, "pread", "/dev/lun0", 899056122368, 131072, 131072),
            (100 * US, None, "pwrite", "/dev/lun4", 4096, 8192, 8192),
        ],
        "/dev/lun0",
        1_456_095_145_133_076_000,
    ),
    "fiu": (
        "89966805921 4892 syslogd 904265560 8 W 6 0 531e779ab5b1b0e3\n89967404763 1994 kjournald 28288 16 R 6 2 c7a\n",
        [
            (0, None, "pwrite", "/dev/block/6:0", 904265560 * 512, 4096, 4096),
            (598_842, None, "pread", "/dev/block/6:2", 28288 * 512, 8192, 8192),
        ],
        "syslogd",
        None,
    ),
    "thesios": (
        "filename,file_offset,application,c_time,io_zone,redundancy_type,op_type,service_class,from_flash_cache,cache_hit,"
        "request_io_size_bytes,disk_io_size_bytes,response_io_size_bytes,start_time,disk_time,simulated_disk_start_time,"
        "simulated_latency\n"
        "aa,0,bigtable,1705300000,WARM,REPLICATED,READ,OTHER,0,1,1050624,0,0,1705312800.25,0,0,0.001\n"
        "bb,4096,spanner,1705300000,WARM,REPLICATED,WRITE,OTHER,0,-1,8192,0,0,1705312800.5,0,0,0.002\n",
        [
            (0, MS, "pread", "aa", 0, 1050624, 1050624),
            (250 * MS, 2 * MS, "pwrite", "bb", 4096, 8192, 8192),
        ],
        "bigtable",
        1_705_312_800_250_000_000,
    ),
}


@pytest.mark.parametrize("preset", PRESETS)
def test_presets(bring, preset):
    text, rows, thread, start = PRESETS[preset]
    got = bring(preset, text)
    assert got.fact("skipped") == ("1" if preset == "spc" else "0")
    if preset == "spc":
        # optional fields are the same on all lines: the second has one more
        assert "expected 5 columns, found 6" in got.said
        assert got.rows(ROWS) == rows[:1]
        return
    assert got.rows(ROWS) == rows
    assert thread in [name for (name,) in got.rows("SELECT name FROM thread")]
    assert got.fact("time_base") == ("relative" if start is None else "absolute")
    if start is not None:
        assert got.one("SELECT min(ts) FROM file_op") == start


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_are_guessed(bring, preset):
    assert guess(PRESETS[preset][0].encode()) == [preset]


def test_what_may_be_two_formats_is_asked(bring):
    # whole numbers close together: ms of DiskSim or ns of MQSim
    with pytest.raises(UsageError, match="may be disksim or mqsim") as error:
        bring("0 0 100 8 0\n3 0 7 3 1\n")
    assert "iotrail import mqsim" in (error.value.hint or "")


@pytest.mark.parametrize(
    ("header", "line", "row"),
    [
        ("t_ns,offset_B,size_B,op,latency_ns", "5,4096,512,W,9", (9, 4096, 512)),
        ("time (ms);lba;bytes;type", "5;8;512;Write", (None, 4096, 512)),
        ("Timestamp\tOffset\tSize\tRW\tDuration_us", "5\t4096\t512\twrite\t3", (3000, 4096, 512)),
        ("ts_us,sector,sectors,op,end", "7,8,1,WS,9", (2000, 4096, 512)),
        ('"timestamp","op","offset","length"', "5,write,4096,512", (None, 4096, 512)),
    ],
)
def test_headers_tell(bring, header, line, row):
    got = bring(f"{header}\n{line}\n")
    assert "looks like csv" in got.said
    assert got.rows("SELECT dur, pos, length FROM file_op WHERE call = 'pwrite'") == [row]


def test_a_map_for_any_columns(bring):
    got = bring(
        "csv", "w|7|sdb|3|1.5\nr|8|sdb|1|2.75\n",
        map="sep=pipe,op=1,pos=2,pos_unit=4096,dev=3,length=4,length_unit=1024,ts=5,unit=s,read=r,write=w,device=raid-{dev}",
    )  # fmt: skip
    assert got.rows(ROWS) == [
        (0, None, "pwrite", "/dev/raid-sdb", 7 * 4096, 3072, 3072),
        (1_250 * MS, None, "pread", "/dev/raid-sdb", 8 * 4096, 1024, 1024),
    ]
    assert got.fact("dur").startswith("unknown")


EXTENTS = """SELECT d.path, f.path, e.pos, e.length, e.file_pos FROM extent AS e
    JOIN file AS d ON d.file = e.device JOIN file AS f ON f.file = e.file ORDER BY e.ts, e.pos"""


def test_which_part_of_which_file_a_request_is_for(bring):
    got = bring(
        "csv", "1,sda,r,4096,512,7,1024\n2,sda,w,0,512,,\n3,sda,w,512,512,9,\n4,sdb,r,0,512,7,0\n5,sda,d,4096,512,7,1024\n",
        map="ts=1,unit=us,dev=2,op=3,pos=4,length=5,inode=6,file_pos=7",
    )  # fmt: skip
    assert got.rows(EXTENTS) == [
        ("/dev/sda", "[/dev/sda inode 7]", 4096, 512, 1024),
        ("/dev/sda", "[/dev/sda inode 9]", 512, 512, None),
        ("/dev/sdb", "[/dev/sdb inode 7]", 0, 512, 0),
    ]
    assert got.rows("SELECT dev, reads, writes FROM block_device ORDER BY dev") == [
        ("/dev/sda", 1, 2),
        ("/dev/sdb", 1, 0),
    ]


def test_open_cas_says_which_part_of_which_file(bring):
    # as its documentation shows them: offsets are in sectors
    got = bring(
        "device.id,device.name,file.id,file.offset,file.size,header.sid,header.timestamp,io.error,io.flush,io.fua,"
        "io.ioClass,io.latency,io.lba,io.len,io.operation,io.qd\n"
        "271581185,nvme0n1,,,,23,33493819292,false,false,false,1,144925,1953524992,8,Read,1\n"
        "271581184,nvme1n1,73,0,203,80572,160822194559,false,false,false,11,12530,904,120,Write,1\n"
        "271581184,nvme1n1,73,120,203,80575,160822223349,false,false,false,12,13985,1024,88,Write,1\n"
    )
    assert got.rows(EXTENTS) == [
        ("/dev/nvme1n1", "[/dev/nvme1n1 inode 73]", 904 * 512, 120 * 512, 0),
        ("/dev/nvme1n1", "[/dev/nvme1n1 inode 73]", 1024 * 512, 88 * 512, 120 * 512),
    ]
    assert got.fact("skipped") == "0"


def test_offsets_in_files_that_are_none(bring):
    got = bring("ts,offset,size,op,inode,file_pos\n1,0,512,r,5,x\n2,0,512,r,5,-1\n3,0,512,r,5,0\n")
    assert "file_pos is no number" in got.said and "file_pos is negative" in got.said
    assert got.rows("SELECT file_pos FROM extent") == [(0,)]
    with pytest.raises(UsageError, match="file_pos needs a column for inode"):
        bring("csv", "1,0,512,r,0\n", map="ts=1,pos=2,length=3,op=4,file_pos=5")


@pytest.mark.parametrize(
    ("column", "unseen"), [("", ["between_requests", "response_times"]), (",latency", ["between_requests"])]
)
def test_what_a_trace_of_requests_does_not_show(bring, column, unseen):
    value = column and ",7"
    got = bring(f"ts,offset,size,op{column}\n1,0,512,r{value}\n2,0,512,w{value}\n")
    assert got.rows("SELECT kind FROM unseen ORDER BY kind") == [(kind,) for kind in unseen]
    assert got.rows("SELECT amount FROM unseen WHERE kind = 'response_times'") == [(2,)] * (not column)


def test_times_since_the_epoch_are_exact(bring):
    got = bring("time_s,offset,size,op\n1700000000.123456789,0,512,r\n1700000000.123456790,0,512,r\n")
    assert got.rows("SELECT ts FROM file_op ORDER BY ts") == [(1700000000123456789,), (1700000000123456790,)]
    assert got.fact("time_base") == "absolute"


def test_numbers_of_a_column_may_change_their_shape(bring):
    """Whole numbers at first, fractions later: the column's type was settled by its first lines."""
    lines = "".join(f"{n},0,512,r\n" for n in range(300)) + "300.5,0,512,r\n"
    got = bring("time_ms,offset,size,op\n" + lines)
    assert got.fact("skipped") == "0"
    assert got.one("SELECT max(ts) - min(ts) FROM file_op") == 300_500_000


def test_lines_that_do_not_parse(bring):
    good = "".join(f"{n}.5,4096,512,r\n" for n in range(10))
    bad = (
        "x,4096,512,r\n"  # 12
        "1,2\n"  # 13
        "9e99,4096,512,r\n"  # 14
        "\n"  # 15, empty: not counted
        "1,-5,512,r\n"  # 16
        "1,4096,512,who\n"  # 17
    )
    got = bring("t_s,offset,size,op\n" + good + bad + "20,4096,512,w\n")
    assert got.one("SELECT count(*) FROM file_op") == 11
    assert got.fact("skipped") == "5"
    assert "trace:12: ts is no number: 'x,4096,512,r'" in got.said
    assert "trace:13: expected 4 columns, found 2: '1,2'" in got.said
    assert "trace:14: ts is out of range: is its unit right? --map …,unit=us: '9e99,4096,512,r'" in got.said
    assert "5 lines left out" in got.said
    assert next(
        row for (row,) in got.rows("SELECT value FROM recording WHERE name LIKE 'skipped:%' ORDER BY name")
    ).endswith("trace:12: ts is no number: 'x,4096,512,r'")


@pytest.mark.parametrize("bad", ["x,4096,512,r", "1,2", "1,4096,512,who"])
def test_strict_refuses_the_first(bring, tmp_path, bad):
    with pytest.raises(TraceError, match="trace:3: "):
        bring("t_s,offset,size,op\n1,4096,512,r\n" + bad + "\n", strict=True)
    assert [path.name for path in tmp_path.iterdir()] == ["trace"]


def test_backward_times_and_empty_requests_are_kept_and_said(bring):
    got = bring("t_s,offset,size,op\n5,0,512,r\n3,0,0,r\n4,0,512,w\n2,0,512,r\n")
    assert got.one("SELECT count(*) FROM file_op") == 4
    assert "times go backwards 2 times" in got.said
    assert "1 requests have no length" in got.said
    assert got.fact("backwards") == "2"
    assert got.fact("zero_length") == "1"


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, zstandard.ZstdCompressor().compress])
def test_compressed_files_read_as_they_are(bring, pack):
    text = PRESETS["msr"][0].encode()
    # two frames, as parallel compressors and cat make them
    packed = pack(text[: text.index(b"\n") + 1]) + pack(text[text.index(b"\n") + 1 :])
    got = bring(packed, name="whatever.bin")
    assert got.rows(ROWS) == PRESETS["msr"][1]


def test_a_cut_compressed_file_is_refused(bring, tmp_path):
    packed = gzip.compress(b"t_s,offset,size,op\n" + b"".join(b"%d,0,512,r\n" % n for n in range(100_000)))
    with pytest.raises(TraceError, match="its gzip data is broken or cut off"):
        bring("csv", packed[: len(packed) // 2])
    assert [path.name for path in tmp_path.iterdir()] == ["trace"]


@pytest.mark.parametrize(
    ("map", "says"),
    [
        ("ts=1", "no column for pos"),
        ("ts=0,pos=1,length=2,op=3", "columns are counted from 1"),
        ("ts=1,what=2", "there is no key 'what'"),
        ("nonsense", "neither key=value nor a preset"),
        ("ts=1,unit=fortnight", "expected one of"),
        ("ts=1,pos=2,length=3,op=9", "op would be column 9"),
        ("ts=when,pos=2,length=3,op=4", "no column 'when' for ts"),
    ],
)
def test_maps_that_make_no_sense(bring, map, says):
    with pytest.raises((UsageError, TraceError), match=says):
        bring("csv", "1,2,512,r\n3,4,512,w\n", map=map)


requests = st.lists(
    st.tuples(
        st.integers(0, 10**12), st.sampled_from("rw"), st.integers(0, 2**40), st.integers(0, 2**20), st.integers(0, 10**9),
        st.sampled_from(["sda", "sdb"]),
    ),
    min_size=1, max_size=50,
)  # fmt: skip


@settings(max_examples=25, deadline=None)
@given(requests, st.sampled_from([",", ";", "\t", "|"]))
def test_any_table_comes_back(tmp_path_factory, rows, sep):
    """What is written as text is in the trail, whatever the separator."""
    import io

    from iotrail.importers import command
    from iotrail.importers.base import Options
    from iotrail.terminal import Console
    from iotrail.trail import Trail

    folder = tmp_path_factory.mktemp("any")
    text = sep.join(["ts_ns", "op", "offset", "size", "latency_ns", "device"]) + "\n"
    text += "".join(sep.join(map(str, row)) + "\n" for row in rows)
    (folder / "t.csv").write_text(text)
    trail = command.run(
        [folder / "t.csv"],
        folder / "t.trail",
        force=False,
        options=Options(),
        console=Console(file=io.StringIO()),
    )
    found = Trail(trail).query(
        "SELECT ts - 946684800000000000, call, pos, length, dur, path FROM file_op JOIN file USING (node, file)"
    )
    calls = {"r": "pread", "w": "pwrite"}
    assert sorted(found.fetchall()) == sorted(
        (t, calls[o], p, n, d, f"/dev/{dev}") for t, o, p, n, d, dev in rows
    )


def test_each_preset_parses():
    for text, _ in importer.PRESETS.values():
        assert {"pos", "length", "op"} <= importer.parse_map(text).columns.keys()


def test_requests_alone_say_nothing_of_computing(bring):
    """2,000 requests of a microsecond each, a millisecond apart: nobody knows what was between them."""
    lines = "".join(f"{i}000000,{i}0240,512,r,1000\n" for i in range(2000))
    got = bring("t_ns,offset,size,op,latency_ns\n" + lines)
    assert got.one("SELECT count(*) FROM op WHERE dur = 1000") == 2000
    assert got.one("SELECT count(*) FROM unseen WHERE kind = 'between_requests'") == 1
    assert got.one("SELECT count(*) FROM finding_storage_idle") == 0


def test_millions_of_short_lines_take_little_memory(tmp_path):
    """A block of lines that are no requests is cut into parts: what is noted of each line is more than the line."""
    trace = tmp_path / "t.csv"
    trace.write_text("ts_ns,op,offset,size\n1,R,0,4096\n" + "\n" * 4_000_000 + "2,R,0,4096\n")
    limit = 1 << 30
    done = subprocess.run(
        [sys.executable, "-m", "iotrail", "import", "csv", trace, "-o", tmp_path / "t.trail"],
        capture_output=True,
        text=True,
        check=False,
        # DuckDB reserves more than it uses
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (limit, limit)),
    )
    assert done.returncode == 0, done.stderr
    assert "2 operations" in done.stderr

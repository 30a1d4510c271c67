"""Real traces of others, each imported with exactly the counts counted in it by other means (wc, awk, blkparse)."""

import pytest

# file, options, format guessed, lines or records, file_op rows, a few sums (query: value)
BLOCK = [
    ("block/disksim-atlas10k.trace", "disksim-validate", 10_000, 10_000, {"SELECT min(dur) > 0 FROM file_op": True}),
    ("block/disksim-hp_c3323a.trace", "disksim-validate", 9_074, 9_074, {"SELECT min(dur) > 0 FROM file_op": True}),
    ("block/mqsim-wsrch-small.trace", "mqsim", 24_783, 24_783, {"SELECT count(DISTINCT file) FROM file_op": 6}),
    ("block/msr-cut-rw_20_80.105.trace", "msr-cut", 10_000, 10_000, {"SELECT max(ts) - min(ts) FROM file_op": 242_904_693_000}),
    ("block/ycsb-a-rocksdb-xfs-optane.csv.gz", "csv", 64_420, 64_420, {"SELECT min(dur) > 0 FROM file_op WHERE length > 0": True}),
    ("block/hplajw-1week.srt", "srt", 44_519, 44_519, {"SELECT count(DISTINCT file) FROM file_op": 2}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "format", "read", "rows", "sums"), BLOCK, ids=[case[0] for case in BLOCK])
def test_block_traces(bring, shared, name, format, read, rows, sums):
    got = bring(shared(name))
    assert f"looks like {format}" in got.said
    assert got.one("SELECT count(*) FROM file_op") == rows
    assert got.fact("lines" if format != "srt" else "records") == str(read)
    assert got.fact("skipped") == "0"
    for query, value in sums.items():
        assert got.one(query) == value


def test_disksim_columns(bring, shared):
    got = bring(shared("block/disksim-atlas10k.trace"))
    # its first lines: W Hit 4583176 4 663 45422; W Hit 4583180 4 607 34200
    assert got.rows(
        "SELECT ts - first_value(ts) OVER (ORDER BY ts), call, pos, length, dur FROM file_op ORDER BY ts LIMIT 3"
    ) == [
        (0, "pwrite", 4583176 * 512, 2048, 663_000),
        (45_422_000, "pwrite", 4583180 * 512, 2048, 607_000),
        (45_422_000 + 34_200_000, "pread", 3962268 * 512, 12 * 512, 6_657_000),
    ]


def test_srt_begins_when_its_header_says(bring, shared):
    got = bring(shared("block/hplajw-1week.srt"))
    # record 1: queued at 0 s 0 µs, done 0x4ce7 µs later, 0x1000 bytes at sector 0x420 of 256 bytes, disk 1
    first = got.rows(
        "SELECT ts, dur, length, pos, path FROM file_op JOIN file USING (node, file) ORDER BY ts LIMIT 1"
    )
    assert first == [(707_184_186 * 10**9, 0x4CE7 * 1000, 0x1000, 0x420 * 256, "/dev/disk1")]
    # a week
    assert 6.9 < got.one("SELECT (max(ts) - min(ts)) / 86400e9 FROM file_op") < 7.1


def test_blkparse_of_an_nvme(bring, shared):
    got = bring(shared("blktrace/evelii-nvme-java-blkparse.txt"))
    assert got.fact("lines") == "10000"
    assert got.fact("completions") == "1694"
    assert got.one("SELECT count(*) FROM file_op") == 1695
    assert "1 request never completes" in got.said
    # queued at 0, first
    assert got.rows("SELECT pos, length, result FROM file_op ORDER BY ts LIMIT 1") == [
        (282624 * 512, 4096, 4096)
    ]
    assert got.rows("SELECT DISTINCT name FROM process") == [("java",)]


def test_binaries_and_blkparse_agree(bring, shared):
    binary = bring(shared("blktrace/keks"))
    text = bring(shared("blktrace/keks/keks-blkparse.txt"))
    for got in (binary, text):
        assert got.one("SELECT count(*) FROM file_op WHERE result IS NOT NULL") == 1206
        assert got.fact("completions") == "1206"
        # all but the second halves of 24 flushes, which were issued once and complete twice
        assert got.fact("completions_with_start") == "1182"
    query = """SELECT ts - min(ts) OVER (), dur, call, pos, length, result, errno FROM file_op
        ORDER BY ALL"""
    assert binary.rows(query) == text.rows(query)
    # blkparse's own total: writes and discards completed, 12960 KiB
    assert binary.one("SELECT sum(length) FROM file_op") == 12960 * 1024
    assert binary.rows("SELECT call, count(*) FROM file_op GROUP BY 1 ORDER BY 1") == [
        ("fallocate", 5), ("fdatasync", 48), ("pwrite", 1153),
    ]  # fmt: skip
    assert binary.fact("time_base") == "absolute"
    assert text.fact("time_base") == "relative"


def test_one_of_the_binaries_stands_for_all(bring, shared):
    whole = bring(shared("blktrace/keks"))
    one = bring(shared("blktrace/keks/keks.blktrace.3"))
    assert one.fact("events") == whole.fact("events") == "2589"


STRACE = [
    ("strace/self-sqlite-wal.strace", 11_035, {"pwrite64": 493, "fdatasync": 60, "pread64": 160}),
    ("strace/self-fio-psync-3thr.strace", 6_178, {"pwrite64": 459, "pread64": 599}),
    ("strace/arastoob-multithread.log", 2_105, {}),
    ("strace/dberlin-ls.txt", 84, {}),
]


@pytest.mark.parametrize(("name", "lines", "calls"), STRACE, ids=[case[0] for case in STRACE])
def test_strace(bring, shared, name, lines, calls):
    path = shared(name)
    got = bring(path)
    assert got.fact("lines") == str(lines)
    assert got.fact("skipped") == "0", got.said
    text = path.read_text()
    for call, count in calls.items():
        assert text.count(f" {call}(") == count
        name = call.removesuffix("64")
        assert got.one(f"SELECT count(*) FROM file_op WHERE call = '{name}' AND dur IS NOT NULL") == count
    assert got.one("SELECT count(*) FROM file_op WHERE dur < 0") == 0
    assert got.fact("unfinished") == "0"


def test_strace_knows_threads_and_files(bring, shared):
    fio = bring(shared("strace/self-fio-psync-3thr.strace"))
    # three jobs, each of its file
    assert fio.rows(
        """SELECT path, count(DISTINCT thread), bool_and(pos IS NOT NULL) FROM file_op JOIN file USING (node, file)
        WHERE call IN ('pread', 'pwrite') AND path LIKE '/srv/job/%' GROUP BY 1 ORDER BY 1"""
    ) == [("/srv/job/a.0.0", 1, True), ("/srv/job/b.0.0", 1, True), ("/srv/job/c.0.0", 1, True)]
    rust = bring(shared("strace/arastoob-multithread.log"))
    assert rust.one("SELECT count(DISTINCT tid) FROM thread") == 12
    assert rust.fact("time_base") == "relative"
    assert "no times" in rust.said

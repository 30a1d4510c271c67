"""blktrace's binaries and blkparse's text: which events make a request."""

import random
import struct

import pytest

from .blktrace_writer import DISCARD, MAGIC, PC, READ, WRITE, C, D, F, M, Q, R, X, event, process, wall_clock

ROWS = "SELECT ts - 946684800000000000, dur, call, pos // 512, length, result, errno FROM file_op ORDER BY ts, pos"


@pytest.mark.parametrize("order", ["<", ">"])
def test_both_byte_orders(bring, order):
    data = (
        process(10, "app", order)
        + wall_clock(500, 1_700_000_000, 7, order)
        + event(1000, Q, 8, 4096, READ, order=order)
        + event(2000, D, 8, 4096, READ, pid=3, order=order)
        + event(9000, C, 8, 4096, READ, pid=0, order=order)
    )
    got = bring(data, name="sda.blktrace.0")
    assert "looks like blktrace" in got.said
    assert got.rows("SELECT ts, dur, call, pos, length, result FROM file_op") == [
        (1_700_000_000_000_000_007 + 500, 8000, "pread", 4096, 4096, 4096)
    ]
    assert got.rows("SELECT name, pid FROM process") == [("app", 10)]
    assert got.rows("SELECT path FROM file") == [("/dev/block/8:16",)]
    assert got.fact("time_base") == "absolute"


def test_what_makes_a_request(bring):
    one, two = 4096, 8192
    events = [
        # a back merge: two bios, one request
        event(0, Q, 0, one), event(1, M, 8, one), event(0, Q, 8, one), event(5, D, 0, two), event(9, C, 0, two),
        # a front merge: the later bio lies in front
        event(100, Q, 108, one, WRITE), event(110, Q, 100, one, WRITE), event(111, F, 100, one, WRITE),
        event(120, D, 100, two, WRITE), event(190, C, 100, two, WRITE),
        # a split: the second half begins at 216
        event(200, Q, 200, 2 * two), event(201, X, 200, 2 * two, pdu=struct.pack(">Q", 216)),
        event(210, D, 200, two), event(211, D, 216, two), event(250, C, 216, two), event(260, C, 200, two),
        # requeued and issued again
        event(300, Q, 300, one), event(301, D, 300, one), event(302, R, 300, one), event(303, D, 300, one), event(309, C, 300, one),
        # the same place twice at once, and later again
        event(400, Q, 400, one), event(401, Q, 400, one), event(410, C, 400, one), event(415, C, 400, one),
        event(420, Q, 400, one), event(421, C, 400, one),
        # a discard, a flush, a failure
        event(500, Q, 500, one, WRITE | DISCARD), event(505, C, 500, one, WRITE | DISCARD),
        event(510, D, 77, 0, WRITE), event(512, C, 0, 0, WRITE),
        event(520, Q, 520, one), event(525, C, 520, one, error=-5),
        # commands aren't requests for sectors
        event(530, Q, 530, one, READ | PC), event(531, C, 530, one, READ | PC),
        # begun before the trace; never done
        event(600, C, 600, one), event(700, Q, 700, one, WRITE),
    ]  # fmt: skip
    got = bring(b"".join(events), name="sda.blktrace.0")
    assert got.rows(ROWS) == [
        (0, 9, "pread", 0, two, two, 0),
        (110, 80, "pwrite", 100, two, two, 0),
        (200, 60, "pread", 200, two, two, 0),
        (201, 49, "pread", 216, two, two, 0),
        (300, 9, "pread", 300, one, one, 0),
        (400, 10, "pread", 400, one, one, 0),
        (401, 14, "pread", 400, one, one, 0),
        (420, 1, "pread", 400, one, one, 0),
        (500, 5, "fallocate", 500, one, 0, 0),
        (510, 2, "fdatasync", None, None, 0, 0),
        (520, 5, "pread", 520, one, -1, 5),
        (600, None, "pread", 600, one, one, 0),
        (700, None, "pwrite", 700, one, None, 0),
    ]
    assert got.one("SELECT flags FROM file_op WHERE call = 'fallocate'") == 3
    assert got.fact("merged") == "2"
    assert "1 request never completes" in got.said
    assert "1 of 12 completions have no start" in got.said


def test_a_lost_completion_costs_one_request_and_not_the_time_of_the_next(bring):
    """A trace of issues and completions only, as `perf record -e block:block_rq_issue,block:block_rq_complete` makes it."""
    one = 4096
    events = [
        # its completion is lost; long after, the same place again
        event(0, D, 0, one), event(5_000_000, D, 0, one), event(5_000_007, C, 0, one),
        # two requests for one place at once, all of which was traced
        event(100, D, 80, one), event(105, D, 80, one), event(112, C, 80, one), event(118, C, 80, one),
        # requeued, which was traced
        event(200, D, 160, one), event(201, R, 160, one), event(250, D, 160, one), event(259, C, 160, one),
        # issued before the trace began, then requeued
        event(300, R, 240, one), event(310, D, 240, one), event(318, C, 240, one),
        # the last one is lost too
        event(400, D, 320, one), event(900, D, 320, one),
    ]  # fmt: skip
    got = bring(b"".join(sorted(events, key=lambda e: struct.unpack_from("<Q", e, 8))), name="sda.blktrace.0")
    assert got.rows("SELECT ts - 946684800000000000, dur, pos // 512 FROM file_op ORDER BY pos, ts") == [
        (5_000_000, 7, 0),
        (100, 12, 80),
        (105, 13, 80),
        (200, 59, 160),
        (310, 8, 240),
        (900, None, 320),
    ]
    assert (
        got.fact("issued_twice") == "2"
        and "2 issues are followed by another one at the same place" in got.said
    )


def test_files_of_cpus_are_merged_in_time(bring, tmp_path):
    """A request queued on one CPU and completed on another, in pieces smaller than the files."""
    random_ = random.Random(3)
    cpus = [[], [], []]
    for number in range(3000):
        begin = number * 100
        random_.choice(cpus).append((begin, event(begin, Q, number % 50 * 8, 512)))
        random_.choice(cpus).append((begin + 60, event(begin + 60, C, number % 50 * 8, 512)))
    for cpu, events in enumerate(cpus):
        (tmp_path / f"sdb.blktrace.{cpu}").write_bytes(b"".join(data for _, data in sorted(events)))
    (tmp_path / "sdb.blktrace.3").write_bytes(b"")
    for word in (tmp_path, tmp_path / "sdb.blktrace.1"):
        got = bring("blktrace", word)
        assert got.rows("SELECT count(*), min(dur), max(dur), max(ts) - min(ts) FROM file_op") == [
            (3000, 60, 60, 299_900)
        ]
        assert got.fact("completions_with_start") == "3000"
        (tmp_path / f"{got.path.name}").rename(tmp_path.parent / f"{tmp_path.name}-{got.path.name}")


def test_pieces_join_over_blocks(bring, monkeypatch):
    from iotrail.importers import source

    events = b"".join(event(n * 10, Q, n * 8, 512) + event(n * 10 + 5, C, n * 8, 512) for n in range(500))
    late = event(0, Q, 99999, 512) + events + event(6000, C, 99999, 512)
    monkeypatch.setattr(source.Source.blocks, "__defaults__", (1000,))
    got = bring(late, name="sda.blktrace.0")
    assert got.rows("SELECT count(*), max(dur) FROM file_op") == [(501, 6000)]


@pytest.mark.parametrize("plain", [0, 31, 32, 33, 1055, 1056, 1057, 5000])
def test_records_with_and_without_data_behind(bring, plain):
    """However many records without data lie between those with some, each is found, and a cut last one too."""
    events = [event(n * 10 + n % 2 * 5, (Q, C)[n % 2], n // 2 * 8, 512) for n in range(2 * (plain // 2))]
    odd = [event(10**6, Q, 10**6, 512)] * (plain % 2)
    between = process(10, "a") + b"".join(events + odd) + process(11, "b") * 2
    got = bring(
        between + between + event(10**7, Q, 1 << 30, 512) + event(10**7 + 1, C, 1 << 30, 512)[:20],
        name="sda.blktrace.0",
    )
    assert got.fact("events") == str(2 * (plain + 3) + 1)
    assert got.one("SELECT count(*) FROM file_op WHERE dur = 15") == 2 * (plain // 2)
    assert "the last record has 20 of 48 bytes" in got.said


def test_a_cut_binary_is_read_as_far_as_it_goes(bring):
    whole = event(1, Q, 8, 512) + event(2, C, 8, 512)
    got = bring(whole + event(3, Q, 16, 512)[:20], name="sda.blktrace.0")
    assert got.one("SELECT count(*) FROM file_op") == 1
    assert "cut off at byte 96: the last record has 20 of 48 bytes" in got.said
    # within the data behind a record
    got = bring(whole + event(3, X, 16, 512, pdu=bytes(8))[:50], name="sdb.blktrace.0")
    assert "cut off at byte 96: the last record has 50 of 56 bytes" in got.said


def test_garbage_in_the_middle_is_said(bring):
    whole = event(1, Q, 8, 512) + event(2, C, 8, 512)
    got = bring(whole + b"\xff" * 96 + whole, name="sda.blktrace.0")
    assert got.one("SELECT count(*) FROM file_op") == 1
    assert f"byte 96: expected magic {MAGIC & ~0xFF:#x}, found 0xffffffff" in got.said


def test_cgroups_ids_are_passed_over(bring):
    got = bring(
        event(1, Q, 8, 4096, cgroup=True)
        + event(2, X, 8, 4096, pdu=struct.pack(">Q", 12), cgroup=True)
        + event(3, C, 8, 2048, cgroup=True)
        + event(4, C, 12, 2048, cgroup=True),
        name="sda.blktrace.0",
    )
    assert got.rows(ROWS) == [(0, 2, "pread", 8, 2048, 2048, 0), (1, 2, "pread", 12, 2048, 2048, 0)]


TEXT = """\
  8,0    3        1     0.000000000   697  Q   W 223490 + 8 [kjournald]
  8,0    3        2     0.000001829   697  G   W 223490 + 8 [kjournald]
  8,0    3        3     0.000002197   697  P   N [kjournald]
  8,0    3        4     0.000003000   697  U   N [kjournald] 1
  8,0    3        5     0.000005000   697  D   W 223490 + 8 [kjournald]
  8,0    1        6     0.000500000     0  C   W 223490 + 8 [0]
  8,0    3        7     0.001000000   701  Q FWS [sync me]
  8,0    1        8     0.001100000     0  C FWS 0 [0]
  8,0    3        9     0.002000000   697  Q   R 100 + 16 [kjournald]
  8,0    3       10     0.002000500   697  X   R 100 / 108 [kjournald]
  8,0    1       11     0.003000000     0  C   R 100 + 8 [0]
  8,0    1       12     0.003100000     0  C   R 108 + 8 [65531]
  8,0    0        0     0.004000000     0  m   N cfq workload slice:100
CPU0 (sda):
 Reads Queued:           1,        8KiB\t Writes Queued:           1,        4KiB

Total (sda):
 Reads Queued:           1,        8KiB\t Writes Queued:           1,        4KiB
Throughput (R/W): 0KiB/s / 0KiB/s
Events (sda): 13 entries
Skips: 0 forward (0 -   0.0%)
"""


def test_blkparse(bring):
    got = bring(TEXT)
    assert "looks like blkparse" in got.said
    assert got.fact("skipped") == "0", got.said
    assert got.rows(ROWS) == [
        (0, 500_000, "pwrite", 223490, 4096, 4096, 0),
        (1_000_000, 100_000, "fdatasync", None, None, 0, 0),
        (2_000_000, 1_000_000, "pread", 100, 4096, 4096, 0),
        (2_000_500, 1_099_500, "pread", 108, 4096, -1, 5),
    ]
    assert got.rows("SELECT pid, name FROM process ORDER BY pid") == [(697, "kjournald"), (701, "sync me")]


def test_bad_lines_of_blkparse(bring):
    lines = TEXT.splitlines(keepends=True)
    lines.insert(2, "  8,0    3        2     garbage   697  Q   W 1 + 8 [x]\n")
    got = bring("".join(lines))
    assert got.fact("skipped") == "1"
    assert "trace:3: not understood: '  8,0    3        2     garbage" in got.said

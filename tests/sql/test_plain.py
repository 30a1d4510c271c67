"""Modules whose SQL is cut for speed, against the plain Python of what they say, on random trails."""

import random
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from iotrail.trail import Trail

from .tiny import ingest, write_trail

PAGE = 4096


def operations(drawn: random.Random, n: int, pages: int, most: int) -> list[tuple[str, int, int, int]]:
    """Reads and writes as (call, file, pos, length): some pages are used far more often than others."""
    made = []
    for _ in range(n):
        page = int(pages * drawn.random() ** 3)
        length = PAGE * drawn.randint(1, most)
        made.append((drawn.choice(["pread"] * 4 + ["pwrite"]), drawn.randint(1, 2), page * PAGE, length))
    return made


def trail_of(native: Path, folder: Path, **columns: Sequence[object]) -> Trail:
    """A trail whose `file_op` has these columns, and defaults for the others."""
    n = len(next(iter(columns.values())))
    given: dict[str, Sequence[object]] = {
        "ts": range(1000, 1000 + 10 * n, 10),
        "dur": [5] * n,
        "node": ["n"] * n,
        "thread": [1] * n,
        "crumb": [0] * n,
        "call": ["pread"] * n,
        "errno": [0] * n,
        "calls": [1] * n,
        **columns,
    }
    table = pa.table(
        {k: pa.array(v, pa.string() if k in ("node", "call") else pa.int64()) for k, v in given.items()}
    )
    threads = sorted(set(given["thread"]))
    lives = pa.table(
        {
            "node": pa.array(["n"] * len(threads)),
            "thread": pa.array(threads, pa.int64()),
            "process": pa.array([1] * len(threads), pa.int64()),
            "pid": pa.array([1] * len(threads), pa.int64()),
            "tid": pa.array(threads, pa.int64()),
            "start_ts": pa.array([0] * len(threads), pa.int64()),
        }
    )
    return Trail(ingest(native, {"file_op": table, "thread": lives}, folder / "made.trail"))


def trail_of_moves(native: Path, folder: Path, made: list[tuple[str, int, int, int]]) -> Trail:
    calls, files, pos, length = zip(*made, strict=True)
    return trail_of(native, folder, call=calls, file=files, pos=pos, length=length, result=length)


def pages_of(made: list[tuple[str, int, int, int]]) -> list[tuple[bool, int]]:
    """Each use of a page: whether it is read, and a number of its own."""
    return [
        (call == "pread", file << 40 | page)
        for call, file, pos, length in made
        for page in range(pos // PAGE, (pos + length) // PAGE)
    ]


def lru(uses: list[tuple[bool, int]], capacity: int) -> float:
    """The share of page reads that an LRU cache serves."""
    held: OrderedDict[int, None] = OrderedDict()
    hits = 0
    for is_read, page in uses:
        if page in held:
            hits += is_read
            held.move_to_end(page)
        else:
            held[page] = None
            if len(held) > capacity:
                held.popitem(last=False)
    return hits / sum(is_read for is_read, _ in uses)


@pytest.mark.parametrize(
    ("n", "pages", "most"),
    [(20_000, 2_000, 1), (20_000, 4_000, 16), (400_000, 30_000, 8)],
    ids=["pages", "runs", "sampled"],
)
def test_share_is_that_of_an_lru_cache(native: Path, tmp_path: Path, n: int, pages: int, most: int) -> None:
    made = operations(random.Random(7), n, pages, most)
    rows = trail_of_moves(native, tmp_path, made).rows_of("SELECT size, hit_share FROM cache ORDER BY size")
    uses = pages_of(made)
    assert len(rows) >= 5
    for row in rows[:: max(1, len(rows) // 4)]:
        assert row["hit_share"] == pytest.approx(lru(uses, row["size"] // PAGE), abs=0.03), row["size"]
    # the last size serves what an unlimited cache would
    assert rows[-1]["hit_share"] == pytest.approx(lru(uses, 1 << 40), abs=0.01)


def test_footprint_is_the_union_of_ranges(native: Path, tmp_path: Path) -> None:
    """Ranges of any length, across the 4 MiB slices they are cut into."""
    drawn = random.Random(3)
    made = [
        (
            drawn.choice(["pread", "pwrite"]),
            drawn.randint(1, 2),
            drawn.randint(0, 40 << 20),
            drawn.randint(1, 10 << 20),
        )
        for _ in range(40)
    ]
    found = trail_of_moves(native, tmp_path, made).rows_of(
        "SELECT file, kind, bytes, distinct_bytes FROM footprint"
    )
    assert len(found) == 4
    for row in found:
        call = "pread" if row["kind"] == "read" else "pwrite"
        ranges = sorted((pos, pos + length) for c, f, pos, length in made if (c, f) == (call, row["file"]))
        distinct = reached = 0
        for begin, end in ranges:
            distinct += max(0, end - max(begin, reached))
            reached = max(reached, end)
        assert (row["bytes"], row["distinct_bytes"]) == (sum(e - b for b, e in ranges), distinct)


def test_busy_counts_time_once(native: Path, tmp_path: Path) -> None:
    """Calls within calls within calls, in any order of length: what is covered by an earlier call adds nothing."""
    drawn = random.Random(5)
    n = 6_000  # six slices
    rows = []
    for thread in (1, 2):
        starts = sorted(drawn.sample(range(1_000_000), n // 2))
        for ts in starts:
            # most are short, some hold others, a few reach over several slices
            rows.append((thread, ts, drawn.choice([20] * 20 + [400] * 4 + [9_000, 450_000])))
    thread, ts, dur = zip(*rows, strict=True)
    trail = trail_of(native, tmp_path, thread=thread, ts=ts, dur=dur)
    made = trail.rows_of("SELECT thread, since_ts, until_ts FROM busy ORDER BY thread, since_ts")
    expected = []
    for one in (1, 2):
        reached = 0
        for _, begin, length in sorted(
            (row for row in rows if row[0] == one), key=lambda row: (row[1], -row[2])
        ):
            if begin + length > reached:
                expected.append((one, max(begin, reached), begin + length))
                reached = begin + length
    assert [tuple(row.values()) for row in made] == expected


def test_queue_depth_is_the_number_in_flight(native: Path, tmp_path: Path) -> None:
    drawn = random.Random(6)
    rows = [
        (drawn.choice(["pread", "pwrite", "fsync", "stat"]), drawn.randint(0, 2_000), drawn.randint(1, 90))
        for _ in range(3_000)
    ]
    call, ts, dur = zip(*sorted(rows, key=lambda row: row[1]), strict=True)
    trail = trail_of(native, tmp_path, call=call, ts=ts, dur=dur, thread=range(3_000))
    trail.set_params({"every_ns": 100})
    made = trail.rows_of(
        "SELECT ts, most, most_reads, most_writes, most_flushes FROM queue_depth ORDER BY ts"
    )
    assert len(made) >= 20
    for row in made:
        for column, wanted in (
            ("most", None),
            ("most_reads", "pread"),
            ("most_writes", "pwrite"),
            ("most_flushes", "fsync"),
        ):
            flying = [
                sum(
                    begin <= instant < begin + length
                    for name, begin, length in rows
                    if wanted in (None, name)
                )
                for instant in range(row["ts"], row["ts"] + 100)
            ]
            assert row[column] == max(flying), (row["ts"], column)


def test_working_set_of_many_blocks_is_estimated(native: Path, tmp_path: Path) -> None:
    """Of more than 4 million uses one block in some is followed, and says so; bytes are off by little."""
    drawn = random.Random(8)
    n, length = 2_000, 4096 * PAGE
    made = [(i, PAGE * drawn.randint(0, 1 << 19), drawn.choice(["pread", "pwrite"])) for i in range(n)]
    requests = pa.table(
        {
            "ts": pa.array([1_000_000 + i for i, _, _ in made], pa.int64()),
            "node": ["t"] * n,
            "thread": pa.array([1] * n, pa.int64()),
            "crumb": pa.array([0] * n, pa.int64()),
            "call": [call for _, _, call in made],
            "file": pa.array([7] * n, pa.int64()),
            "pos": pa.array([pos for _, pos, _ in made], pa.int64()),
            "length": pa.array([length] * n, pa.int64()),
            "result": pa.array([length] * n, pa.int64()),
            "errno": pa.array([0] * n, pa.int64()),
            "calls": pa.array([1] * n, pa.int64()),
        }
    )
    unseen = pa.table(
        {"node": ["t"], "kind": ["between_requests"], "amount": pa.array([1], pa.int64()), "detail": [None]},
        schema=pa.schema(
            [("node", pa.string()), ("kind", pa.string()), ("amount", pa.int64()), ("detail", pa.string())]
        ),
    )
    trail = Trail(ingest(native, {"file_op": requests, "unseen": unseen}, tmp_path / "made.trail"))
    found = trail.rows_of("""
        SELECT kind, MAX(followed) AS followed, SUM(bytes) FILTER (WHERE before_ts IS NULL) AS bytes
        FROM working_set GROUP BY kind""")
    assert len(found) == 3
    for row in found:
        calls = {"all": ("pread", "pwrite"), "read": ("pread",), "write": ("pwrite",)}[row["kind"]]
        union = reached = 0
        for pos in sorted(pos for _, pos, call in made if call in calls):
            union += max(0, pos + length - max(pos, reached))
            reached = pos + length
        assert row["followed"] == 3
        assert row["bytes"] == pytest.approx(union, rel=0.001)


@pytest.mark.parametrize("seed", range(3))
def test_computing_is_what_the_clock_said_whatever_the_width_of_buckets(
    native: Path, tmp_path: Path, seed: int
) -> None:
    """A thread that computes in some stretches between its calls and is away in others; it reads its clock now and then."""
    drawn = random.Random(seed)
    end = 10_000_000
    calls, rows, computed = [], [], 0
    now = row = outside = away = 0
    while now < end:
        gap = min(drawn.randint(1, 20_000), end - now)
        now += gap
        on = gap if drawn.random() < 0.3 else gap // 10
        outside, away = outside + on, away + gap - on
        dur = min(drawn.randint(1, 40_000), end - now)
        calls.append(f"1,{now},{dur},pread,1,0,1,1,0")
        now += dur
        if now - row > 700_000 or now >= end:
            rows.append(f"1,{row},{now - row},thread,{outside},{outside},0,0,{away},0,0,0,1")
            computed += outside
            row, outside, away = now, 0, 0
    for name, header, lines in (
        (
            "process",
            "process,pid,name,start_ts,end_ts,ended,status,exe,cmd",
            [f"1,1,app,0,{end},exit,0,/app,app"],
        ),
        ("thread", "thread,process,pid,tid,start_ts,end_ts", [f"1,1,1,1,0,{end}"]),
        ("file_op", "thread,ts,dur,call,file,pos,length,result,errno", calls),
        (
            "thread_time",
            "thread,ts,dur,source,cpu_ns,outside_ns,io_cpu_ns,wait_cpu_ns,away_ns,minor_faults,major_faults,queued_ns,"
            "voluntary_switches",
            rows,
        ),
    ):
        (tmp_path / f"{name}.csv").write_text("\n".join((header, *lines)) + "\n")
    path = write_trail(native, tmp_path, tmp_path)
    for width in (50_000, 500_000, 5_000_000):
        trail = Trail(path)
        trail.set_params({"every_ns": width})
        [split] = trail.rows_of("SELECT * FROM time_split")
        assert split["compute_ns"] == pytest.approx(computed, abs=end // width + 1), width
        assert split["life_ns"] == end

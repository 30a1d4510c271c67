"""No module's arithmetic leaves 64 bits because of one row, however large its numbers: those beyond a trail doesn't
take."""

import subprocess
from pathlib import Path

import pyarrow as pa
import pytest

from iotrail import modules, schema
from iotrail.trail import Trail

from .tiny import ingest, write_trail

HERE = Path(__file__).parent
TRAILS = sorted({path.parent for path in HERE.glob("*/*.csv")})
MOST = 2**63 - 1
# crates/trail/src/columns.rs
LATEST, LONGEST = 7_258_118_400 * 10**9, 10**18
TIMES = ("ts", "start_ts", "end_ts", "wall", "issued", "pruned_ts")
CALLS = ("file_op", "sync_op")

Row = dict[str, int | str | None]


def latest_and_longest(table: str, row: Row) -> Row:
    """At the end of all times."""
    return dict.fromkeys(TIMES, LATEST) | {"dur": LONGEST}


def at_the_end_of_a_file(table: str, row: Row) -> Row:
    """As far behind as a file can be (tmpfs has such)."""
    moved = max(int(row.get(name) or 0) for name in ("length", "result"))
    return {"pos": MOST - max(moved, 0)}


def asks_for_all(table: str, row: Row) -> Row:
    """A length of SSIZE_MAX, as cp(1) gives copy_file_range."""
    return {"length": MOST} if table in CALLS else {}


def moves_much(table: str, row: Row) -> Row:
    """8 PiB."""
    if table in CALLS:
        return {"result": 1 << 53} if int(row["result"] or 0) > 0 else {}
    return {"length": 1 << 53}


EXTREMES = (latest_and_longest, at_the_end_of_a_file, asks_for_all, moves_much)


@pytest.mark.parametrize("folder", TRAILS, ids=lambda path: str(path.name))
def test_one_row(native: Path, tmp_path: Path, folder: Path) -> None:
    """Every module answers a trail to each of whose tables one row of each kind was added."""

    def add(table: str, rows: pa.Table) -> pa.Table:
        if not rows.num_rows:
            return rows
        [last] = rows.slice(rows.num_rows - 1).to_pylist()
        known = {name for name, value in last.items() if value is not None}
        changes = [{k: v for k, v in extreme(table, last).items() if k in known} for extreme in EXTREMES]
        return pa.concat_tables(
            [rows, pa.Table.from_pylist([last | change for change in changes], rows.schema)]
        )

    trail = Trail(write_trail(native, folder, tmp_path, add))
    # all_findings asks each of them
    for name in modules.load():
        if not name.startswith(modules.FOLDERS["finding"]):
            trail.query(f"SELECT * FROM {name}").fetchall()


@pytest.mark.parametrize(
    ("column", "value", "expected"),
    [
        ("dur", LONGEST + 1, f"0 to {LONGEST} ns, found {LONGEST + 1}"),
        ("dur", -1, f"0 to {LONGEST} ns, found -1"),
        ("ts", LATEST + 1, f"0 to {LATEST} ns, found {LATEST + 1}"),
        ("ts", -MOST, f"0 to {LATEST} ns, found {-MOST}"),
    ],
)
def test_beyond(native: Path, tmp_path: Path, column: str, value: int, expected: str) -> None:
    """What no trail takes: `ingest` says where it is, and leaves nothing."""
    row = {"node": "n", "thread": 1, "crumb": 0, "call": "read", "errno": 0, "calls": 1, "ts": 5, "dur": 7}
    names = {column.name for column in schema.load().tables["file_op"].columns}
    assert set(row) <= names
    rows = pa.Table.from_pylist([row, row | {column: value}])
    with pytest.raises(subprocess.CalledProcessError):
        ingest(native, {"file_op": rows}, tmp_path / "x.trail")
    stream = f"file_op={tmp_path / 'file_op.arrow'}"
    again = subprocess.run(
        [native, "ingest", "-o", tmp_path / "x.trail", stream], capture_output=True, text=True
    )
    assert f'table file_op: column "{column}" of row 1: expected {expected}' in again.stderr
    assert again.returncode == 1
    assert not (tmp_path / "x.trail").exists()


def test_buckets_of_long_trails(native: Path, tmp_path: Path) -> None:
    """Time is cut into at most 200 buckets, of which the last has the end, however long it is."""
    row = {"node": "n", "thread": 1, "crumb": 0, "call": "read", "errno": 0, "calls": 1, "ts": 3, "dur": 0}
    for end in [*(10**k for k in range(1, 19, 3)), 3 * 10**17, 10**18, 2 * 10**18, LATEST]:
        rows = pa.Table.from_pylist([row, row | {"ts": end}])
        trail = Trail(ingest(native, {"file_op": rows}, tmp_path / f"{end}.trail"))
        buckets = trail.query("SELECT ts, every_ns FROM time_bucket ORDER BY ts").fetchall()
        [width] = {every for _, every in buckets}
        assert buckets[0][0] == 3 - 3 % width
        assert [ts - buckets[0][0] for ts, _ in buckets] == [i * width for i in range(len(buckets))]
        assert buckets[-1][0] <= end < buckets[-1][0] + width
        assert len(buckets) <= 200

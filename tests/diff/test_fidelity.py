"""`iotrail diff --fidelity`: a replay beside its original, operation by operation."""

import json
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from iotrail.diff.fidelity import Fidelity, fidelity
from iotrail.trail import Trail

from . import drifting_runs
from .test_diff import iotrail

ORIGINAL = 8_000_000_000_000_000_011
COUNT = 500 * 4 + 5


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fidelity")
    return drifting_runs.write(drifting_runs.program(0, rounds=500, thread=ORIGINAL), folder / "a.trail")


def replay(
    folder: Path, change: Mapping[str, pa.Array] | None = None, rows: slice = slice(None), **facts: object
) -> Path:
    """A replay under the folder by thread 21, which bears the original thread's id as its name."""
    paths = {file: f"{folder}{path}" for file, path in drifting_runs.PATHS.items()}
    tables = drifting_runs.program(0, rounds=500, thread=21, name=str(ORIGINAL), paths=paths)
    ops = tables["file_op"]
    for name, values in (change or {}).items():
        ops = ops.set_column(ops.column_names.index(name), name, values)
    tables["file_op"] = ops.slice(rows.start or 0, rows.stop)
    said = {
        "mode": "think",
        "engine": "psync",
        "scale": 1.0,
        "waited": 0,
        "cpu": 1,
        "root": str(folder),
    } | facts
    tables["recording"] = pa.table({"node": ["n"], "name": ["replay"], "value": [json.dumps(said)]})
    return drifting_runs.write(tables, folder / "b.trail")


def column(name: str) -> list[int]:
    return drifting_runs.program(0, rounds=500)["file_op"][name].to_pylist()


def judged(original: Path, trail: Path) -> Fidelity:
    return fidelity(Trail(original), Trail(trail))


def test_an_exact_replay(original: Path, tmp_path: Path) -> None:
    result = judged(original, replay(tmp_path))
    assert result.matched == result.operations_a == result.operations_b == COUNT
    assert (result.failed_differently, result.returned_differently, result.out_of_order) == (0, 0, 0)
    assert (result.not_replayed, result.differences) == ({}, [])
    assert result.run_time_error == 0 and result.late_max == 0


def test_late_operations(original: Path, tmp_path: Path) -> None:
    """The last operations begin 2 ms late; where the replay measured lateness itself, that is shown."""
    late = pa.array([0] * 1900 + [2_000_000] * (COUNT - 1900))
    change = {"ts": pc.add(pa.array(column("ts")), late)}
    (tmp_path / "timed").mkdir()
    result = judged(original, replay(tmp_path, change))
    assert (result.late_p50, result.late_p99, result.late_max) == (0, 2_000_000, 2_000_000)
    assert result.late_over_ms == COUNT - 1900
    assert result.run_time_error is not None and result.run_time_error > 0
    measured = {"p50": 5, "p99": 7, "max": 9, "over_ms": 0}
    result = judged(original, replay(tmp_path / "timed", change, mode="timed", late=measured))
    assert (result.late_p50, result.late_p99, result.late_max, result.late_over_ms) == (5, 7, 9, 0)


def test_stretched_times(original: Path, tmp_path: Path) -> None:
    start = drifting_runs.START
    twice = [start + 2 * (ts - start) for ts in column("ts")]
    result = judged(original, replay(tmp_path, {"ts": pa.array(twice)}, scale=2.0))
    assert result.late_max <= 2 and result.run_time_error == pytest.approx(0, abs=1e-3)


def test_failures(original: Path, tmp_path: Path) -> None:
    errno, moved = column("errno"), column("result")
    errno[2], moved[2] = 28, -1
    moved[5] = 17
    trail = replay(tmp_path, {"errno": pa.array(errno), "result": pa.array(moved)})
    result = judged(original, trail)
    assert result.matched == COUNT
    assert (result.failed_differently, result.returned_differently) == (1, 1)
    assert {row["errno_b"] for row in result.differences} == {28, 0} and result.differences[0]["times"] == 1
    done = iotrail("diff", original, trail, "--fidelity")
    assert "No space left on device" in done.stdout and "run time" in done.stdout
    assert (
        json.loads(iotrail("diff", original, trail, "--fidelity", "--json").stdout)["failed_differently"] == 1
    )


def test_operations_left_out_shift_nothing(original: Path, tmp_path: Path) -> None:
    result = judged(original, replay(tmp_path, rows=slice(10, None)))
    assert result.matched == result.operations_b == COUNT - 10
    assert sum(result.not_replayed.values()) == 10 and result.failed_differently == 0


def test_order(original: Path, tmp_path: Path) -> None:
    ts = column("ts")
    ts[100], ts[101] = ts[101], ts[100]
    result = judged(original, replay(tmp_path, {"ts": pa.array(ts)}))
    assert (result.matched, result.out_of_order) == (COUNT, 1)


Call = tuple[int, str, str, int, int, int, int]


def calls(folder: Path, name: str, rows: list[Call], below: str = "", **facts: object) -> Path:
    """A trail of single calls: thread, call, path, start, end, offset, bytes moved (of 4,096 asked for)."""
    paths = sorted({row[2] for row in rows})
    number = {path: 100 + i for i, path in enumerate(paths)}
    threads = sorted({row[0] for row in rows})
    own = {thread: thread + (50 if below else 0) for thread in threads}
    count = len(rows)
    tables = {
        "file_op": pa.table({
            "ts": [row[3] for row in rows], "dur": [row[4] - row[3] for row in rows], "node": ["n"] * count,
            "thread": [own[row[0]] for row in rows], "crumb": [0] * count, "call": [row[1] for row in rows],
            "file": [number[row[2]] for row in rows], "pos": [row[5] for row in rows], "length": [4096] * count,
            "result": [row[6] for row in rows], "errno": [0] * count, "calls": [1] * count,
        }),
        "file": pa.table({
            "node": ["n"] * len(paths), "file": [number[path] for path in paths],
            "path": [below + path for path in paths],
        }),
        "thread": pa.table({
            "node": ["n"] * len(threads), "thread": [own[thread] for thread in threads],
            "process": [1] * len(threads), "pid": [1] * len(threads), "tid": threads,
            "name": [str(thread) for thread in threads], "start_ts": [0] * len(threads),
        }),
    }  # fmt: skip
    said = {"mode": "afap", "engine": "psync", "scale": 1.0, "waited": 0, "cpu": 1, "root": below} | facts
    if below:
        tables["recording"] = pa.table({"node": ["n"], "name": ["replay"], "value": [json.dumps(said)]})
    return drifting_runs.write(tables, folder / f"{name}.trail")


@pytest.mark.parametrize(
    ("cause", "path", "written", "again"),
    [
        # the read began after the write had returned; in the replay before it did
        ("order", "/data", (0, 10), (50, 60)),
        # they overlapped in the recording
        ("race", "/data", (0, 25), (50, 60)),
        # it kept its order
        ("unknown", "/data", (0, 10), (0, 10)),
        ("kernel", "/proc/self/maps", (0, 10), (50, 60)),
    ],
)
def test_other_bytes_have_a_cause(
    tmp_path: Path, cause: str, path: str, written: tuple[int, int], again: tuple[int, int]
) -> None:
    a = calls(tmp_path, "a", [(1, "pwrite", path, *written, 0, 4096), (2, "pread", path, 20, 30, 0, 4096)])
    rows: list[Call] = [(1, "pwrite", path, *again, 0, 4096), (2, "pread", path, 20, 30, 0, 100)]
    result = judged(a, calls(tmp_path, "b", sorted(rows, key=lambda row: row[3]), "/root", order_broken=3))
    assert result.moved_by_cause == [{"cause": cause, "operations": 1, "bytes_a": 4096, "bytes_b": 100}]
    assert (result.bytes_a, result.bytes_b, result.out_of_order) == (8192, 4196, 3)


def test_other_bytes_of_a_file_with_calls_that_are_not_replayed(tmp_path: Path) -> None:
    rows: list[Call] = [(1, "mmap", "/data", 0, 10, 0, 0), (2, "pread", "/data", 20, 30, 0, 4096)]
    result = judged(calls(tmp_path, "a", rows), calls(tmp_path, "b", [(*rows[1][:6], 0)], "/root"))
    assert [row["cause"] for row in result.moved_by_cause] == ["not_replayed"]
    assert result.not_replayed == {"mmap": 1}


def test_an_interrupted_replay_tells_what_it_did_not_reach(tmp_path: Path) -> None:
    rows: list[Call] = [(1, "pread", "/data", 10 * i, 10 * i + 5, 4096 * i, 4096) for i in range(10)]
    again = calls(tmp_path, "b", rows[:4], "/root", interrupted_at=40)
    result = judged(calls(tmp_path, "a", rows), again)
    assert (result.matched, result.not_reached, result.not_replayed, result.run_time_a) == (4, 6, {}, 40)


def test_no_replay_of_it(original: Path, tmp_path: Path) -> None:
    done = iotrail("diff", original, original, "--fidelity")
    assert done.returncode == 1 and "is no replay" in done.stderr
    other = drifting_runs.write(drifting_runs.program(0, rounds=5, thread=77), tmp_path / "other.trail")
    (tmp_path / "b").mkdir()
    done = iotrail("diff", other, replay(tmp_path / "b"), "--fidelity")
    assert done.returncode == 1 and "no operation of it replays" in done.stderr

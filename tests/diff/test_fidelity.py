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


def test_no_replay_of_it(original: Path, tmp_path: Path) -> None:
    done = iotrail("diff", original, original, "--fidelity")
    assert done.returncode == 1 and "is no replay" in done.stderr
    other = drifting_runs.write(drifting_runs.program(0, rounds=5, thread=77), tmp_path / "other.trail")
    (tmp_path / "b").mkdir()
    done = iotrail("diff", other, replay(tmp_path / "b"), "--fidelity")
    assert done.returncode == 1 and "no operation of it replays" in done.stderr

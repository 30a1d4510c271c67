"""`iotrail diff --fidelity`: a replay beside its original, operation by operation."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from iotrail.diff.fidelity import fidelity
from iotrail.trail import Trail

from . import drifting_runs
from .test_diff import iotrail

ORIGINAL = 8_000_000_000_000_000_011


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fidelity")
    return drifting_runs.write(drifting_runs.program(0, rounds=500, thread=ORIGINAL), folder / "a.trail")


def replay(
    folder: Path, change: dict[str, pa.ChunkedArray] | None = None, paths: dict[int, str] | None = None
) -> Path:
    """A replay by thread 21, which bears the original thread's id as its name."""
    tables = drifting_runs.program(
        0, rounds=500, thread=21, name=str(ORIGINAL), paths=paths or drifting_runs.PATHS
    )
    for name, values in (change or {}).items():
        tables["file_op"] = tables["file_op"].set_column(
            tables["file_op"].column_names.index(name), name, values
        )
    return drifting_runs.write(tables, folder / "b.trail")


def test_an_exact_replay(original: Path, tmp_path: Path) -> None:
    elsewhere = {file: path.replace("/srv/run", str(tmp_path)) for file, path in drifting_runs.PATHS.items()}
    result = fidelity(Trail(original), Trail(replay(tmp_path, paths=elsewhere)))
    assert result.matched == result.in_order == result.operations_a == result.operations_b == 500 * 4 + 5
    assert (result.failed_differently, result.returned_differently, result.first_differences) == (0, 0, [])
    assert result.run_time_error == 0 and result.late_max == 0


def test_late_operations(original: Path, tmp_path: Path) -> None:
    tables = drifting_runs.program(0, rounds=500)["file_op"]
    late = pa.array([0] * 1900 + [2_000_000] * (tables.num_rows - 1900))
    result = fidelity(Trail(original), Trail(replay(tmp_path, {"ts": pc.add(tables["ts"], late)})))
    assert (result.late_p50, result.late_p99, result.late_max) == (0, 2_000_000, 2_000_000)
    assert result.run_time_error is not None and result.run_time_error > 0


def test_failures_and_order(original: Path, tmp_path: Path) -> None:
    tables = drifting_runs.program(0, rounds=500)["file_op"]
    errno = tables["errno"].to_pylist()
    length, result_of = tables["length"].to_pylist(), tables["result"].to_pylist()
    errno[2], result_of[2] = 28, -1
    result_of[5] = 17
    length[6] = 1
    change = {"errno": pa.array(errno), "result": pa.array(result_of), "length": pa.array(length, pa.int64())}
    trail = replay(tmp_path, {name: pa.chunked_array([column]) for name, column in change.items()})
    result = fidelity(Trail(original), Trail(trail))
    assert result.in_order == result.matched - 1
    assert (result.failed_differently, result.returned_differently) == (1, 1)
    assert [row["k"] for row in result.first_differences] == [3, 6, 7]
    done = iotrail("diff", original, trail, "--fidelity")
    assert "errno 28" in done.stdout and "run-time error" in done.stdout
    assert (
        json.loads(iotrail("diff", original, trail, "--fidelity", "--json").stdout)["failed_differently"] == 1
    )


def test_no_replay_of_it(original: Path) -> None:
    done = iotrail("diff", original, original, "--fidelity")
    assert done.returncode == 1 and "no operation of it replays" in done.stderr

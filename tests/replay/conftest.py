"""Fixtures of the replay tests: the binary, a recorded program, trails made from columns."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

Iotrail = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def native() -> Path:
    """The binary: `make` puts it beside the package."""
    beside = Path(__file__).parents[2] / "python/iotrail/_native/iotrail-native"
    path = Path(os.environ.get("IOTRAIL_NATIVE", beside))
    assert path.is_file(), f"{path} is missing: run make native"
    return path


@pytest.fixture
def iotrail(native: Path) -> Iotrail:
    """Runs the binary."""

    def run(*arguments: object, fails: bool = False) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [str(native), *map(str, arguments)], capture_output=True, text=True, timeout=300
        )
        assert (done.returncode != 0) == fails, done.stderr
        return done

    return run


@pytest.fixture
def replay(tmp_path: Path) -> Callable[..., tuple[Path, dict[str, Any]]]:
    """Replays a trail by the command; the trail that makes, and how faithful it was."""

    def run(trail: Path, *arguments: object) -> tuple[Path, dict[str, Any]]:
        output = tmp_path / f"{trail.stem}.again.trail"
        command = [
            sys.executable,
            "-m",
            "iotrail",
            "replay",
            trail,
            "-o",
            output,
            "--force",
            "--json",
            *arguments,
        ]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        return output, json.loads(done.stdout)

    return run


@pytest.fixture(scope="session")
def recorded(native: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A recorded program and the directory it worked in: processes, threads, inherited descriptors, all names."""
    folder = tmp_path_factory.mktemp("program")
    work, trail = folder / "work", folder / "program.trail"
    work.mkdir()
    for name, size in (("input", 300_000), ("lines", 5_000)):
        (work / name).write_bytes(os.urandom(size))
    program = Path(__file__).parent / "program.py"
    subprocess.run(
        [native, "record", "-o", trail, "--", sys.executable, "-S", program, work], check=True, timeout=120
    )
    return trail, work


@pytest.fixture
def made(native: Path, tmp_path: Path) -> Callable[..., Path]:
    """`made(path=…, **columns)`: a trail of one file whose `file_op` has these columns."""

    def make(path: str = "/dev/sdz", **columns: Sequence[object]) -> Path:
        n = len(next(iter(columns.values())))
        given: dict[str, Sequence[object]] = {
            "ts": range(0, n * 1000, 1000),
            "dur": [500] * n,
            "node": ["n"] * n,
            "thread": [1] * n,
            "crumb": [0] * n,
            "call": ["pread"] * n,
            "file": [7] * n,
            "errno": [0] * n,
            "calls": [1] * n,
            **columns,
        }
        texts = ("node", "call")
        tables = {
            "file_op": pa.table(
                {k: pa.array(v, pa.string() if k in texts else pa.int64()) for k, v in given.items()}
            ),
            "file": pa.table({"node": ["n"], "file": pa.array([7], pa.int64()), "path": [path]}),
        }
        streams = []
        for name, table in tables.items():
            stream = tmp_path / f"{name}.arrow"
            with pa.ipc.new_stream(stream, table.schema) as writer:
                writer.write_table(table)
            streams.append(f"{name}={stream}")
        trail = tmp_path / "made.trail"
        subprocess.run([native, "ingest", "--force", "-o", trail, *streams], check=True)
        return trail

    return make

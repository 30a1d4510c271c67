"""What a causal replay refuses before it does anything."""

import subprocess
from pathlib import Path

import pyarrow as pa
import pytest

from iotrail import native

from ..sql.tiny import write_trail
from .conftest import HERE, IOTRAIL


def replay(trail: Path, root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [*IOTRAIL, "replay", trail, "--root", root, *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_threads_that_wait_for_each_other_are_named(tmp_path: Path) -> None:
    """Of tests/sql/causal: what thread 21 receives at 330 is sent after a barrier that it comes to at 700."""

    def late(name: str, rows: pa.Table) -> pa.Table:
        if name != "signal":
            return rows
        times = [
            900 if edge == 5 else ts
            for ts, edge in zip(*rows.select(["ts", "edge"]).to_pydict().values(), strict=True)
        ]
        return rows.set_column(rows.column_names.index("ts"), "ts", pa.array(times, pa.int64()))

    trail = write_trail(native.binary(), HERE.parent / "sql" / "causal", tmp_path, late)
    root = tmp_path / "root"
    done = replay(trail, root, "--mode", "causal")
    assert done.returncode == 1
    assert "threads wait for each other: thread" in done.stderr and "--mode compute" in done.stderr
    assert not root.exists() and not list(tmp_path.glob("*.replay.trail"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--mode", "think", "--scale-compute", "2"], "--scale-compute is for what threads computed"),
        (["--mode", "causal", "--scale-compute", "0"], "expected a number above 0"),
    ],
)
def test_wrong_input(words: list[str], said: str, make_causal: Path, tmp_path: Path) -> None:
    done = replay(make_causal, tmp_path / "root", *words)
    assert done.returncode != 0 and said in done.stderr and not (tmp_path / "root").exists()

"""What the tests of findings share: a scene, a way to ask one finding of it, and where the binary is."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .scene import Process, Scene, Thread

Row = dict[str, Any]
Ask = Callable[..., list[Row]]


@pytest.fixture(scope="session")
def native() -> Path:
    """The binary that writes trails: `make` puts it beside the package."""
    beside = Path(__file__).parents[2] / "python/iotrail/_native/iotrail-native"
    path = Path(os.environ.get("IOTRAIL_NATIVE", beside))
    assert path.is_file(), f"{path} is missing: run make native"
    return path


@pytest.fixture
def scene() -> Scene:
    """An empty scene."""
    return Scene()


@pytest.fixture
def app(scene: Scene) -> Thread:
    """The main thread of a program `app`."""
    return scene.process("app").main


@pytest.fixture
def find(scene: Scene, tmp_path: Path, native: Path) -> Ask:
    """`find("small_reads")`: the rows of that finding for the scene; keywords set parameters."""

    def ask(name: str, **params: object) -> list[Row]:
        trail = scene.write(tmp_path, native)
        trail.set_params(params)
        rows = trail.rows_of(f"SELECT * FROM finding_{name} ORDER BY cost_ns DESC, title")
        for row in rows:
            assert row["finding"] == name
            assert row["severity"] in ("high", "medium", "low")
            assert (
                row["title"].endswith(".") and row["evidence"].endswith(".") and row["advice"].endswith(".")
            )
            assert row["start_ts"] <= row["end_ts"]
        return rows

    return ask


@pytest.fixture
def one(find: Ask, scene: Scene) -> Callable[..., None]:
    """Ask a finding and expect one row with these columns, and these words in title or evidence."""

    def check(name: str, *says: str, params: dict[str, object] | None = None, **columns: object) -> None:
        rows = find(name, **(params or {}))
        assert len(rows) == 1, rows
        row = rows[0]
        for column, expected in columns.items():
            if isinstance(expected, Process | Thread):
                expected = expected.id
            if column == "file" and isinstance(expected, str):
                expected = scene.file(expected)
            assert row[column] == expected, (column, row)
        for words in says:
            assert words in f"{row['title']}\n{row['evidence']}", row

    return check

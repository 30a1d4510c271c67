"""Trails with requests: the story of tests/sql/store, and small ones of a few rows."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from iotrail import schema
from tests.sql.tiny import ARROW, DEFAULTS, ingest, write_trail

Rows = Mapping[str, Sequence[Mapping[str, Any]]]
MakeTrail = Callable[[Rows], Path]

# What a row of a test leaves out though the column can't be null.
OURS: dict[str, Any] = {
    **DEFAULTS,
    "thread": 1,
    "component": "head",
    "cache": "pages",
    "kind": "server",
    "op": "read",
    "status": 0,
    "dur": 0,
    "weight": 1,
    "parent_node": "n",
    "sender": "head",
    "receiver": "store",
    "dev": "sda",
    "merged": 0,
    "cpu": 0,
}


@pytest.fixture(scope="session")
def native() -> Path:
    """The binary that writes trails: `make` puts it beside the package."""
    beside = Path(__file__).parents[2] / "python/iotrail/_native/iotrail-native"
    path = Path(os.environ.get("IOTRAIL_NATIVE", beside))
    assert path.is_file(), f"{path} is missing: run make native"
    return path


@pytest.fixture(scope="session")
def store(native: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small store of tests/sql/store."""
    return write_trail(native, Path(__file__).parents[1] / "sql/store", tmp_path_factory.mktemp("store"))


@pytest.fixture
def make(native: Path, tmp_path: Path) -> MakeTrail:
    """`make({"service_op": [{…}], …})`: a trail of these rows; what a row leaves out is as `OURS` says, or null."""
    return lambda rows: write_rows(native, rows, tmp_path / "made.trail")


def write_rows(native: Path, rows: Rows, path: Path) -> Path:
    """Write a trail of these rows, as `make` does."""
    tables = {}
    for name, given in {"service_op": [], **rows}.items():
        columns = schema.load().tables[name].columns
        tables[name] = pa.table(
            {
                c.name: pa.array([row.get(c.name, OURS.get(c.name)) for row in given], ARROW[c.type])
                for c in columns
            }
        )
    return ingest(native, tables, path)

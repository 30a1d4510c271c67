"""Fixtures of the SQL tests."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from .tiny import write_trail

# A shell's background jobs ignore SIGINT, and what they start inherits that.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    """`pytest tests/sql --update` rewrites the expected files instead of comparing with them."""
    parser.addoption("--update", action="store_true", help="rewrite the goldens' expected files")


@pytest.fixture(scope="session")
def native() -> Path:
    """The binary that writes trails: `make` puts it beside the package."""
    beside = Path(__file__).parents[2] / "python/iotrail/_native/iotrail-native"
    path = Path(os.environ.get("IOTRAIL_NATIVE", beside))
    assert path.is_file(), f"{path} is missing: run make native"
    return path


@pytest.fixture(scope="session")
def make_trail(native: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Path]:
    """`make_trail(folder)`: the trail of the CSV files in a folder, made once."""
    made: dict[Path, Path] = {}

    def make(folder: Path) -> Path:
        if folder not in made:
            made[folder] = write_trail(native, folder, tmp_path_factory.mktemp(folder.name))
        return made[folder]

    return make

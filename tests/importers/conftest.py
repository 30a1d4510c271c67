"""What the importers' tests share: an import in this process, its rows, and what it said."""

import io
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from iotrail.importers import command
from iotrail.importers.base import Options
from iotrail.terminal import WIDE, Console
from iotrail.trail import Trail

# Traces of others that don't come with the repository.
SHARED = Path(__file__).parents[3] / "shared" / "traces"


@dataclass
class Imported:
    """A trail that an import made, and what it said."""

    path: Path
    said: str

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        return Trail(self.path).query(query).fetchall()

    def one(self, query: str) -> Any:
        """The one value of a query."""
        [[value]] = self.rows(query)
        return value

    def fact(self, name: str) -> str:
        """A fact of table recording."""
        return str(self.one(f"SELECT value FROM recording WHERE name = '{name}'"))


Import = Callable[..., Imported]


@pytest.fixture(autouse=True)
def native() -> Path:
    """The binary that writes trails: `make` puts it beside the package."""
    beside = Path(__file__).parents[2] / "python/iotrail/_native/iotrail-native"
    path = Path(os.environ.get("IOTRAIL_NATIVE", beside))
    assert path.is_file(), f"{path} is missing: run make native"
    return path


@pytest.fixture
def bring(tmp_path: Path) -> Import:
    """`bring("strace", path)` imports a file; `bring(path)` guesses; text or bytes become a file first."""
    count = 0

    def bring(
        *words: str | bytes | Path, name: str = "trace", strict: bool = False, **options: Any
    ) -> Imported:
        nonlocal count
        count += 1
        paths = []
        for word in words:
            if isinstance(word, bytes) or (isinstance(word, str) and "\n" in word):
                path = tmp_path / name
                path.write_bytes(word if isinstance(word, bytes) else word.encode())
                paths.append(path)
            else:
                paths.append(Path(word))
        said = io.StringIO()
        trail = command.run(
            paths,
            tmp_path / f"{count}.trail",
            force=False,
            options=Options(strict=strict, **options),
            console=Console(file=said, piped=WIDE, soft_wrap=True),
        )
        return Imported(trail, said.getvalue())

    return bring


@pytest.fixture
def shared() -> Callable[[str], Path]:
    """A file of ../shared/traces; the test is skipped where those aren't."""

    def find(name: str) -> Path:
        path = SHARED / name
        if not path.exists():
            pytest.skip(f"needs ../shared/traces/{name}")
        return path

    return find

"""What the tests of whatif share: trails of requests written as text, and the traces of others."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from iotrail.importers import command
from iotrail.importers.base import Options
from iotrail.terminal import Console

# Traces of others that don't come with the repository.
SHARED = Path(__file__).parents[3] / "shared" / "traces"
# Columns: time in µs, byte, bytes, r or w, response time in µs.
MAP = "ts=1,unit=us,pos=2,length=3,op=4,read=r,write=w,dur=5,dur_unit=us"

# Sentences are on one line, however wide the terminal of the tests is.
UNBROKEN = {"COLUMNS": "400"}

MakeRequests = Callable[[Sequence[tuple[int, int, int, str, int]]], Path]


@pytest.fixture(autouse=True)
def native() -> Path:
    """The binary that simulates: `make` puts it beside the package."""
    beside = Path(__file__).parents[2] / "python/iotrail/_native/iotrail-native"
    path = Path(os.environ.get("IOTRAIL_NATIVE", beside))
    assert path.is_file(), f"{path} is missing: run make native"
    return path


@pytest.fixture
def bring(tmp_path: Path) -> Callable[..., Path]:
    """`bring(path)` imports a trace; the trail."""

    def bring(path: Path, *words: str, map: str | None = None) -> Path:
        trail = tmp_path / f"{path.name}.trail"
        with (tmp_path / "said").open("w") as said:
            options = Options() if map is None else Options(map=map)
            command.run(
                [*map_words(words), path], trail, force=True, options=options, console=Console(file=said)
            )
        return trail

    return bring


def map_words(words: Sequence[str]) -> list[Path]:
    """A format is given where files are."""
    return [Path(word) for word in words]


@pytest.fixture
def requests(tmp_path: Path, bring: Callable[..., Path]) -> MakeRequests:
    """A trail of requests: (time in µs, byte, bytes, r or w, response time in µs) each."""

    def make(rows: Sequence[tuple[int, int, int, str, int]]) -> Path:
        path = tmp_path / "requests.csv"
        path.write_text("".join(",".join(map(str, row)) + "\n" for row in rows))
        return bring(path, "csv", map=MAP)

    return make


@pytest.fixture
def without_dur(tmp_path: Path, bring: Callable[..., Path]) -> Path:
    """A trail of three reads, 1 ms apart, of which nobody knows how long they took."""
    path = tmp_path / "no-dur.csv"
    path.write_text("0,0,4096,r\n1000,40960,4096,r\n2000,0,4096,r\n")
    return bring(path, "csv", map=MAP.replace(",dur=5,dur_unit=us", ""))


@pytest.fixture
def without_times(tmp_path: Path, bring: Callable[..., Path]) -> Path:
    """A trail of three reads of a trace that has no times."""
    path = tmp_path / "v2.log"
    lines = ["add", "open", "read 0 4096", "read 40960 4096", "read 0 4096", "close"]
    path.write_text("fio version 2 iolog\n" + "".join(f"/dev/sdx {line}\n" for line in lines))
    return bring(path, "fio")


@pytest.fixture
def shared() -> Callable[[str], Path]:
    """A file of ../shared/traces; the test is skipped where those aren't."""

    def find(name: str) -> Path:
        path = SHARED / name
        if not path.exists():
            pytest.skip(f"needs ../shared/traces/{name}")
        return path

    return find

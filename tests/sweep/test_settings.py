"""Settings are put back however a sweep ends; commands that fail, hang or lie are said."""

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from iotrail.errors import SweepError
from iotrail.sweep import journal
from iotrail.sweep.journal import Journal
from iotrail.sweep.settings import Settings
from iotrail.sweep.spec import Control


def control(path: Path, write: str | None = None, read: str | None = None) -> Control:
    """A setting that is a file's content."""
    return Control(write or f"echo {{value}} > {path}", read or f"cat {path}")


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Journal]:
    """A journal."""
    with Journal(tmp_path / "x.sweep") as opened:
        opened.begin("", "x.toml", 1)
        yield opened


@pytest.fixture
def depth(tmp_path: Path) -> Path:
    """A file that holds a setting."""
    path = tmp_path / "depth"
    path.write_text("64\n")
    return path


def test_settings_are_made_and_put_back(depth: Path, tmp_path: Path, kept: Journal) -> None:
    other = tmp_path / "scheduler"
    other.write_text("none\n")
    with Settings({"depth": control(depth), "scheduler": control(other), "n": Control()}, kept) as settings:
        settings.apply({"depth": 8, "scheduler": "bfq", "n": 1})
        assert (depth.read_text(), other.read_text()) == ("8\n", "bfq\n")
        # What is set already isn't set again.
        depth.write_text("8.0\n")
        settings.apply({"depth": 8, "scheduler": "kyber", "n": 1})
        assert (depth.read_text(), other.read_text()) == ("8.0\n", "kyber\n")
    assert (depth.read_text(), other.read_text()) == ("64\n", "none\n")


def test_settings_are_put_back_after_an_error(depth: Path, kept: Journal) -> None:
    with pytest.raises(ZeroDivisionError), Settings({"depth": control(depth)}, kept) as settings:
        settings.apply({"depth": 8})
        raise ZeroDivisionError
    assert depth.read_text() == "64\n"


@pytest.mark.parametrize(
    ("write", "read", "said"),
    [
        ("false # {value}", None, "depth: false # 8: ended with status 1"),
        ("true # {value}", None, "depth: set to 8, but cat .* says '64'"),
    ],
)
def test_settings_that_cannot_be_made(
    depth: Path, kept: Journal, write: str, read: str | None, said: str
) -> None:
    settings = Settings({"depth": control(depth, write, read)}, kept)
    with pytest.raises(SweepError, match=said), settings:
        settings.apply({"depth": 8})
    assert depth.read_text() == "64\n"


def test_settings_that_cannot_be_put_back(depth: Path, kept: Journal) -> None:
    once = f"test {{value}} = 8 && echo 8 > {depth}"
    with (
        pytest.raises(
            SweepError, match=r"cannot put back depth: test 64 = 8 .* ended with status 1"
        ) as failed,
        Settings({"depth": control(depth, once)}, kept) as settings,
    ):
        settings.apply({"depth": 8})
    assert failed.value.hint == "put it back by hand"


def test_settings_that_cannot_be_read(depth: Path, kept: Journal) -> None:
    with (
        pytest.raises(SweepError, match="no command reads"),
        Settings({"depth": Control("true {value}")}, kept),
    ):
        pass
    with (
        pytest.raises(SweepError, match="exit 3: ended with status 3"),
        Settings({"depth": control(depth, read="exit 3")}, kept),
    ):
        pass
    assert depth.read_text() == "64\n"


def test_a_second_ctrl_c_waits_until_settings_are_back(depth: Path, kept: Journal) -> None:
    slow = f"sleep 0.3; echo {{value}} > {depth}"
    with pytest.raises(KeyboardInterrupt), Settings({"depth": control(depth, slow)}, kept) as settings:
        settings.apply({"depth": 8})
        # Comes while it is put back.
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
    assert depth.read_text() == "64\n"


def test_what_a_power_cut_leaves_changed(depth: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("a")
    path = tmp_path / "x.sweep"
    with Journal(path) as kept:
        kept.begin("", "x.toml", 1)
        kept.add(restore=f"echo 64 > {depth}")
        kept.add(restore=f"cp {depth} {other}")
    depth.write_text("8\n")
    assert journal.read(path).restore == (f"echo 64 > {depth}", f"cp {depth} {other}")
    assert journal.restore(path) == []
    # The last one first.
    assert (depth.read_text(), other.read_text()) == ("64\n", "8\n")
    assert journal.read(path).restore == ()


def test_what_cannot_be_put_back_stays_to_be_put_back(tmp_path: Path) -> None:
    path = tmp_path / "x.sweep"
    with Journal(path) as kept:
        kept.begin("", "x.toml", 1)
        kept.add(restore="exit 3")
    assert journal.restore(path) == ["exit 3: ended with status 3"]
    assert journal.read(path).restore == ("exit 3",)

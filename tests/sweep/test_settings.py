"""Settings are put back however a sweep ends; commands that fail, hang or lie are said."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from iotrail.errors import SweepError
from iotrail.sweep.settings import Settings
from iotrail.sweep.spec import Control


def control(path: Path, write: str | None = None, read: str | None = None) -> Control:
    """A setting that is a file's content."""
    return Control(write or f"echo {{value}} > {path}", read or f"cat {path}")


@pytest.fixture
def depth(tmp_path: Path) -> Path:
    """A file that holds a setting."""
    path = tmp_path / "depth"
    path.write_text("64\n")
    return path


def test_settings_are_made_and_put_back(depth: Path, tmp_path: Path) -> None:
    other = tmp_path / "scheduler"
    other.write_text("none\n")
    with Settings({"depth": control(depth), "scheduler": control(other), "n": Control()}) as settings:
        settings.apply({"depth": 8, "scheduler": "bfq", "n": 1})
        assert (depth.read_text(), other.read_text()) == ("8\n", "bfq\n")
        # What is set already isn't set again.
        depth.write_text("8.0\n")
        settings.apply({"depth": 8, "scheduler": "kyber", "n": 1})
        assert (depth.read_text(), other.read_text()) == ("8.0\n", "kyber\n")
    assert (depth.read_text(), other.read_text()) == ("64\n", "none\n")


def test_settings_are_put_back_after_an_error(depth: Path) -> None:
    with pytest.raises(ZeroDivisionError), Settings({"depth": control(depth)}) as settings:
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
def test_settings_that_cannot_be_made(depth: Path, write: str, read: str | None, said: str) -> None:
    settings = Settings({"depth": control(depth, write, read)})
    with pytest.raises(SweepError, match=said), settings:
        settings.apply({"depth": 8})
    assert depth.read_text() == "64\n"


def test_settings_that_cannot_be_put_back(depth: Path) -> None:
    once = f"test {{value}} = 8 && echo 8 > {depth}"
    with (
        pytest.raises(
            SweepError, match=r"cannot put back depth: test 64 = 8 .* ended with status 1"
        ) as failed,
        Settings({"depth": control(depth, once)}) as settings,
    ):
        settings.apply({"depth": 8})
    assert failed.value.hint == "put it back by hand"


def test_settings_that_cannot_be_read(depth: Path) -> None:
    with pytest.raises(SweepError, match="no command reads"), Settings({"depth": Control("true {value}")}):
        pass
    with (
        pytest.raises(SweepError, match="exit 3: ended with status 3"),
        Settings({"depth": control(depth, read="exit 3")}),
    ):
        pass
    assert depth.read_text() == "64\n"


PROGRAM = """
import sys, time
from pathlib import Path
from iotrail.sweep.settings import Settings
from iotrail.sweep.spec import Control
path = sys.argv[1]
with Settings({"depth": Control(f"echo {{value}} > {path}", f"cat {path}")}) as settings:
    settings.apply({"depth": 8})
    print("set", flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_settings_are_put_back_after_a_signal(depth: Path, number: signal.Signals) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(depth)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "set\n"
    assert depth.read_text() == "8\n"
    os.kill(child.pid, number)
    child.wait()
    for _ in range(100):
        if depth.read_text() == "64\n":
            return
        time.sleep(0.1)
    raise AssertionError(f"after {number.name} the setting is {depth.read_text()!r}")

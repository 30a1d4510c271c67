"""Collectors and agents as processes, as a user has them: started, killed, asked and ended here."""

import contextlib
import json
import os
import re
import signal
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from iotrail.trail import Trail

ROOT = Path(__file__).parents[2]
NATIVE = ROOT / "python/iotrail/_native/iotrail-native"


def until(what: str, done: Callable[[], Any], seconds: float = 15) -> Any:
    """The first true answer of `done`, which is asked until then."""
    end = time.monotonic() + seconds
    while True:
        answer = done()
        if answer:
            return answer
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.05)


def certified(folder: Path, authority: bool = False) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that vouches for itself, and its key; or an authority's, as `openssl` has it."""
    cert, key = folder / "cert.pem", folder / "key.pem"
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    words += ["-subj", "/CN=here", "-addext", "subjectAltName=IP:127.0.0.1"]
    words += [] if authority else ["-addext", "basicConstraints=critical,CA:FALSE"]
    subprocess.run([*words, "-keyout", key, "-out", cert], check=True, capture_output=True)
    return cert, key


class Collector:
    """`iotrail-native collect` on a port of its own, which it has again when it is started again."""

    def __init__(self, folder: Path) -> None:
        self.trail, self.said = folder / "x.trail", folder / "collect.err"
        self.address = "127.0.0.1:0"
        self.process: subprocess.Popen[str] | None = None

    def start(self, *more: str | Path, descriptors: int | None = None) -> None:
        command: list[str | Path] = (
            [] if descriptors is None else ["prlimit", f"--nofile={descriptors}:{descriptors}"]
        )
        command += [NATIVE, "collect", "-o", self.trail, "--listen", self.address, "--seal", "1s", *more]
        with self.said.open("a") as said:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        found = re.match(r"collecting into .+ on ([^\s,]+)", line)
        assert found, line + self.said.read_text()
        self.address = found[1]

    def end(self, how: signal.Signals = signal.SIGTERM) -> None:
        assert self.process is not None
        end(self.process, how, self.said)
        self.process = None

    def ask(self, path: str, body: bytes | None = None, **headers: str) -> bytes:
        """An answer over HTTP; POST if there is a body."""
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(f"http://{self.address}{path}", body, names)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return bytes(answer.read())

    def sealed(self) -> Trail:
        """The trail with all that was taken until now."""
        assert json.loads(self.ask("/seal?all=true", b""))["waiting"] == 0
        return Trail(self.trail)

    def metric(self, name: str, label: str = "") -> float:
        """A counter, over all its labels or those with this one; 0 until it counts."""
        lines = [line.rsplit(" ", 1) for line in self.ask("/metrics").decode().splitlines()]
        return sum(float(value) for key, value in lines if key.split("{")[0] == name and label in key)


class Agent:
    """`iotrail-native agent` with a state of its own, which the next one goes on with."""

    def __init__(self, folder: Path, collector: Collector) -> None:
        self.state, self.said = folder / "agent", folder / "agent.err"
        self.collector = collector
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *more: str | Path, program: Path = NATIVE) -> None:
        """It samples ten times a second, and finds no Ceph."""
        command = [program, "agent", "--collector", self.collector.address, "--state", self.state]
        command += ["--node", "here", "--every", "100ms", "--ceph", self.state / "none", *more]
        with self.said.open("a") as said:
            self.process = subprocess.Popen(command, stderr=said)

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def end(self, how: signal.Signals = signal.SIGTERM) -> None:
        assert self.process is not None
        end(self.process, how, self.said)
        self.process = None


def end(process: subprocess.Popen[Any], how: signal.Signals, said: Path) -> None:
    """Ends one as it should end."""
    process.send_signal(how)
    status = process.wait(30)
    assert status == (0 if how == signal.SIGTERM else -how), said.read_text()


def gone(process: subprocess.Popen[Any] | None) -> None:
    """After a test, whatever became of it."""
    if process is not None:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        process.wait()


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[Collector]:
    """Not started yet."""
    collector = Collector(tmp_path)
    yield collector
    gone(collector.process)


@pytest.fixture
def agent(tmp_path: Path, collector: Collector) -> Iterator[Agent]:
    """Not started yet; ships to `collector`."""
    agent = Agent(tmp_path, collector)
    yield agent
    gone(agent.process)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    if os.geteuid() != 0:
        pytest.skip("a file system of its own needs root")
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1M", "none", folder], check=True)
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)

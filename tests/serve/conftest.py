"""Trails of clusters, servers of them as a user starts them, and a browser."""

import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from . import cluster_trail

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Served:
    """A running `iotrail serve`."""

    address: str
    process: subprocess.Popen[str]


@contextmanager
def serving(*options: str | Path, descriptors: int | None = None) -> Iterator[Served]:
    """Runs `iotrail serve` on a free port until it is left; it may open so many files."""
    limit = () if descriptors is None else ("prlimit", f"--nofile={descriptors}:{descriptors}")
    process = subprocess.Popen(
        [*limit, sys.executable, "-m", "iotrail", "serve", "--port", "0", *map(str, options)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ,
    )
    try:
        assert process.stdout is not None and process.stderr is not None
        line = process.stdout.readline()
        found = re.search(r"https?://\S+", line)
        assert found, process.stderr.read()
        yield Served(found[0], process)
    finally:
        process.terminate()
        process.communicate(timeout=20)


@contextmanager
def peer(trail: Path, port: int) -> Iterator[subprocess.Popen[str]]:
    """Runs the stream's other side."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.serve.peer", str(trail), str(port)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=os.environ,
    )
    try:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
        return port


Cluster = Callable[[int], Path]


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    """`cluster(members)`: the trail of such a cluster over 120 s, made once."""
    made: dict[int, Path] = {}

    def make(members: int) -> Path:
        if members not in made:
            folder = tmp_path_factory.mktemp(f"cluster-{members}")
            made[members] = cluster_trail.write(folder / f"{members}.trail", members)
        return made[members]

    return make


@pytest.fixture(scope="module")
def serve() -> Iterator[Callable[..., Served]]:
    """`serve(options)`: started once for a module's tests."""
    started: dict[tuple[str, ...], Served] = {}
    with ExitStack() as stack:

        def start(*options: str | Path) -> Served:
            key = tuple(map(str, options))
            if key not in started:
                started[key] = stack.enter_context(serving(*options))
            return started[key]

        yield start


# As in tests/report: not for the whole session.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's Chromium, with WebGL in software."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium",
            args=["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"],
        )
        yield browser
        browser.close()


# Software rendering on a machine that does much else: slow is not wrong.
PATIENCE = 30_000


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page that fails its test if a script fails."""
    context = browser.new_context(viewport={"width": 1280, "height": 720})
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    yield page
    context.close()
    # a stream that is lost on purpose is reported by the browser, not by a script
    assert [error for error in errors if "WebSocket" not in error] == []

"""Trails, their reports and a browser for the tests of the report."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from playwright.sync_api import Browser, sync_playwright

from iotrail import native
from tests.command import run

from . import database_trail

Ingest = Callable[[str, dict[str, pa.Table]], Path]


@pytest.fixture(scope="session")
def ingest(tmp_path_factory: pytest.TempPathFactory) -> Ingest:
    """Makes a trail of tables, with the one trail writer."""

    def make(name: str, tables: dict[str, pa.Table]) -> Path:
        folder = tmp_path_factory.mktemp(name)
        trail = folder / f"{name}.trail"
        streams = database_trail.streams(tables, folder / "streams")
        subprocess.run([native.binary(), "ingest", "-o", trail, *streams], check=True)
        return trail

    return make


def run_report(trail: Path, *options: str | Path) -> subprocess.CompletedProcess[str]:
    """`iotrail report`, as a user runs it."""
    return run("report", trail, *options, cwd=trail.parent)


@pytest.fixture(scope="session")
def database(ingest: Ingest) -> Path:
    """The trail of a database under load."""
    return ingest("database", database_trail.tables(ops=20_000, seconds=20))


@pytest.fixture(scope="session")
def page_file(database: Path) -> Path:
    """Its report."""
    output = database.parent / "report.html"
    done = run_report(database, "-o", output)
    assert done.returncode == 0, done.stderr
    return output


# Not for the whole session: while it runs, Playwright's event loop occupies the thread, and a prompt_toolkit
# prompt tested later could not run its own.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's Chromium."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium",
            args=[
                "--no-sandbox",
                "--disable-gpu",
                "--disable-background-networking",
                "--disable-component-update",
            ],
        )
        yield browser
        browser.close()

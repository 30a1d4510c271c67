"""Trails with requests and a browser, for the tests of pages."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from iotrail import native
from tests.diff import flowing_requests
from tests.request.conftest import OURS
from tests.request.test_explain import HALF, MS, Store, alice, every
from tests.sql.tiny import write_trail


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small store of tests/sql/store."""
    return write_trail(
        native.binary(), Path(__file__).parents[1] / "sql/store", tmp_path_factory.mktemp("store")
    )


@pytest.fixture(scope="session")
def flows(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A run of a simulated store, and one with 5 ms more before its disk and a further call."""
    folder = tmp_path_factory.mktemp("flows")
    return (
        flowing_requests.write(flowing_requests.store(2), folder / "before.trail"),
        flowing_requests.write(
            flowing_requests.store(3, slower={"disk": 5_000_000}, lookup=True), folder / "after.trail"
        ),
    )


@pytest.fixture(scope="session")
def complaint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """alice reads 4 KiB here and there for 8 s; in the second half bob keeps the disk busy."""
    requests = every(20 * MS, start=HALF + 10 * MS, count=200, client="bob", service=19 * MS)
    rows = Store().work(*alice(), *requests).rows
    filled = {name: [OURS | row for row in given] for name, given in rows.items()}
    return flowing_requests.write(filled, tmp_path_factory.mktemp("complaint") / "complaint.trail")


# As in tests/report: not for the whole session.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's Chromium."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"]
        )
        yield browser
        browser.close()

"""The view of a sweep's anomalies: computed once, who gets it, and from a sample to the report of its measurement."""

import asyncio
import json
import re
import shutil
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from starlette.types import ASGIApp

from iotrail.errors import ServeError
from iotrail.serve.anomalies import Anomalies
from iotrail.serve.app import application
from iotrail.trail import Trail
from tests.anomaly import sweep_trail

from .conftest import PATIENCE, Served
from .test_page import until
from .test_server import ask

Serve = Callable[..., Served]
FIXTURE = Path(__file__).parents[1] / "fixtures/v1.trail"


@pytest.fixture(scope="module")
def trail(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sweep_trail.with_requests(tmp_path_factory)


def test_from_a_sample_to_the_report_of_its_measurement(page: Page, trail: Path, serve: Serve) -> None:
    served = serve(trail)
    status, waiting, headers = ask(served.address, "anomalies")
    assert (status, headers["refresh"]) == (202, "1") and "being computed" in waiting
    # a sweep's trail opens on them
    page.goto(served.address)
    view = page.frame_locator("iframe.anomalies")
    expect(view.get_by_role("heading", name="Samples that fall short most")).to_be_visible(timeout=PATIENCE)
    expect(view.get_by_role("heading", name="1. 50.0 % short")).to_be_visible()
    bright = "rgb(255, 255, 255)"
    expect(view.locator("body")).to_have_css("background-color", bright)
    page.get_by_role("button", name="Switch to the dark theme").click()
    expect(view.locator("body")).not_to_have_css("background-color", bright)
    _, content, _ = ask(served.address, "anomalies")
    links = re.findall(r'href="\./#view=io&amp;part=(\d+)-(\d+)"', content)
    # a report of each sample that has requests, of no other
    assert len(links) == view.get_by_role("link").count() < content.count("measured at ")
    windows = {(row["ts"], row["dur"]) for row in Trail(trail).rows_of("SELECT ts, dur FROM measurement")}
    assert {(int(start), int(end) - int(start)) for start, end in links} <= windows
    view.get_by_role("link").first.click()
    shown = page.locator("[data-total='Requests']")
    expect(shown).to_have_text(str(sweep_trail.REQUESTS), timeout=PATIENCE)
    expect(page.locator("[data-total='Read']")).to_have_text("28.0 KiB")
    # what isn't known of a device's requests isn't shown as 0
    expect(page.locator("[data-total='Operations']")).to_have_count(0)
    expect(page.get_by_text("No thread was running")).to_have_count(0)
    # the specification is a long line
    assert page.locator("table.facts").evaluate("one => one.offsetWidth <= one.parentElement.clientWidth")
    until(page, f"() => location.hash.includes('part={links[0][0]}-{links[0][1]}')")
    page.get_by_role("button", name="Show the whole trail").click()
    all_requests = Trail(trail).rows["disk_op"]
    assert all_requests > sweep_trail.REQUESTS
    expect(shown).to_have_text(str(all_requests), timeout=PATIENCE)
    page.go_back()
    expect(view.get_by_role("heading", name="1. 50.0 % short")).to_be_visible(timeout=PATIENCE)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("start_ns=noon", "start_ns: expected a whole number, found 'noon'"),
        ("end_ns=-1", "end_ns: expected a whole number"),
        ("start_ns=9223372036854775808", "start_ns: expected less than 2^63"),
        ("start_ns=5&end_ns=4", "nothing between start_ns and end_ns"),
        ("end_ns=1000", "nothing between start_ns and end_ns"),
        ("start_ns=9223372036854775807", "nothing between start_ns and end_ns"),
    ],
)
def test_parts_that_are_none(trail: Path, serve: Serve, words: str, said: str) -> None:
    status, found, _ = ask(serve(trail).address, f"api/report?{words}")
    assert status == 400 and said in found["error"]


def test_a_trail_without_a_sweep_has_no_anomalies() -> None:
    """Its page has no such view, either (test_views)."""
    app = application(FIXTURE, None, None)
    assert json.loads(get(app, "/api/info")[1])["sweep"] is False
    end = time.monotonic() + PATIENCE / 1000
    while (answered := get(app, "/anomalies"))[0] == 202:
        assert time.monotonic() < end, "never"
        time.sleep(0.1)
    assert answered[0] == 422 and b"expected the trail of one sweep, found 0" in answered[1]


def test_only_who_has_the_token_gets_it(trail: Path) -> None:
    app = application(trail, None, "0123456789abcdef0123")
    assert get(app, "/anomalies")[0] == 401
    bearer = (b"authorization", b"Bearer 0123456789abcdef0123")
    assert get(app, "/anomalies", bearer)[0] == 202
    assert get(app, "/anomalies", bearer, (b"origin", b"http://evil.example"))[0] == 403


def test_without_a_trail_here_it_says_so() -> None:
    status, said = get(application(None, None, None), "/anomalies")
    assert status == 503 and b"iotrail serve X.trail --collector HOST:PORT" in said


def test_it_is_computed_once_for_each_trail(
    trail: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many ask meanwhile, and anew for the trail that `sweep --confirm` puts in its place."""
    path = tmp_path / "x.trail"
    shutil.copytree(trail, path)
    go_on, times = threading.Event(), []

    def render(_: Anomalies) -> bytes:
        times.append(1)
        assert go_on.wait(10)
        return b"page %d" % len(times)

    monkeypatch.setattr(Anomalies, "_render", render)
    anomalies = Anomalies(path)
    assert [anomalies.page() for _ in range(3)] == [None] * 3
    go_on.set()
    assert ready(anomalies) == b"page 1"
    assert anomalies.page() == b"page 1" and len(times) == 1
    shutil.copytree(path, tmp_path / "new.trail")
    shutil.rmtree(path)
    (tmp_path / "new.trail").rename(path)
    assert ready(anomalies) == b"page 2"


def test_what_fails_is_said_and_not_tried_again(
    trail: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def render(_: Anomalies) -> bytes:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(Anomalies, "_render", render)
    anomalies = Anomalies(trail)
    for _ in range(2):
        with pytest.raises(ServeError, match="the anomalies can't be computed"):
            ready(anomalies)
    assert capsys.readouterr().err.count("ZeroDivisionError: planted") == 1


def ready(anomalies: Anomalies) -> bytes:
    """The page, once it is there."""
    end = time.monotonic() + PATIENCE / 1000
    while (found := anomalies.page()) is None:
        assert time.monotonic() < end, "never"
        time.sleep(0.01)
    return found


def get(app: ASGIApp, path: str, *headers: tuple[bytes, bytes]) -> tuple[int, bytes]:
    """Status and body of an application's answer, without a server."""
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "GET",
        "scheme": "http",
        "path": path,
        "query_string": b"",
        "headers": [(b"host", b"127.0.0.1"), *headers],
    }
    # Playwright's loop runs in this thread.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, app(scope, receive, send)).result()
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:])

"""The cluster's view in Chromium: movement, time, selection, links, a lost stream, a thousand members."""

import io
import re
import struct
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect

from iotrail.trail import Trail

from . import cluster_trail
from .conftest import PATIENCE, Cluster, Served, free_port, peer, serving

Serve = Callable[..., Served]
START = cluster_trail.START // 1_000_000


def shown(page: Page) -> int:
    """The moment shown, after the start of the trail, in ms."""
    return int(page.locator("[data-moment]").get_attribute("data-moment") or 0) - START


def until(page: Page, condition: str) -> None:
    """Waits until an expression holds. Playwright's own waiting evaluates text in the page, which its policy forbids."""
    end = time.monotonic() + PATIENCE / 1000
    while not page.evaluate(condition):
        assert time.monotonic() < end, f"never: {condition}"
        time.sleep(0.1)


def drawn(page: Page, nodes: int) -> None:
    """Waits until so many marks stand and values are there."""
    until(page, f"() => document.querySelector('.pane')?.nodes?.() === {nodes}")
    page.locator("[data-ranking] li").first.wait_for()


def pixels(page: Page) -> np.ndarray:
    """The picture as rows of colours."""
    png = page.locator(".pane canvas").first.screenshot()
    stream = io.BytesIO(png[8:])
    width = height = 0
    data = b""
    while head := stream.read(8):
        length, kind = struct.unpack(">I4s", head)
        body = stream.read(length)
        stream.read(4)
        if kind == b"IHDR":
            width, height = struct.unpack(">II", body[:8])
        elif kind == b"IDAT":
            data += body
    raw = np.frombuffer(zlib.decompress(data), np.uint8)
    return raw.reshape(height, -1)[:, 1 : 1 + width * 3]


def settled(page: Page, before: np.ndarray, least: int) -> np.ndarray:
    """The picture once it stays as it is for longer than values glide, and differs from one before in more pixels."""
    end = time.monotonic() + PATIENCE / 1000
    after = pixels(page)
    while True:
        time.sleep(0.4)
        last, after = after, pixels(page)
        if (after == last).all() and (after != before).sum() > least:
            return after
        assert time.monotonic() < end, "the picture stays the same, or never does"


def point(page: Page, owner: str) -> tuple[float, float]:
    """Where a member is on the screen."""
    x, y = page.evaluate("owner => document.querySelector('.pane').where(owner)", owner)
    box = page.locator(".pane").first.bounding_box()
    assert box is not None
    return box["x"] + x, box["y"] + y


def number(page: Page, owner: str, name: str) -> str:
    """A number of the side panel."""
    row = page.locator(f"[data-owner='{owner}'] .numbers > div", has=page.locator(f"dt:text-is('{name}')"))
    return row.locator("dd").inner_text()


def test_recorded_time_moves(page: Page, cluster: Cluster, serve: Serve) -> None:
    """Playing, the moment goes on and the picture changes; paused, neither."""
    page.goto(serve(cluster(30)).address + f"#t={START + 20_000}&play=0&speed=4")
    drawn(page, 30 - 1)  # one client joins later
    page.keyboard.press("Space")
    until(page, f"() => Number(document.querySelector('[data-moment]').dataset.moment) > {START + 22_000}")
    page.keyboard.press("Space")
    expect(page.get_by_label("Play", exact=True)).to_be_visible()
    time.sleep(1.5)
    at, before = shown(page), pixels(page)
    time.sleep(1)
    assert shown(page) == at
    assert (pixels(page) == before).all()
    page.keyboard.press("Space")
    until(page, f"() => Number(document.querySelector('[data-moment]').dataset.moment) > {START + at + 3000}")
    assert (pixels(page) != before).sum() > 500


def test_numbers_are_the_modules(page: Page, cluster: Cluster, serve: Serve) -> None:
    """What the panel says of an OSD at a moment is what SQL says."""
    trail = cluster(30)
    page.goto(serve(trail).address + f"#t={START + 60_500}&play=0&select=osd.0")
    page.locator("[data-owner='osd.0'] .numbers dd").first.wait_for()
    rows = Trail(trail, {"every_ns": 1_000_000_000}).rows_of(
        """SELECT metric, SUM(value) AS value FROM sample
        WHERE member = 'osd.0' AND ts = $ts GROUP BY metric""",
        {"ts": (START + 60_000) * 1_000_000},
    )
    value = {row["metric"]: row["value"] for row in rows}
    assert number(page, "osd.0", "CPU") == f"{value['daemon_cpu'] / 1e7:.0f} %"
    assert number(page, "osd.0", "requests") == f"{value['op']:.0f}/s"
    assert number(page, "osd.0", "response time") == f"{value['op_time'] / value['op'] / 1e6:.1f} ms"
    assert number(page, "osd.0", "space used") == f"{100 * value['space_used'] / value['space_size']:.0f} %"


def test_scrub_back(page: Page, cluster: Cluster, serve: Serve) -> None:
    """Back to before the complaint the OSD isn't hot; at the failure another is named."""
    page.goto(serve(cluster(30)).address + f"#t={START + 60_000}&play=0")
    drawn(page, 30)
    first = page.locator("[data-ranking] li").first
    assert int(re.findall(r"(\d+) %", first.inner_text())[0]) > 80
    track = page.locator(".track")
    box = track.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + 20)
    page.mouse.move(box["x"] + box["width"] * 0.2, box["y"] + 20)
    page.mouse.up()
    until(
        page,
        """() => Number(document.querySelector("[data-ranking] li b")?.textContent.split(" ")[0]) < 60""",
    )
    assert abs(shown(page) - 24_000) < 1_500
    page.mouse.click(box["x"] + box["width"] * 75 / 120, box["y"] + 20)
    page.locator(".side-panel", has_text="Not answering").wait_for()
    assert "osd.12" in page.locator(".side-panel").inner_text()
    assert "no heartbeat" in page.locator(".side-panel").inner_text()


def test_selection(page: Page, cluster: Cluster, serve: Serve) -> None:
    """A click selects, Ctrl adds, a rubber band takes several, search finds, Escape clears."""
    page.goto(serve(cluster(30)).address + f"#t={START + 60_000}&play=0")
    drawn(page, 30)
    page.mouse.click(*point(page, "osd.3"))
    page.locator("[data-owner='osd.3']").wait_for()
    page.keyboard.down("Control")
    page.mouse.click(*point(page, "mds.m1"))
    page.keyboard.up("Control")
    page.locator("[data-owner='mds.m1']").wait_for()
    assert page.locator("[data-owner]").count() == 2
    (x0, y0), (x1, y1) = point(page, "osd.7"), point(page, "osd.9")
    page.keyboard.down("Shift")
    page.mouse.move(x0 - 10, y0 - 30)
    page.mouse.down()
    page.mouse.move(x1 + 10, y1 + 30, steps=4)
    page.mouse.up()
    page.keyboard.up("Shift")
    page.locator("[data-owner='osd.8']").wait_for()
    assert page.locator("[data-owner]").evaluate_all("all => all.map(e => e.dataset.owner)") == [
        "osd.7",
        "osd.8",
        "osd.9",
    ]
    until(page, "() => location.hash.includes('select=osd.7%2Cosd.8%2Cosd.9')")
    page.keyboard.press("Escape")
    expect(page.locator("[data-owner]")).to_have_count(0)
    page.keyboard.press("/")
    page.keyboard.type("mds")
    expect(page.locator(".found")).to_have_text("2 found · Enter selects")
    page.keyboard.press("Enter")
    expect(page.locator("[data-owner]")).to_have_count(2)


def test_link(page: Page, browser: Browser, cluster: Cluster, serve: Serve) -> None:
    """A link shows somebody else the same: moment, colours, marks, nearness, selection."""
    page.goto(serve(cluster(30)).address + f"#t={START + 64_000}&play=0")
    drawn(page, 30)
    page.locator(".colour-by select").select_option("busy")
    page.locator("[data-toggle='replica'] input").uncheck()
    page.mouse.click(*point(page, "osd.5"))
    page.keyboard.press("ArrowRight")
    x, y = point(page, "osd.5")
    page.mouse.move(x, y)
    page.mouse.wheel(0, -500)
    time.sleep(1)
    until(page, f"() => location.hash.includes('t={START + 65_000}')")
    assert "sight=" in page.url
    there = point(page, "osd.5")
    context = browser.new_context(viewport={"width": 1280, "height": 720})
    other = context.new_page()
    other.goto(page.url)
    other.locator("[data-owner='osd.5'] .numbers dd").first.wait_for()
    assert other.locator(".colour-by select").input_value() == "busy"
    assert not other.locator("[data-toggle='replica'] input").is_checked()
    assert shown(other) == 65_000
    until(other, "() => document.querySelector('.pane')?.nodes?.() === 30")
    assert point(other, "osd.5") == pytest.approx(there, abs=2)
    assert number(other, "osd.5", "disk busy") == number(page, "osd.5", "disk busy")
    context.close()


def test_two_moments(page: Page, cluster: Cluster, serve: Serve) -> None:
    """Two panes, one moment each."""
    page.goto(serve(cluster(30)).address + f"#t={START + 60_000}&play=0&than={START + 20_000}")
    expect(page.locator(".pane")).to_have_count(2)
    labels = page.locator(".pane-label")
    expect(labels.nth(0)).to_contain_text("08:54:20")
    expect(labels.nth(1)).to_contain_text("08:53:40")
    until(page, "() => [...document.querySelectorAll('.pane')].map(p => p.nodes?.()).join() === '30,29'")
    page.get_by_role("button", name="One moment").click()
    expect(page.locator(".pane")).to_have_count(1)


def test_nearness_decides_on_the_grain(page: Page, cluster: Cluster, serve: Serve) -> None:
    """A thousand members: one by one, by host, by rack; all shown, and animated."""
    page.goto(serve(cluster(1000)).address + f"#t={START + 60_000}")
    drawn(page, 1000)
    assert "545 of 546" not in page.locator(".side-panel").inner_text()
    page.get_by_role("button", name="Host", exact=True).click()
    until(page, "() => document.querySelector('.pane').nodes() === 46 + 71")
    page.get_by_role("button", name="Rack", exact=True).click()
    until(page, "() => document.querySelector('.pane').nodes() === 10 + 8")
    page.get_by_role("button", name="Node", exact=True).click()
    until(page, "() => document.querySelector('.pane').nodes() === 1000")
    before, end = pixels(page), time.monotonic() + PATIENCE / 1000
    while (pixels(page) != before).sum() <= 2000:
        assert time.monotonic() < end, "nothing moves"
        time.sleep(0.5)


def test_toggles(page: Page, cluster: Cluster, serve: Serve) -> None:
    """A mark that is switched off is gone from the picture."""
    page.goto(serve(cluster(30)).address + f"#t={START + 60_000}&play=0")
    drawn(page, 30)
    time.sleep(1)
    before = pixels(page)
    for toggle in (
        "traffic",
        "replica",
        "pie",
        "space",
        "busy",
        "sizes",
        "values",
        "cache",
        "journal",
        "names",
    ):
        page.locator(f"[data-toggle='{toggle}'] input").uncheck()
        before = settled(page, before, 30)


def test_live_stream_lost_and_back(page: Page, cluster: Cluster, tmp_path: Path) -> None:
    """Live, the picture moves; a lost stream is said, and tried again until it is back; scrubbing back leaves it."""
    port = free_port()
    trail = cluster(30)
    with peer(trail, port) as first, serving("--collector", f"127.0.0.1:{port}") as served:
        page.goto(served.address)
        fresh = page.locator(".freshness")
        expect(fresh).to_have_text("live · 0.3 s behind", timeout=PATIENCE)
        drawn(page, 30)
        before = pixels(page)
        time.sleep(2)
        assert (pixels(page) != before).sum() > 500
        moment = shown(page)
        first.kill()
        expect(fresh).to_have_text(re.compile(r"stream lost, retrying in \d+ s"), timeout=PATIENCE)
        assert "freshness lost" in (fresh.get_attribute("class") or "")
        with peer(trail, port):
            expect(fresh).to_have_text("live · 0.3 s behind", timeout=PATIENCE)
            until(
                page,
                f"() => Number(document.querySelector('[data-moment]').dataset.moment) > {START + moment}",
            )
            page.evaluate(f"location.hash = 't={START + 60_000}&play=0'")
            until(page, "() => document.querySelector('.follow').ariaPressed === 'false'")
            assert shown(page) == 60_000
            page.keyboard.press("l")
            until(page, "() => document.querySelector('.follow').ariaPressed === 'true'")
            until(
                page,
                f"() => Number(document.querySelector('[data-moment]').dataset.moment) > {START + moment}",
            )


def test_live_notices(page: Page, cluster: Cluster) -> None:
    """An OSD that fails while one looks elsewhere, or at groups only, is noticed."""
    port = free_port()
    trail = cluster(30)
    with peer(trail, port), serving("--collector", f"127.0.0.1:{port}") as served:
        page.goto(f"{served.address}#by=host")
        count = page.locator(".notice-count")
        expect(count).to_have_text("No notices", timeout=PATIENCE)
        # a minute is sent in a quarter of one
        expect(count).to_have_text("1 notice, 1 out of sight", timeout=2 * PATIENCE)
        count.click()
        expect(page.locator(".notice-list button")).to_contain_text("osd.12")


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten minutes of a cluster: the complaint begins after three, an OSD fails after six."""
    return cluster_trail.write(tmp_path_factory.mktemp("long") / "long.trail", 30, 600)


def test_notices(page: Page, long: Path, serve: Serve) -> None:
    """What is unusual is listed, more loudly if it isn't in sight, and leads to the moment and the member."""
    page.goto(serve(long).address + f"#t={START + 355_000}&play=0")
    drawn(page, 30)
    count = page.locator(".notice-count")
    expect(count).to_have_text(re.compile(r"^\d+ notices$"), timeout=PATIENCE)
    page.keyboard.press("n")
    listed = page.locator(".notice-list")
    # the first OSD's requests take four times as long from then on; the complaint is of its machine
    hot = listed.locator("button", has_text="osd.0").filter(has_text="response time")
    expect(hot).to_contain_text("usually", timeout=PATIENCE)
    expect(listed).not_to_contain_text("osd.9")
    expect(listed).not_to_contain_text("osd.12")
    hot.focus()
    page.keyboard.press("Enter")
    page.locator("[data-owner='osd.0'] .numbers dd").first.wait_for()
    assert 180_000 <= shown(page) < 190_000
    box = page.locator(".pane").first.bounding_box()
    assert box is not None
    until(page, "() => new URLSearchParams(location.hash.slice(1)).has('sight')")
    x, y = point(page, "osd.0")
    assert abs(x - box["x"] - box["width"] / 2) < 3
    assert abs(y - box["y"] - box["height"] / 2) < 3
    # near to another member, at a moment at which one failed
    page.evaluate(f"location.hash = location.hash.replace(/t=[0-9]+/, 't={START + 365_000}')")
    expect(count).to_have_text(re.compile(r"\d+ notices, \d+ out of sight"), timeout=PATIENCE)
    page.locator(".notice-count.failed").wait_for()
    expect(listed.locator("button", has_text="osd.12")).to_contain_text("marked down by the monitors")
    page.keyboard.press("Escape")
    expect(listed).to_have_count(0)


def test_a_trail_without_a_cluster(page: Page, serve: Serve) -> None:
    """It is said, and nothing fails."""
    page.goto(serve(Path(__file__).parents[1] / "fixtures/v1.trail").address)
    expect(page.locator(".pane-note")).to_have_text("This trail has no members of a cluster.")


def test_themes_and_help(page: Page, cluster: Cluster, serve: Serve) -> None:
    """Dark is dark in the picture too; ? shows the keys."""
    page.goto(serve(cluster(30)).address + f"#t={START + 60_000}&play=0")
    drawn(page, 30)
    page.get_by_role("button", name="Switch to the dark theme").click()
    time.sleep(1)
    assert pixels(page).mean() < 70
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("play or pause")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)

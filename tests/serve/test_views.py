"""The views of requests and of SQL in Chromium, on the small store of tests/sql/store."""

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from iotrail import report
from iotrail.trail import Trail
from tests.sql.tiny import write_trail

from .conftest import PATIENCE, Cluster, Served
from .test_page import until

NATIVE = Path(__file__).parents[2] / "python/iotrail/_native/iotrail-native"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A head, a metadata server and a storage node."""
    return write_trail(NATIVE, Path(__file__).parents[1] / "sql/store", tmp_path_factory.mktemp("store"))


def test_from_all_requests_to_one_path(page: Page, store: Path, serve: Callable[..., Served]) -> None:
    """Counts, the drawn graph, the slowest and its way; the address holds it all."""
    served = serve(store)
    page.goto(f"{served.address}#view=requests&span=0")
    n = Trail(store).rows_of("SELECT COUNT(*) AS n FROM request")[0]["n"]
    expect(page.get_by_text(f"{n} requests", exact=False).first).to_be_visible(timeout=PATIENCE)
    expect(page.locator(".drawing svg g.node").first).to_be_visible(timeout=PATIENCE)
    page.locator(".slowest button").first.click()
    expect(page.locator(".path tbody tr").first).to_be_visible(timeout=PATIENCE)
    slowest = Trail(store).rows_of("SELECT MAX(dur) AS dur FROM request")[0]["dur"]
    assert slowest > 0
    assert page.locator(".path rect").count() > 1
    page.get_by_label("client").select_option("bob")
    of_bob = Trail(store).rows_of("SELECT COUNT(*) AS n FROM request WHERE client = 'bob'")[0]["n"]
    expect(page.locator(".slowest tbody tr")).to_have_count(of_bob, timeout=PATIENCE)
    page.wait_for_timeout(500)
    again = page.context.new_page()
    again.goto(page.url)
    expect(again.locator(".slowest tbody tr")).to_have_count(of_bob, timeout=PATIENCE)


def test_sql_is_answered_and_refused(page: Page, store: Path, serve: Callable[..., Served]) -> None:
    """By button and by key; what it says of a mistake is shown."""
    served = serve(store)
    page.goto(f"{served.address}#view=sql")
    text = page.get_by_label("SQL")
    text.fill("SELECT COUNT(*) AS n FROM stitch")
    page.get_by_role("button", name="Ask").click()
    n = Trail(store).rows["stitch"]
    expect(page.locator(".sql-answer td").first).to_have_text(str(n), timeout=PATIENCE)
    text.fill("SELECT * FROM read_text('/etc/passwd')")
    text.press("Control+Enter")
    expect(page.get_by_role("alert")).to_contain_text("disabled", timeout=PATIENCE)
    page.get_by_placeholder("Tables and modules").fill("graph_edge")
    expect(page.locator(".sql-list details")).to_have_count(1, timeout=PATIENCE)


def test_the_report_is_a_view(page: Page, serve: Callable[..., Served]) -> None:
    """Its totals are the report's; what it is narrowed to is in the address, beside what other views are."""
    trail = Path(__file__).parents[1] / "fixtures/v1.trail"
    served = serve(trail)
    page.goto(f"{served.address}#view=io&span=0")
    # no sweep
    expect(page.get_by_role("button", name="SQL")).to_be_visible(timeout=PATIENCE)
    expect(page.get_by_role("button", name="Anomalies")).to_have_count(0)
    shown = page.locator("[data-total='Operations']")
    cells = report.collect(Trail(trail))["cells"]
    assert sum(cells["ops"]) > 0
    expect(shown).to_have_text(str(sum(cells["ops"])), timeout=PATIENCE)
    page.locator(".finding .button").first.click()
    span = page.locator("[data-span]").inner_text()
    chips = page.locator(".chip").all_inner_texts()
    assert chips
    until(page, "() => location.hash.includes('io=') && location.hash.includes('span=0')")
    again = page.context.new_page()
    again.goto(page.evaluate("location.href"))
    expect(again.locator(".chip")).to_have_count(len(chips), timeout=PATIENCE)
    assert again.locator(".chip").all_inner_texts() == chips
    assert again.locator("[data-span]").inner_text() == span


def test_the_io_of_a_cluster(page: Page, cluster: Cluster, serve: Callable[..., Served]) -> None:
    """A trail without file operations says so."""
    page.goto(f"{serve(cluster(3)).address}#view=io")
    expect(page.get_by_text("This trail has no file operations")).to_be_visible(timeout=PATIENCE)


def test_the_requests_of_disks_alone(page: Page, store: Path, serve: Callable[..., Served]) -> None:
    """What isn't known of calls isn't shown as 0."""
    page.goto(f"{serve(store).address}#view=io")
    devices = report.collect(Trail(store))["block"]["devices"]
    n = sum(devices["reads"]) + sum(devices["writes"])
    assert n > 0
    expect(page.locator("[data-total='Requests']")).to_have_text(str(n), timeout=PATIENCE)
    expect(page.locator("[data-total='Operations']")).to_have_count(0)

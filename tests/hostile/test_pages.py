"""Names that give orders to who shows them, in the pages of `report` and `serve`: a browser obeys and hides nothing."""

from pathlib import Path

import pyarrow as pa
import pytest
from playwright.sync_api import Browser, Page, expect

from iotrail.visible import visible
from tests.report.conftest import run_report
from tests.serve import cluster_trail
from tests.serve.conftest import PATIENCE, browser, serving  # noqa: F401
from tests.sql.tiny import ingest, write_trail

from .test_names import ORDERS, STORIES, hostile

# All that a browser shows or reads to somebody: texts, tooltips and labels.
SHOWN = """() => {
    const found = [document.title];
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        if (!texts.currentNode.parentElement.closest("script, style")) found.push(texts.currentNode.data);
    }
    for (const one of document.querySelectorAll("*")) {
        for (const name of ["title", "aria-label", "placeholder", "alt"]) found.push(one.getAttribute(name) ?? "");
    }
    return found;
}"""


def check(page: Page, name: str) -> None:
    """The page shows some name, and what it gives orders with."""
    expect(page.locator("body")).to_contain_text(
        visible(name + ORDERS).replace("\n", "\\n"), timeout=PATIENCE
    )
    for text in page.evaluate(SHOWN):
        assert visible(text) == text
        assert "\nFORGED" not in text


@pytest.fixture(scope="module")
def stories(native: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A program's calls, requests through a small store, and a cluster."""
    into = tmp_path_factory.mktemp("pages")
    found = {story: write_trail(native, STORIES / story, into, hostile) for story in ("run", "store")}
    tables: dict[str, pa.Table] = cluster_trail.tables(8, 20)
    for name, rows in tables.items():
        changed = hostile(name, rows)
        # of what is no known role nothing is drawn
        tables[name] = (
            changed.set_column(changed.column_names.index("role"), "role", rows["role"])
            if "role" in rows.column_names
            else changed
        )
    found["cluster"] = ingest(native, tables, into / "cluster.trail")
    return found


@pytest.mark.parametrize("width", [1400, 700])
def test_the_report(browser: Browser, stories: dict[str, Path], tmp_path: Path, width: int) -> None:  # noqa: F811
    """Files, processes, threads, commands and cards."""
    file = tmp_path / "report.html"
    done = run_report(stories["run"], "-o", file)
    assert done.returncode == 0, done.stderr
    page = browser.new_page(viewport={"width": width, "height": 900})
    page.goto(f"file://{file}")
    check(page, "/data/a")
    page.close()


def test_the_served_pages(browser: Browser, stories: dict[str, Path]) -> None:  # noqa: F811
    """Requests, their graph and a path; the answer and the error of a query, of which lines are its own; the members."""
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    with serving(stories["store"]) as served:
        page.goto(f"{served.address}#view=requests&span=0")
        expect(page.locator(".drawing svg g.node").first).to_be_visible(timeout=PATIENCE)
        assert all(
            not text.startswith("FORGED") for text in page.locator(".drawing text").all_text_contents()
        )
        page.locator(".slowest button").first.click()
        expect(page.locator(".path tbody tr").first).to_be_visible(timeout=PATIENCE)
        check(page, "alice")
        page.goto(f"{served.address}#view=sql")
        page.get_by_label("SQL").fill("SELECT DISTINCT client FROM service_op WHERE client IS NOT NULL")
        page.get_by_role("button", name="Ask").click()
        check(page, "alice")
        page.get_by_label("SQL").fill("SELECT 1 FROM")
        page.get_by_role("button", name="Ask").click()
        expect(page.get_by_role("alert")).to_contain_text("line 1: SELECT 1 FROM", timeout=PATIENCE)
        assert page.locator("[role=alert] div").count() > 1
    with serving(stories["cluster"]) as served:
        page.goto(served.address)
        check(page, "osd.0")
    page.close()

"""The report's view of who waits for whom: its numbers are those of the modules, and it is bounded."""

import json
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import pytest
from playwright.sync_api import Browser, Page, expect

from iotrail import report
from iotrail.causal import lanes
from iotrail.report import bucket_width
from iotrail.trail import Trail

from ..causal import synthetic
from .conftest import Ingest, run_report
from .test_page import brush, opened, span_of

MS = 1_000_000


def work(rank: int, turn: int, rng: Random) -> list[synthetic.Step]:
    """Rank 2 writes longer than the others; each computes."""
    write = ("pwrite", f"/data/part.{rank}", rng.randrange(1, 4 if rank != 2 else 12) * MS)
    return [("compute", rng.randrange(MS // 2, MS), rng.randrange(MS // 4)), write]


@pytest.fixture(scope="module")
def causal(ingest: Ingest) -> Path:
    return ingest("causal", synthetic.tables(work, seed=1, rounds=300))


@pytest.fixture(scope="module")
def causal_page(causal: Path) -> Path:
    output = causal.with_suffix(".html")
    done = run_report(causal, "-o", output)
    assert done.returncode == 0, done.stderr
    return output


@pytest.fixture(scope="module")
def trail(causal: Path) -> Trail:
    trail = Trail(causal)
    span = trail.rows_of("SELECT start_ts, end_ts FROM trail_span")[0]
    trail.set_params({"every_ns": bucket_width(span["end_ts"] - span["start_ts"])})
    return trail


def table(page: Page, name: str) -> list[list[str | int]]:
    """Rows of a table, without shares; times in ns."""
    return page.evaluate(
        """(name) => [...document.querySelectorAll(`[data-causal=${name}] tbody tr`)].map((row) =>
            [...row.children].filter((cell) => !cell.textContent.includes("%")).map((cell) =>
                cell.dataset.value ? Number(cell.dataset.value) : cell.textContent))""",
        name,
    )


def expected_path(trail: Trail, where: str) -> list[list[str | int]]:
    rows = trail.rows_of(f"""
        SELECT CONCAT('rank ', t.rank) AS who, work, call, COALESCE(f.path, '') AS path, CAST(SUM(path_ns) AS BIGINT) AS ns
        FROM causal_cell AS c JOIN thread_life AS t USING (thread) LEFT JOIN file AS f ON f.file = c.file
        WHERE path_ns > 0 AND {where} GROUP BY ALL""")
    words = {
        "compute": "on a CPU",
        "unexplained": "not known, between calls",
        "resume": "going on after the signal in MPI_Barrier",
    }
    return [[row["who"], words.get(row["work"]) or row["call"], row["path"], row["ns"]] for row in rows]


def expected_waits(trail: Trail, where: str) -> list[list[str | int]]:
    rows = trail.rows_of(f"""
        SELECT CONCAT('rank ', p.rank) AS who, state, COUNT(DISTINCT c.thread) AS by, MIN(t.rank) AS one,
            CAST(SUM(ns) AS BIGINT) AS ns, CAST(SUM(n) AS BIGINT) AS n
        FROM causal_cell AS c JOIN thread_life AS t USING (thread) JOIN thread_life AS p ON p.thread = c.cause_thread
        WHERE {where} GROUP BY ALL""")
    return [
        [
            row["who"],
            row["state"],
            f"{row['by']} threads" if row["by"] > 1 else f"rank {row['one']}",
            row["ns"],
            f"{row['n']:,}",
        ]
        for row in rows
    ]


def test_the_tables_follow_the_brush_and_equal_the_modules(
    browser: Browser, causal_page: Path, trail: Trail
) -> None:
    with opened(browser, causal_page) as page:
        for where in ("TRUE", "brushed"):
            if where == "brushed":
                brush(page)
                where = span_of(page, trail)
            assert sorted(table(page, "path")) == sorted(expected_path(trail, where))
            assert sorted(table(page, "waited")) == sorted(expected_waits(trail, where))
        whole = trail.rows_of("SELECT CAST(SUM(ns) AS BIGINT) AS ns FROM critical_part")[0]["ns"]
        page.get_by_role("button", name="Whole run", exact=True).click()
        assert sum(int(row[-1]) for row in table(page, "path")) == whole


def test_arrows_are_the_longest_waits_and_all_on_zooming(
    browser: Browser, causal_page: Path, trail: Trail
) -> None:
    [[waits]] = trail.query("SELECT COUNT(*) FROM wait_state WHERE blocked_ns > 0").fetchall()
    with opened(browser, causal_page) as page:
        said = page.locator("#causality [role=status]")
        drawn = int(said.get_attribute("data-drawn") or 0)
        assert int(said.get_attribute("data-all") or 0) == waits
        assert 20 < drawn < waits
        expect(said).to_contain_text(f"{waits - drawn} are left out; look closer")
        # the first arrow in time: a keyboard's way to what the pointer sees
        page.locator("#causality").get_by_role("button", name="Wait ▸").focus()
        page.keyboard.press("Enter")
        expect(said).to_contain_text("waited for rank")
        expect(said).to_contain_text("wait state collective, call MPI_Barrier, waited ")
        page.locator("#causality").get_by_role("button", name="Zoom to it").click()
        where = span_of(page, trail).replace("ts ", "cause_ts ")
        [[within]] = trail.query(
            f"SELECT COUNT(*) FROM wait_state WHERE blocked_ns > 0 AND {where}"
        ).fetchall()
        expect(said).to_have_attribute("data-drawn", str(within))
        assert said.get_attribute("data-all") == str(within)


def test_the_pointer_is_told_what_is_under_it(browser: Browser, causal_page: Path, trail: Trail) -> None:
    with opened(browser, causal_page) as page:
        canvas = page.locator("#causality canvas")
        canvas.scroll_into_view_if_needed()
        box = canvas.bounding_box()
        assert box is not None
        tooltip = page.locator("#causality .tooltip")
        # the middle of rank 2's lane, then its upper edge, where no arrow's head is
        page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 2 * 30 + 2)
        expect(tooltip).to_contain_text("rank 2, ")
        expect(tooltip).to_contain_text("pwrite /data/part.2")
        signal = trail.rows_of("""
            SELECT w.cause_ts - s.start_ts AS signal, t.rank, p.rank AS cause
            FROM wait_state AS w JOIN thread_life AS t USING (thread) JOIN thread_life AS p ON p.thread = w.cause_thread
            CROSS JOIN trail_span AS s ORDER BY blocked_ns DESC LIMIT 1""")[0]
        run = collect_run(page)
        at = (signal["signal"] - run["origin"]) / (run["bucket"] * run["buckets"])
        page.mouse.move(box["x"] + box["width"] * at, box["y"] + signal["rank"] * 30 + 13)
        expect(tooltip).to_contain_text(f"rank {signal['rank']} waited for rank {signal['cause']}")
        expect(tooltip).to_contain_text("MPI_Barrier")


def collect_run(page: Page) -> dict[str, int]:
    """The run's time axis, from the slider and the width of buckets that the page says."""
    buckets = int(page.get_by_role("slider", name="End of the time span").get_attribute("aria-valuemax") or 0)
    text = page.locator(".bucket-note").inner_text()
    value, unit = text.removeprefix("buckets of ").split()
    bucket = int(float(value) * {"µs": 1e3, "ms": 1e6, "s": 1e9}[unit])
    return {"origin": -(synthetic.START % bucket), "bucket": bucket, "buckets": buckets}


def view(path: Path) -> Any:
    """The report's view of a trail. The findings, which take most of a report's time, are left out: the view has none of them."""
    with mock.patch.object(report._Collector, "diagnosis", return_value=[]):
        return report.collect(Trail(path))["causality"]


def test_a_trail_without_causality_has_no_such_view(
    browser: Browser, page_file: Path, database: Path
) -> None:
    assert view(database) is None
    with opened(browser, page_file) as page:
        assert page.locator("#causality").count() == 0


def test_the_view_fits_a_narrow_window(browser: Browser, causal_page: Path) -> None:
    with opened(browser, causal_page) as page:
        page.set_viewport_size({"width": 700, "height": 900})
        page.wait_for_timeout(200)
        assert page.evaluate("document.documentElement.scrollWidth") == 700
        width = page.locator("#causality canvas").evaluate("(canvas) => canvas.clientWidth")
        assert width > 350


def test_the_view_is_bounded(causal: Path, ingest: Ingest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is left out, times still add up."""
    whole = view(causal)
    monkeypatch.setattr(lanes, "MOST_LANES", 2)
    monkeypatch.setattr(lanes, "MOST_CELLS", 1)
    monkeypatch.setattr(lanes, "MOST_ARROWS", 1)
    bounded = view(causal)
    assert (len(bounded["lanes"]["thread"]), bounded["others"]) == (2, 2)
    for column in ("n", "ns", "path"):
        assert sum(bounded["cells"][column]) == sum(whole["cells"][column])
    assert len(bounded["cells"]["ns"]) < len(whole["cells"]["ns"])
    buckets = len(whole["waits"]["first"]) - 1
    assert (
        len(bounded["waits"]["lane"])
        <= buckets
        < bounded["waits"]["first"][-1]
        == whole["waits"]["first"][-1]
    )
    assert len(bounded["path"]["lane"]) <= buckets

    def many_files(rank: int, turn: int, rng: Random) -> list[synthetic.Step]:
        return [("pwrite", f"/many/{rank}.{turn}.{file}", rng.randrange(1, 20) * 1000) for file in range(40)]

    many = ingest("many", synthetic.tables(many_files, ranks=3, rounds=100))
    monkeypatch.undo()
    monkeypatch.setattr(lanes, "MOST_CELLS", 2_000)
    data = view(many)
    assert any(data["what"]["merged"])
    # four each of a bucket and lane, and those merged
    assert len(data["cells"]["ns"]) < 500 * 3 * 8
    assert json.dumps(data).count("pwrite") == 1

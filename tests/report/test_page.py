"""The report in a browser: it asks nobody for anything, and its numbers are those of `iotrail sql`."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from iotrail.report import bucket_width, collect
from iotrail.trail import Trail


@contextmanager
def opened(browser: Browser, file: Path, fragment: str = "", **options: object) -> Iterator[Page]:
    """The page, held to no request but for itself and no word on the console."""
    context = browser.new_context(viewport={"width": 1366, "height": 768}, **options)
    page = context.new_page()
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"file://{file}{fragment}")
    page.wait_for_selector("main")
    try:
        yield page
        assert said == []
        assert [url for url in asked if not url.startswith(("data:", "blob:"))] == [f"file://{file}"]
    finally:
        context.close()


@pytest.fixture
def page(browser: Browser, page_file: Path) -> Iterator[Page]:
    with opened(browser, page_file) as page:
        yield page


@pytest.fixture(scope="module")
def trail(database: Path) -> Trail:
    trail = Trail(database)
    span = trail.rows_of("SELECT start_ts, end_ts FROM trail_span")[0]
    trail.set_params({"every_ns": bucket_width(span["end_ts"] - span["start_ts"])})
    return trail


def latency_table(page: Page) -> dict[str, dict[str, int]]:
    """Calls of the latency table: operations and percentiles in ns."""
    return page.evaluate(
        """() => Object.fromEntries([...document.querySelectorAll("tr[data-call]")].map((row) => [
            row.dataset.call,
            Object.fromEntries([...row.querySelectorAll("td[data-value]")].map((cell) =>
                [cell.dataset.percentile ?? "ops", Number(cell.dataset.value)])),
        ]))"""
    )


def table_rows(page: Page) -> dict[str, dict[str, float]]:
    """Rows of the table of files, processes, threads or calls: numbers by first cell's text."""
    return page.evaluate(
        """() => Object.fromEntries([...document.querySelectorAll("#tables .table-row")].map((row) => [
            row.firstElementChild.textContent,
            Object.fromEntries([...row.querySelectorAll("[data-value]")].map((cell) =>
                [cell.dataset.column, Number(cell.dataset.value)])),
        ]))"""
    )


def lanes(page: Page) -> list[tuple[int, int, int]]:
    """Time of each process in the split: I/O, waiting, on a CPU in ns; 0 where unknown."""
    return page.evaluate(
        """() => [...document.querySelectorAll('.lane[data-process="true"]')].map((lane) =>
            ["io", "sync", "compute"].map((part) => Number(lane.querySelector(`[data-part=${part}]`).dataset.value)))"""
    )


def span_of(page: Page, trail: Trail) -> str:
    """The page's brushed span as an SQL condition on `ts` of time buckets."""
    first, last = map(int, page.locator("[data-span]").get_attribute("data-span").split("-"))
    bucket = trail.rows_of("SELECT MIN(ts) AS ts, MAX(every_ns) AS every FROM time_bucket")[0]
    return f"ts >= {bucket['ts'] + first * bucket['every']} AND ts < {bucket['ts'] + last * bucket['every']}"


TILES = ("Run time", "Processes", "Operations", "Read", "Written", "Files")

# As module percentiles, for the operations that {where} selects.
LATENCY = """
WITH h AS (
    SELECT c.call, l.latency, SUM(c.n) AS n, MAX(c.max_ns) AS max_ns
    FROM cell AS c JOIN (SELECT DISTINCT bucket, latency FROM latency) AS l USING (bucket)
    WHERE {where} GROUP BY ALL
),
r AS (
    SELECT *, SUM(n) OVER (PARTITION BY call ORDER BY latency) AS until_here, SUM(n) OVER (PARTITION BY call) AS of_all
    FROM h
)
SELECT
    call,
    SUM(n) AS ops,
    MIN(latency) FILTER (WHERE until_here * 1000 >= of_all * 500) AS p50,
    MIN(latency) FILTER (WHERE until_here * 1000 >= of_all * 900) AS p90,
    MIN(latency) FILTER (WHERE until_here * 1000 >= of_all * 990) AS p99,
    MIN(latency) FILTER (WHERE until_here * 1000 >= of_all * 999) AS "p99.9",
    MAX(max_ns) AS max
FROM r
GROUP BY call
"""


def by_call(rows: list[dict[str, int]]) -> dict[str, dict[str, int]]:
    return {row["call"]: {key: int(value) for key, value in row.items() if key != "call"} for row in rows}


@pytest.mark.parametrize("width", [700, 900, 1366])
def test_times_of_a_week_fit_their_column(browser: Browser, page_file: Path, width: int) -> None:
    """On one line, and within the panel."""
    with opened(browser, page_file) as page:
        page.set_viewport_size({"width": width, "height": 768})
        lines, right, edge = page.evaluate(
            """() => {
                const cell = document.querySelector(".lane [data-part=compute]");
                cell.textContent = "334 h 42 min";
                const text = document.createRange();
                text.selectNodeContents(cell);
                return [text.getClientRects().length, text.getBoundingClientRect().right,
                    document.querySelector(".lanes").getBoundingClientRect().right];
            }"""
        )
        assert lines == 1
        assert right <= edge


def test_whole_run_equals_the_modules(page: Page, trail: Trail) -> None:
    overview = trail.rows_of("SELECT * FROM overview")[0]
    title = page.locator(".tile", has_text="Operations").get_attribute("title")
    assert title == f"{overview['ops']:,} file operations"
    for name, column in (("Read", "bytes_read"), ("Written", "bytes_written")):
        assert page.locator(".tile", has_text=name).get_attribute("title") == f"{overview[column]:,} bytes"

    files_tile = page.locator(".tile", has_text="Files").locator("[data-total]")
    assert files_tile.inner_text() == f"{overview['files']:,}"

    expected = trail.rows_of("""
        SELECT call, n AS ops, p50_ns AS p50, p90_ns AS p90, p99_ns AS p99, p999_ns AS "p99.9", max_ns AS max
        FROM percentiles WHERE per = 'call'""")
    assert latency_table(page) == by_call(expected)

    files = {row["path"]: row for row in trail.rows_of("SELECT * FROM file_summary")}
    shown = table_rows(page)
    assert shown.keys() == files.keys()
    for path, row in shown.items():
        assert (row["ops"], row["dur"], row["max"], row["errors"]) == tuple(
            files[path][column] for column in ("n", "time_ns", "max_ns", "errors")
        )
        assert (row["read"], row["written"]) == (files[path]["bytes_read"], files[path]["bytes_written"])

    split = trail.rows_of("""
        SELECT SUM(io_ns) AS io, SUM(sync_ns) AS sync, COALESCE(SUM(compute_ns), 0) AS compute FROM time_split GROUP BY process""")
    assert sorted(map(tuple, lanes(page))) == sorted(tuple(int(v) for v in row.values()) for row in split)


def brush(page: Page) -> None:
    """Drags over a part of the strip of the whole run."""
    box = page.locator(".brush-strip").bounding_box()
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * 0.31, y)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.4, y, steps=4)
    page.mouse.move(box["x"] + box["width"] * 0.52, y, steps=4)
    page.mouse.up()
    page.wait_for_selector('[data-span]:not([data-span="whole"])')
    page.wait_for_timeout(100)


def test_a_brushed_span_equals_the_modules(page: Page, trail: Trail) -> None:
    whole = latency_table(page)
    brush(page)
    where = span_of(page, trail)
    shown = latency_table(page)
    assert shown != whole
    assert shown == by_call(trail.rows_of(LATENCY.format(where=where)))

    expected = trail.rows_of(f"""
        SELECT COALESCE(f.path, '') AS path, SUM(n) AS ops, SUM(time_ns) AS dur, SUM(bytes) FILTER (WHERE kind = 'read') AS read
        FROM cell LEFT JOIN file AS f USING (node, file) WHERE {where} GROUP BY ALL""")
    rows = table_rows(page)
    assert rows.keys() == {row["path"] for row in expected}
    for row in expected:
        assert (rows[row["path"]]["ops"], rows[row["path"]]["dur"]) == (row["ops"], row["dur"])
        assert rows[row["path"]]["read"] == (row["read"] or 0)

    split = trail.rows_of(f"""
        SELECT SUM(io_ns) AS io, SUM(sync_ns) AS sync, COALESCE(SUM(compute_ns), 0) AS compute
        FROM time_split_over_time WHERE {where} GROUP BY process""")
    assert sorted(map(tuple, lanes(page))) == sorted(tuple(int(v) for v in row.values()) for row in split)

    page.get_by_role("button", name="Whole run", exact=True).click()
    expect(page).to_have_url(re.compile("html$"))
    assert latency_table(page) == whole


def test_operations_count_where_throughput_says(trail: Trail) -> None:
    differ = trail.rows_of("""
        SELECT * FROM (SELECT ts, kind, SUM(n) AS n, SUM(bytes) AS bytes FROM cell WHERE bucket IS NOT NULL GROUP BY ALL)
        FULL OUTER JOIN (SELECT ts, kind, SUM(n) AS n2, SUM(bytes) AS bytes2 FROM throughput GROUP BY ALL) USING (ts, kind)
        WHERE n IS DISTINCT FROM n2 OR bytes IS DISTINCT FROM bytes2""")
    assert differ == []


def test_mean_depth_is_io_time_over_time(trail: Trail) -> None:
    differ = trail.rows_of("""
        SELECT * FROM queue_depth AS q
        JOIN (SELECT ts, SUM(io_ns) AS io_ns FROM time_split_over_time GROUP BY ts) AS s USING (ts)
        WHERE q.busy_ns <> s.io_ns""")
    assert differ == []
    assert not collect(trail)["depth"]["overlaps"]


def test_a_row_filters_the_page_and_the_hash_keeps_it(page: Page, browser: Browser, page_file: Path) -> None:
    path = page.locator("#tables .table-row").first.locator("code").inner_text()
    page.locator("#tables .table-row").first.click()
    expect(page.locator(".chip")).to_contain_text(path)
    expect(page).to_have_url(re.compile("#file="))
    filtered = latency_table(page)
    fragment = page.evaluate("location.hash")
    with opened(browser, page_file, fragment) as again:
        assert latency_table(again) == filtered
    page.locator(".chip").click()
    expect(page).to_have_url(re.compile("html$"))


def test_tables_sort_filter_and_answer_to_keys(page: Page) -> None:
    def first_column() -> list[str]:
        return page.locator("#tables .table-row > div:first-child").all_inner_texts()

    def operations() -> list[float]:
        return [row["ops"] for row in table_rows(page).values()]

    header = page.locator("#tables [role=columnheader]", has_text="Operations")
    header.get_by_role("button").click()
    assert header.get_attribute("aria-sort") == "descending"
    assert operations() == sorted(operations(), reverse=True)
    header.get_by_role("button").click()
    assert header.get_attribute("aria-sort") == "ascending"
    assert operations() == sorted(operations())

    page.get_by_role("searchbox", name="Filter files").fill("WAL pg")
    assert first_column() == ["/srv/pg/pg_wal/000000010000000000000001"]
    page.get_by_role("searchbox", name="Filter files").fill("no such file")
    assert first_column() == []
    page.get_by_role("searchbox", name="Filter files").fill("")

    page.get_by_role("button", name="Calls", exact=False).last.click()
    grid = page.locator("#tables [role=grid]")
    grid.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(f"#call={first_column()[1]}$"))
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("html$"))


def test_the_brush_answers_to_keys(page: Page) -> None:
    page.get_by_role("slider", name="Start of the time span").focus()
    page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("ArrowRight")
    buckets = page.get_by_role("slider", name="Start of the time span").get_attribute("aria-valuemax")
    expect(page.locator("[data-span]")).to_have_attribute("data-span", f"11-{buckets}")
    page.keyboard.press("Home")
    expect(page.locator("[data-span]")).to_have_attribute("data-span", "whole")


def test_a_finding_shows_where(page: Page) -> None:
    cards = page.locator(".finding")
    assert cards.count() > 0
    severities = cards.evaluate_all("(cards) => cards.map((card) => card.dataset.severity)")
    assert severities == sorted(severities, key=["high", "medium", "low"].index)
    about_a_file = cards.filter(has=page.locator(".where code")).first
    about_a_file.get_by_role("button", name="Show where").click()
    expect(page).to_have_url(re.compile("#.*(file|process|thread)="))
    expect(about_a_file).to_have_attribute("data-away", "false")
    chart = page.locator("#heat, #throughput, #split").filter(has=page.locator("h2:focus"))
    expect(chart).to_have_count(1)
    expect(chart).to_be_in_viewport()
    # below the bar that stays in sight
    bar = page.locator(".selection-bar").bounding_box()
    title = chart.locator("h2").bounding_box()
    assert bar is not None and title is not None
    assert title["y"] >= bar["y"] + bar["height"]


def test_headline_numbers_follow_the_selection(page: Page, trail: Trail) -> None:
    """Each names what is selected, and of how much."""
    page.evaluate("location.hash = 'span=10-40'")
    expect(page.locator("[data-span]")).to_have_attribute("data-span", "10-40")
    inside = trail.rows_of(f"""
        SELECT
            SUM(n) AS ops, SUM(bytes) FILTER (WHERE kind = 'read') AS bytes_read,
            SUM(bytes) FILTER (WHERE kind <> 'read') AS bytes_written,
            COUNT(DISTINCT file) AS files, COUNT(DISTINCT process) AS processes
        FROM cell WHERE {span_of(page, trail)}""")[0]
    assert inside["ops"] > 0
    tile = {name: page.locator(".tile", has=page.locator(f"[data-total='{name}']")) for name in TILES}
    assert tile["Operations"].get_attribute("title") == f"{inside['ops']:,} file operations"
    assert tile["Read"].get_attribute("title") == f"{inside['bytes_read']:,} bytes"
    assert tile["Written"].get_attribute("title") == f"{inside['bytes_written']:,} bytes"
    assert tile["Processes"].locator("[data-total]").inner_text() == f"{inside['processes']:,}"
    assert tile["Files"].locator("[data-total]").inner_text() == f"{inside['files']:,}"
    width = trail.rows_of("SELECT MAX(every_ns) AS width FROM time_bucket")[0]["width"]
    assert tile["Run time"].get_attribute("title") == f"{30 * width:,} ns"
    for name in TILES:
        expect(tile[name].locator(".tile-whole")).to_have_text(re.compile("^of "))
    page.evaluate("location.hash = ''")
    expect(page.locator("[data-span]")).to_have_attribute("data-span", "whole")
    overview = trail.rows_of("SELECT * FROM overview")[0]
    assert tile["Operations"].get_attribute("title") == f"{overview['ops']:,} file operations"
    expect(tile["Operations"].locator(".tile-whole")).not_to_have_text(re.compile("of"))


@pytest.mark.parametrize("width", [1366, 1920])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_fits_the_screen_in_both_themes(browser: Browser, page_file: Path, width: int, scheme: str) -> None:
    with opened(browser, page_file, color_scheme=scheme) as page:
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_timeout(200)
        assert page.evaluate("document.documentElement.scrollWidth") == width
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, background.removeprefix("rgb(").rstrip(")").split(","))) > 384) == (
            scheme == "light"
        )
        page.get_by_role("button", name="Switch to the").click()
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") != background


def test_prints_light_and_without_controls(browser: Browser, page_file: Path) -> None:
    with opened(browser, page_file, color_scheme="dark") as page:
        page.emulate_media(media="print", color_scheme="dark")
        # A4 across, less the margins, at 96 pixels an inch.
        page.set_viewport_size({"width": 1031, "height": 700})
        expect(page.locator("html")).to_have_attribute("data-theme", "light")
        expect(page.get_by_role("button", name="Print")).to_be_hidden()
        page.wait_for_function("document.documentElement.scrollWidth === 1031")


def test_text_has_contrast(browser: Browser, page_file: Path) -> None:
    """Text on its background reaches WCAG 2.2's 4.5 to 1 in both themes."""

    def luminance(rgb: tuple[float, ...]) -> float:
        channels = [c / 255 for c in rgb]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    def channels_of(page: Page, name: str) -> tuple[float, ...]:
        """The custom property as the browser understands it."""
        text = page.evaluate(
            """(name) => {
                document.body.style.color = `var(--${name})`;
                return getComputedStyle(document.body).color;
            }""",
            name,
        )
        return tuple(map(float, re.findall(r"\d+", text)))

    pairs = [(text, ground) for text in ("text", "muted", "accent") for ground in ("bg", "panel", "sunken")]
    pairs += [(severity, f"{severity}-soft") for severity in ("high", "medium", "low")] + [
        ("accent", "accent-soft")
    ]
    for scheme in ("light", "dark"):
        with opened(browser, page_file, color_scheme=scheme) as page:
            for text, ground in pairs:
                light, dark = sorted(
                    (luminance(channels_of(page, name)) for name in (text, ground)), reverse=True
                )
                assert (light + 0.05) / (dark + 0.05) >= 4.5, f"{scheme}: {text} on {ground}"

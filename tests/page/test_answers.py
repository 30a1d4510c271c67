"""The page of each verb in a browser: it shows what the verb says, in light and in dark, asks for nothing, and is no
wider than its window."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from xml.etree import ElementTree

import pytest
from playwright.sync_api import Browser, Page
from typer.testing import CliRunner

from iotrail.cli import app
from iotrail.errors import IotrailError
from iotrail.page.colours import BACK, DARK, FIRST, SECOND, TEXT
from iotrail.requests.explain import drawing
from iotrail.requests.explain.pattern import Cell, Pattern


def ask(*words: object) -> str:
    """What `iotrail …` prints; its error is raised."""
    result = CliRunner().invoke(app, list(map(str, words)))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def channels(colour: str) -> str:
    """#rrggbb as browsers compute it."""
    return f"rgb({', '.join(str(int(colour[at : at + 2], 16)) for at in (1, 3, 5))})"


@contextmanager
def opened(browser: Browser, file: Path, scheme: str) -> Iterator[Page]:
    """The page in a light or dark window."""
    said: list[str] = []
    asked: list[str] = []
    context = browser.new_context(color_scheme=scheme, viewport={"width": 1280, "height": 800})
    page = context.new_page()
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(file.as_uri())
    try:
        yield page
        assert said == [] and asked == [file.as_uri()]
    finally:
        context.close()


def shown(browser: Browser, file: Path) -> str:
    """The page's text; both colour schemes are held to what every page is."""
    texts = []
    for scheme in ("light", "dark"):
        with opened(browser, file, scheme) as page:
            texts.append(page.locator("body").inner_text())
            assert page.evaluate("document.documentElement.scrollWidth") <= 1280
            drawn = page.evaluate(
                """() => [...new Set([...document.querySelectorAll("svg *")].flatMap((element) => {
                    const style = getComputedStyle(element);
                    return ["fill", "stroke"].filter((kind) => element.hasAttribute(kind)).map((kind) => style[kind]);
                }))]"""
            )
            ours = {channels(dark if scheme == "dark" else light) for light, dark in DARK.items()}
            assert set(drawn) <= ours | {"none", "rgba(0, 0, 0, 0)"}
            colours = page.evaluate(
                "(({color, backgroundColor}) => [color, backgroundColor])(getComputedStyle(document.body))"
            )
            assert colours == [channels(DARK[c] if scheme == "dark" else c) for c in (TEXT, BACK)]
    assert texts[0] == texts[1]
    return texts[0]


def test_graph(store: Path, browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "g.html"
    printed = ask("graph", store, "--op", "read", "--client", "bob", "--html", file)
    text = shown(browser, file)
    assert "client bob, op read" in text and "1 request, 20.0 µs each on average" in text
    with opened(browser, file, "light") as page:
        rows = page.locator("tbody tr")
        assert rows.count() == len([line for line in printed.splitlines() if " → " in line or " ⇢ " in line])
        assert rows.first.locator("td").all_inner_texts() == [
            "head read arrival", "→", "head pages read_miss", "1", "500 ns", "496 ns", "496 ns", "2.5 %",
        ]  # fmt: skip
        # each step and each point once
        assert page.locator("svg g.edge").count() == rows.count()
        assert page.locator("svg g.edge path[stroke-dasharray]").count() == 4
        assert page.locator("svg g.node").count() == rows.count() + 1
        assert page.locator("svg [id]").count() == 0


def test_path(store: Path, browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "p.html"
    printed = ask("path", store, "--crumb", 90, "--html", file)
    text = shown(browser, file)
    assert "90 on s3 works for request 14 on head, 15 on head" in text
    assert "hole: 22 on head: head calls write never ended: its reply is missing" in text
    assert "estimated from the calls between them" in text
    with opened(browser, file, "light") as page:
        trees = page.locator("table")
        assert trees.count() == page.locator("h2").count() == 2
        for line in trees.first.locator(".tree").all_inner_texts():
            assert line.rstrip() in printed
        drawing = page.locator("figure svg").first
        # a record each, with its bar; what never ended is open to the right
        assert drawing.locator("g").count() == trees.first.locator("tbody tr").count()
        open_ended = drawing.locator("rect[stroke-dasharray]")
        assert open_ended.count() == text.split("As a graph")[0].split("On one line of time")[0].count(
            "unfinished"
        )
        assert page.locator("svg g.node").count() > 4


def test_arrivals(flows: tuple[Path, Path], browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "a.html"
    printed = ask("arrivals", flows[0], "--html", file)
    text = shown(browser, file)
    assert "requests at head on head" in text and "exponential" in text
    with opened(browser, file, "light") as page:
        titles = page.locator("tbody b").all_inner_texts()
        assert len(titles) == page.locator("figure").count() > 2
        for title in titles:
            assert f"{title}: " in printed
        # steps, and one curve at least
        assert page.locator("figure").first.locator("polyline").count() >= 2


def test_flows(
    flows: tuple[Path, Path], browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `iotrail diff --requests` says in the same order, and both runs of each of the first differences."""
    monkeypatch.setenv("COLUMNS", "400")
    file = tmp_path / "d.html"
    printed = ask("diff", *flows, "--requests", "--op", "read", "--html", file)
    text = shown(browser, file)
    assert "disk sda read queued → disk sda read issued" in text and "with mds lookup" in text
    with opened(browser, file, "light") as page:
        ranked = [item.splitlines()[0] for item in page.locator("li").all_inner_texts()]
        assert ranked == [line.split(". ", 1)[1] for line in printed.splitlines() if line[3:5] == ". "]
        assert page.locator("li .worse").count() == 3
        drawn = page.locator("figure")
        assert drawn.count() == len(ranked) == 5
        assert drawn.locator("polyline").count() == 10
        assert drawn.locator("polyline[stroke-dasharray]").count() == 5
        # B's waits of 5 ms lie above all of A's
        solid, dashed = (
            [float(point.split(",")[1]) for point in line.get_attribute("points").split()]
            for line in drawn.first.locator("polyline").all()
        )
        assert max(dashed) < min(solid) - 80
    same = tmp_path / "same.html"
    ask("diff", flows[0], flows[0], "--requests", "--html", same)
    assert "no difference beyond noise in" in shown(browser, same)


def test_explain(complaint: Path, browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "e.html"
    asked = ("explain", complaint, "--client", "alice", "--from", "+4s")
    printed = ask(*asked, "--html", file)
    text = shown(browser, file)
    assert "disk sda of s1 was saturated, 95% of it by bob, while alice's requests waited (measured)" in text
    assert "→ give bob a limit or other disks, or alice some of its own" in text
    with opened(browser, file, "light") as page:
        assert page.locator(".verdict").inner_text() == printed.splitlines()[0]
        for line in page.locator("section li").all_inner_texts():
            assert f"  {line}\n" in printed
        assert page.locator(".cause h3").first.inner_text().startswith("Resources: disk sda of s1")
        # 200 reads at random places, all of 4 KiB
        places, sizes = page.locator(".pair svg").all()
        dots = [path.get_attribute("d").count("M") for path in places.locator("path").all()]
        assert 150 < sum(dots) <= 200
        assert "4.00 KiB" in sizes.text_content() and "8.00 KiB" in sizes.text_content()
        # the disk: at its line of 90 % in time and in its distribution; bars are of buckets of 50 ms
        disk = page.locator("figure").filter(has_text="disk sda of s1")
        assert disk.count() == 1 and disk.locator("polyline[stroke-dasharray]").count() == 2
        steps = disk.locator("path").get_attribute("d")
        tops = [float(top) for top in re.findall(r"V([\d.]+)H", steps)]
        # of the 90 pixels that are 100 %
        assert sum(top < 10 + 0.1 * 90 for top in tops) > 70
        longest = max(disk.locator("rect").all(), key=lambda bar: float(bar.get_attribute("width")))
        assert float(longest.get_attribute("y")) == 10
        # what waits for it, usually and now
        slower = page.locator("figure").filter(has_text="→ s1: disk sda read issued")
        assert slower.locator("polyline").count() == 2
        assert page.locator("svg g.edge").count() > 4
    svg = tmp_path / "e.svg"
    assert ask(*asked, "--svg", svg) == f"{svg}\n"
    drawn = ElementTree.parse(svg).getroot()
    words = [element.text for element in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert {"Bytes of all files over time", "Sizes over time", "disk sda of s1", "cpu of head"} <= set(words)
    with pytest.raises(IotrailError, match="exists"):
        ask(*asked, "--svg", svg)
    ask(*asked, "--svg", svg, "--force")


VERBS = [("graph",), ("path", "--slowest", "1"), ("arrivals",), ("explain", "--client", "bob")]


@pytest.mark.parametrize("words", VERBS, ids=lambda words: words[0])
def test_only_a_page_of_the_verb_is_replaced(store: Path, tmp_path: Path, words: tuple[str, ...]) -> None:
    verb, *options = words
    other = tmp_path / "notes.html"
    other.write_text("mine")
    for _ in range(2):
        ask(verb, store, *options, "--html", tmp_path / "own.html")
    with pytest.raises(IotrailError, match=f"exists and is not a page of iotrail {verb}"):
        ask(verb, store, *options, "--html", other)
    assert other.read_text() == "mine"
    ask(verb, store, *options, "--html", other, "--force")
    assert other.read_bytes() == (tmp_path / "own.html").read_bytes()
    with pytest.raises(IotrailError, match="is no folder"):
        ask(verb, store, *options, "--html", tmp_path / "nowhere" / "x.html")


def test_without_graphviz(
    store: Path, browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page is written, and says what is missing."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert shutil.which("dot") is None
    for words in (("graph", store), ("path", store, "--crumb", 11)):
        file = tmp_path / f"{words[0]}.html"
        ask(*words, "--html", file)
        text = shown(browser, file)
        assert "its program dot isn't there" in text and "Install the package graphviz" in text
        assert "mds inodes read_hit" in text


def test_reads_and_writes_of_one_place_are_told_apart() -> None:
    """A dot above a cross, in other colours; what happened eight times is stronger than what happened once."""
    cells = (Cell(160, 50, 12, "read", 1), Cell(160, 50, 12, "write", 8))
    places, sizes = drawing.asked(
        Pattern(
            reads=1, writes=8, bytes=9 * 4096, small=0, sequential=0, shared=0, sent_reads=1, sent_writes=8,
            page_bytes=4096, write_back_ns=5, sizes=(4096, 4096, 4096), files=1, kinds=("head read",),
            span_bytes=2**20, lasts_ns=10**9, cells=cells,
        )
    )  # fmt: skip
    for drawn in (places, sizes):
        dot, cross = ElementTree.fromstring(drawn.svg()).iter("path")
        assert (dot.get("stroke"), cross.get("stroke")) == (FIRST, SECOND)
        assert float(dot.get("stroke-opacity", "")) < float(cross.get("stroke-opacity", "")) == 1
        x, y = map(float, re.fullmatch(r"M(\S+) (\S+)h0", dot.get("d", "")).groups())  # type: ignore[union-attr]
        left, top = map(float, re.match(r"M(\S+) ([\d.]+)l", cross.get("d", "")).groups())  # type: ignore[union-attr]
        assert left < x < left + 4 and y < top < y + 5


@pytest.mark.parametrize(
    "words", [["graph"], ["path", "--crumb", "11"], ["arrivals"]], ids=lambda words: words[0]
)
def test_a_page_is_written_though_nobody_reads_what_is_printed(
    words: list[str], store: Path, tmp_path: Path
) -> None:
    """As in `iotrail graph X.trail --html F | head`, which ends the program at its first line too many."""
    file = tmp_path / "page.html"
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as gone:
        command = [sys.executable, "-m", "iotrail", words[0], str(store), *words[1:], "--html", str(file)]
        subprocess.run(command, check=False, stdout=gone, stderr=subprocess.DEVNULL)
    assert file.read_text().endswith("</html>\n")


@pytest.fixture
def modelled(tmp_path: Path) -> tuple[Path, Path]:
    """A trail of bursts of reads and of a log on one disk, and its model."""
    random, lines, at = Random(1), [], 0
    for number in range(3000):
        at += 500 if number % 50 else random.randrange(100_000, 1_000_000)
        if number % 4 == 0:
            lines.append(f"{at},W,{(1 << 30) + number // 4 * 4096},4096")
        else:
            lines.append(f"{at},R,{int(random.paretovariate(0.3)) % (1 << 16) * 8192},8192")
    trace, trail, model = (tmp_path / name for name in ("t.csv", "t.trail", "m.json"))
    trace.write_text("\n".join(["ts_us,op,offset,size", *lines, ""]))
    ask("import", "csv", trace, "-o", trail)
    ask("model", "fit", trail, "-o", model, "--levels", "2")
    return trail, model


def test_model_check(
    modelled: tuple[Path, Path], browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The figures that are printed, both maps in one scale, and a line each of original, synthetic and baseline."""
    monkeypatch.setenv("COLUMNS", "160")
    trail, model = modelled
    file = tmp_path / "m.html"
    printed = ask("model", "check", model, "--against", trail, "--on", "hdd-7200", "--html", file)
    text = shown(browser, file)
    assert f"original: {trail}" in text and f"synthetic: {model}" in text
    with opened(browser, file, "light") as page:
        lines = [line for line in printed.splitlines()[1:] if line.startswith("  ")]
        rows = [row.locator("td").all_inner_texts() for row in page.locator("tbody tr").all()]
        rows = [row for row in rows if any(row[1:])]
        assert len(rows) == len(lines) > 40
        for row, line in zip(rows, lines, strict=True):
            assert " ".join(" ".join(row).replace(" *", "*").split()) == " ".join(line.split())
        assert page.locator("td .worse").count() == sum("*" in line for line in lines)
        captions = page.locator("figcaption").all_inner_texts()
        assert [caption.split(" by ")[0].split(" share")[0] for caption in captions] == [
            "original", "synthetic", "LRU miss ratio", "Inter-arrival times", "Index of dispersion", "Requests per second",
        ]  # fmt: skip
        figures = page.locator("figure").all()
        assert all(figure.locator("path").count() > 3 for figure in figures[:2])
        assert [figure.locator("polyline").count() for figure in figures[2:]] == [3, 3, 3, 2]
        assert page.locator("polyline[stroke-dasharray]").count() == 4
        for width in (700, 1400):
            page.set_viewport_size({"width": width, "height": 800})
            assert page.evaluate("document.documentElement.scrollWidth") <= width
    ask("model", "check", model, "--against", trail, "--html", file)
    file.write_text("mine")
    with pytest.raises(IotrailError, match="exists and is not"):
        ask("model", "check", model, "--against", trail, "--html", file)

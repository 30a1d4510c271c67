"""What pages share: marks of axes, escaped text, drawings in a file."""

import math
from pathlib import Path
from xml.etree import ElementTree

import pytest

from iotrail import page
from iotrail.errors import IotrailError
from iotrail.page import Html, plot, table, tag
from iotrail.page.colours import DARK, FIRST
from iotrail.units import duration, size


@pytest.mark.parametrize(
    ("axis", "marks"),
    [
        (plot.linear(0, 98.3e6, duration), ["0 ns", "20.0 ms", "40.0 ms", "60.0 ms", "80.0 ms"]),
        (plot.linear(0, 1, "{:.0%}".format), ["0%", "20%", "40%", "60%", "80%", "100%"]),
        (plot.linear(0, 229 * 2**20, size, binary=True), ["0 B", "64.0 MiB", "128 MiB", "192 MiB"]),
        (plot.linear(5, 5, "{:g}".format), ["5"]),
        (plot.octaves(math.log2(700), math.log2(9e5), duration), ["1.00 µs", "3.00 µs", "10.0 µs", "30.0 µs", "100 µs", "300 µs"]),
        (plot.octaves(math.log2(220), math.log2(572), "{:g}".format), ["300", "400", "500"]),
        (plot.octaves(math.log2(11), math.log2(12), "{:.0f}".format), ["11", "12"]),
    ],
)  # fmt: skip
def test_marks_are_round(axis: plot.Axis, marks: list[str]) -> None:
    assert [word for _, word in axis.marks] == marks
    assert all(-1e-9 <= axis.share(value) <= 1 + 1e-9 for value, _ in axis.marks)


def test_a_place_in_a_drawing() -> None:
    drawn = plot.Plot(plot.linear(0, 10, str), plot.linear(0, 4, str), width=170, height=130, left=58)
    assert drawn.at(0, 0) == (58, 110) and drawn.at(10, 4) == (158, 10) and drawn.at(5, 2) == (108, 60)


def test_text_is_escaped_and_markup_is_not() -> None:
    evil = '<script>"&'
    safe = "&lt;script&gt;&quot;&amp;"
    assert tag("b", evil) == f"<b>{safe}</b>"
    assert tag("b", evil) + evil == f"<b>{safe}</b>{safe}"
    shown = table((evil, "n"), [(evil, Html("<i>1</i>"))])
    assert evil not in shown and shown.count(safe) == 2 and "<i>1</i>" in shown
    document = page.document("diff", evil, [evil]).decode()
    assert evil not in document and document.count(safe) == 2
    drawing = plot.Plot(plot.linear(0, 1, lambda _: evil), plot.linear(0, 1, str)).drawing(evil, evil)
    assert evil not in page.figure(drawing)


def test_drawings_in_a_file() -> None:
    """Rows below each other; colours are those of a light page, which a dark one has counterparts of."""
    line = plot.Plot(plot.linear(0, 1, str), plot.linear(0, 1, str))
    line.line([0, 0.5, 1], [0, math.nan, 1], FIRST)
    one = line.drawing("one")
    root = ElementTree.fromstring(plot.sheet("<both>", [[one, one], [one]]))
    polylines = list(root.iter("{http://www.w3.org/2000/svg}polyline"))
    assert [len(each.get("points", "").split()) for each in polylines] == [2, 2, 2]
    assert float(root.get("width", "0")) > 2 * one.width and float(root.get("height", "0")) > 2 * one.height
    strokes = {element.get("stroke") for element in root.iter()} - {None, "none"}
    assert FIRST in strokes and strokes <= DARK.keys()


def test_a_file_that_can_not_be_written_is_refused_before_the_work(tmp_path: Path) -> None:
    with pytest.raises(IotrailError, match="is no folder") as refused:
        page.check(tmp_path / "nowhere" / "x.html", "graph", force=False)
    assert refused.value.hint == "--html names another place"
    with pytest.raises(IotrailError, match="is a directory"):
        page.check(tmp_path, "graph", force=True)
    file = tmp_path / "x.html"
    file.write_bytes(page.document("diff", "", []))
    page.check(file, "diff", force=False)
    with pytest.raises(IotrailError, match="exists and is not a page of iotrail graph"):
        page.check(file, "graph", force=False)
    page.check(file, "graph", force=True)

"""Drawings: SVG put together piece by piece, inline in a page or several in a file of their own."""

import html
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from iotrail.page.colours import BACK, DIM, LINE, TEXT
from iotrail.visible import visible

# Pixels around what is drawn: of the marks' words on the left and below.
LEFT, BOTTOM, TOP, RIGHT = 58, 20, 10, 12
_FONT = 'font-family="system-ui, sans-serif" font-size="11"'
# Pixels between drawings in a file, and for the caption above each.
_GAP, _CAPTION = 24, 36
# At least the width of a letter, on average.
_LETTER = 6.3


@dataclass(frozen=True)
class Axis:
    """From where to where, and marks at some values."""

    low: float
    high: float
    marks: tuple[tuple[float, str], ...]

    def share(self, value: float) -> float:
        """Where a value is, 0 to 1."""
        return (value - self.low) / ((self.high - self.low) or 1.0)


def linear(
    low: float, high: float, words: Callable[[float], str], *, most: int = 5, binary: bool = False
) -> Axis:
    """An axis with up to `most` + 1 marks at 1, 2 or 5 times a power of ten, or at a power of two."""
    least = ((high - low) or 1.0) / most
    if binary:
        step = 2.0 ** math.ceil(math.log2(least))
    else:
        power = 10.0 ** math.floor(math.log10(least))
        step = next(n * power for n in (1, 2, 5, 10) if n * power >= least * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return Axis(low, high, tuple((n * step, words(n * step)) for n in range(first, last + 1)))


def octaves(
    low: float, high: float, words: Callable[[float], str], *, most: int = 8, binary: bool = False
) -> Axis:
    """A logarithmic axis: its values are logarithms to the base of two; up to `most` marks, in round numbers or at powers of
    two."""
    if binary:
        first, last = math.ceil(low - 1e-9), math.floor(high + 1e-9)
        step = max(1, math.ceil((last - first + 1) / most))
        return Axis(low, high, tuple((float(n), words(2.0**n)) for n in range(first, last + 1, step)))
    first, last = (math.floor(bound / math.log2(10)) for bound in (low, high))
    inside: list[float] = []
    for digits in (range(1, 10), (1, 2, 5), (1, 3), (1,)):
        marks = [n * 10.0**power for power in range(first, last + 1) for n in digits]
        inside = [value for value in marks if low - 1e-9 <= math.log2(value) <= high + 1e-9]
        if len(inside) <= most:
            break
    inside = inside[:: math.ceil(len(inside) / most)] if inside else [2.0**low, 2.0**high]
    return Axis(low, high, tuple((math.log2(value), words(value)) for value in inside))


@dataclass(frozen=True)
class Drawing:
    """What is drawn, in pixels, under a caption."""

    caption: str
    width: float
    height: float
    body: str
    # More about it, in words.
    note: str = ""

    def svg(self) -> str:
        """The element for a page."""
        label = html.escape(visible(f"{self.caption} {self.note}".strip()))
        return f'<svg viewBox="0 0 {self.width:g} {self.height:g}" role="img" aria-label="{label}" {_FONT}>{self.body}</svg>'


def beside(caption: str, drawings: Sequence[Drawing], note: str = "") -> Drawing:
    """Drawings side by side as one."""
    parts, x = [], 0.0
    for drawing in drawings:
        parts.append(f'<g transform="translate({x:g},0)">{drawing.body}</g>')
        x += drawing.width
    return Drawing(caption, x, max(drawing.height for drawing in drawings), "".join(parts), note)


@dataclass
class Plot:
    """A drawing with two axes; what is put into it lies in the order of the calls."""

    x: Axis
    y: Axis
    width: float = 560
    height: float = 150
    left: float = LEFT
    parts: list[str] = field(default_factory=list)

    def at(self, x: float, y: float) -> tuple[float, float]:
        """A point in pixels."""
        across = self.left + self.x.share(x) * (self.width - self.left - RIGHT)
        return across, self.height - BOTTOM - self.y.share(y) * (self.height - BOTTOM - TOP)

    def line(self, xs: Iterable[float], ys: Iterable[float], colour: str, *, dashed: bool = False) -> None:
        """A line through these points; what is no number is left out."""
        points = " ".join(
            "{:.1f},{:.1f}".format(*self.at(x, y)) for x, y in zip(xs, ys, strict=True) if math.isfinite(y)
        )
        dash = ' stroke-dasharray="5 3"' if dashed else ""
        self.parts.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.8"{dash}/>'
        )

    def steps(self, edges: Sequence[float], heights: Iterable[float], colour: str, opacity: float) -> None:
        """What is filled below steps from zero: one height between two edges."""
        path = ["M{:.1f} {:.1f}".format(*self.at(edges[0], 0))]
        for right, height in zip(edges[1:], heights, strict=True):
            path.append("V{1:.1f}H{0:.1f}".format(*self.at(right, height)))
        path.append("V{1:.1f}Z".format(*self.at(0, 0)))
        self.parts.append(f'<path d="{"".join(path)}" fill="{colour}" fill-opacity="{opacity:g}"/>')

    def dots(
        self,
        places: Iterable[tuple[float, float]],
        colour: str,
        opacity: float,
        raised: float = 0,
        width: float = 3,
    ) -> None:
        """A dot at each place, or so many pixels above."""
        marks = (f"M{x:.1f} {y:.1f}h0" for x, y in self._raised(places, raised))
        self.parts.append(
            f'<path d="{"".join(marks)}" fill="none" stroke="{colour}" stroke-width="{width:g}" stroke-linecap="round" '
            f'stroke-opacity="{opacity:g}"/>'
        )

    def crosses(
        self, places: Iterable[tuple[float, float]], colour: str, opacity: float, raised: float = 0
    ) -> None:
        """A cross at each place, or so many pixels above."""
        marks = (
            f"M{x - 1.7:.1f} {y - 1.7:.1f}l3.4 3.4m0-3.4l-3.4 3.4" for x, y in self._raised(places, raised)
        )
        self.parts.append(
            f'<path d="{"".join(marks)}" fill="none" stroke="{colour}" stroke-opacity="{opacity:g}"/>'
        )

    def _raised(self, places: Iterable[tuple[float, float]], pixels: float) -> Iterator[tuple[float, float]]:
        for x, y in places:
            across, down = self.at(x, y)
            yield across, down - pixels

    def box(self, x: tuple[float, float], y: tuple[float, float], colour: str) -> None:
        """A filled rectangle between these values."""
        (left, bottom), (right, top) = self.at(x[0], y[0]), self.at(x[1], y[1])
        self.parts.append(
            f'<rect x="{left:.1f}" y="{top:.1f}" width="{max(right - left, 0.5):.1f}" '
            f'height="{max(bottom - top, 0.0):.1f}" fill="{colour}"/>'
        )

    def cells(self, boxes: Iterable[tuple[float, float, float, float]], colour: str, opacity: float) -> None:
        """Filled rectangles of one shade: left, right, bottom, top."""
        paths = []
        for left, right, bottom, top in boxes:
            (x, y), (to_x, to_y) = self.at(left, top), self.at(right, bottom)
            paths.append(f"M{x:.1f} {y:.1f}H{to_x:.1f}V{to_y:.1f}H{x:.1f}Z")
        if paths:
            self.parts.append(f'<path d="{"".join(paths)}" fill="{colour}" fill-opacity="{opacity:.2f}"/>')

    def drawing(self, caption: str, note: str = "") -> Drawing:
        """What was put in, with its axes below."""
        grid = []
        for value, word in self.y.marks:
            across, down = self.at(self.x.low, value)
            grid.append(
                f'<line x1="{across:.1f}" x2="{self.width - RIGHT:g}" y1="{down:.1f}" y2="{down:.1f}" stroke="{LINE}"/>'
            )
            grid.append(words(across - 6, down + 4, word, "end"))
        for value, word in self.x.marks:
            across, down = self.at(value, self.y.low)
            grid.append(
                f'<line x1="{across:.1f}" x2="{across:.1f}" y1="{down:.1f}" y2="{down + 4:.1f}" stroke="{DIM}"/>'
            )
            # the last one's words would leave the drawing
            anchor = "end" if self.x.share(value) > 0.96 else "middle"
            grid.append(words(across + (RIGHT if anchor == "end" else 0), self.height - 4, word, anchor))
        return Drawing(caption, self.width, self.height, "".join([*grid, *self.parts]), note)


def words(x: float, y: float, said: str, anchor: str = "start", colour: str = DIM) -> str:
    """Text at a place."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{html.escape(visible(said))}</text>'


def sheet(title: str, rows: Sequence[Sequence[Drawing]]) -> bytes:
    """A file of drawings: rows one below the other, each with its drawings side by side under their captions."""
    parts, y, widest = [], 48.0, 0.0
    for row in rows:
        x = float(_GAP)
        for drawing in row:
            parts.append(
                f'<g transform="translate({x:g},{y:g})">'
                f'<text x="0" y="0" font-weight="bold" fill="{TEXT}">{html.escape(visible(drawing.caption))}</text>'
                f'{words(0, 15, drawing.note)}<g transform="translate(0,{_CAPTION - 14})">{drawing.body}</g></g>'
            )
            widest = max(widest, x + max(drawing.width, _LETTER * len(drawing.note)) + _GAP)
            x += drawing.width + _GAP
        y += max(drawing.height for drawing in row) + _CAPTION + _GAP - 14
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{widest:g}" height="{y:g}" '
        f'viewBox="0 0 {widest:g} {y:g}" {_FONT}><rect width="100%" height="100%" fill="{BACK}"/>'
        f'<text x="{_GAP}" y="24" font-size="15" font-weight="bold" fill="{TEXT}">{html.escape(visible(title))}</text>'
        f"{''.join(parts)}</svg>\n"
    ).encode()

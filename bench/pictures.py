"""Pictures of results: lines over a logarithmic or linear axis, and stacked bars, drawn as the pages' plots are."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from iotrail.page import plot
from iotrail.page.plot import Drawing, Plot
from measure import RESULTS, ROOT, console

WIDTH, HEIGHT, LEGEND = 640, 300, 170
COLOURS = (
    *("#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#e377c2", "#7f7f7f", "#bcbd22"),
    *("#17becf", "#000000"),
)


@dataclass(frozen=True)
class Axis:
    """Values along one side, and what they are."""

    title: str
    least: float
    most: float
    log: bool = False

    def place(self, value: float) -> float:
        """A value as the drawn axis has it."""
        return math.log2(max(value, self.least)) if self.log else value

    def drawn(self) -> plot.Axis:
        """The axis with its marks."""
        make = plot.octaves if self.log else plot.linear
        return make(self.place(self.least), self.place(self.most), lambda value: f"{value:,g}")


def _colour(number: int) -> str:
    return COLOURS[number % len(COLOURS)]


def _legend(names: Sequence[str]) -> Drawing:
    lines = [plot.words(0, 22 + 18 * n, f"■ {name}", colour=_colour(n)) for n, name in enumerate(names)]
    return Drawing("", LEGEND, HEIGHT, "".join(lines))


def _write(name: str, title: str, rows: Sequence[Sequence[Drawing]]) -> None:
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.svg"
    path.write_bytes(plot.sheet(title, rows))
    console.print(f"[dim]drawn in {path.relative_to(ROOT)}[/]")


def lines(
    name: str, titles: Sequence[str], across: Axis, down: Sequence[Axis],
    series: Sequence[Mapping[str, Sequence[tuple[float, float, float, float]]]],
) -> None:  # fmt: skip
    """A panel a title: each series is points of x, y, least and most y."""
    rows = []
    for title, axis, drawn in zip(titles, down, series, strict=True):
        panel = Plot(across.drawn(), axis.drawn(), width=WIDTH, height=HEIGHT)
        # beside each other, so that spreads of equal load don't hide one another
        apart = (panel.x.high - panel.x.low) * 0.005
        for number, points in enumerate(drawn.values()):
            xs = [across.place(x) + apart * number for x, *_ in points]
            ys = [axis.place(y) for _, y, *_ in points]
            panel.line(xs, ys, _colour(number))
            panel.dots(zip(xs, ys, strict=True), _colour(number), 1)
            for x, (_, _, least, most) in zip(xs, points, strict=True):
                panel.line([x, x], [axis.place(least), axis.place(most)], _colour(number))
        rows.append([panel.drawing(title, f"{axis.title}, against {across.title}"), _legend(list(drawn))])
    _write(name, name.replace("-", " "), rows)


def bars(
    name: str,
    title: str,
    down: str,
    groups: Mapping[str, Mapping[str, Mapping[str, float]]],
    parts: Sequence[str],
) -> None:
    """Stacked bars: group -> bar -> part -> height. Bars of a group stand together."""
    places = [(group, bar) for group, of in groups.items() for bar in (*of, None)]
    most = max(sum(bar.values()) for group in groups.values() for bar in group.values())
    marks = [
        (at + 0.5, f"{group} {bar}".strip()) for at, (group, bar) in enumerate(places) if bar is not None
    ]
    across = plot.Axis(0, len(places), tuple(marks))
    panel = Plot(
        across, Axis(down, 0, most * 1.05).drawn(), width=max(WIDTH, 76 * len(places)), height=HEIGHT
    )
    for at, (group, bar) in enumerate(places):
        below = 0.0
        for number, part in enumerate(parts if bar is not None else ()):
            height = groups[group][bar or ""].get(part, 0)
            panel.box((at + 0.08, at + 0.92), (below, below + height), _colour(number))
            below += height
    _write(name, name.replace("-", " "), [[panel.drawing(title, down), _legend(parts)]])

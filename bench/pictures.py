"""Pictures of results: lines over a logarithmic or linear axis, and stacked bars. SVG, written by hand as the
arrivals' picture is."""

import html
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from measure import RESULTS, ROOT, console

WIDTH, HEIGHT, LEFT, TOP, BOTTOM, RIGHT = 640, 300, 70, 40, 60, 170
COLOURS = (
    *("#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#e377c2", "#7f7f7f", "#bcbd22"),
    *("#17becf", "#000000"),
)
Point = tuple[float, float]


@dataclass(frozen=True)
class Axis:
    """Values along one side: what they are, and where they lie between 0 and 1."""

    title: str
    least: float
    most: float
    log: bool = False

    def place(self, value: float) -> float:
        """Where a value lies."""
        if self.log:
            return math.log(max(value, self.least) / self.least) / math.log(self.most / self.least)
        return (value - self.least) / (self.most - self.least)

    def ticks(self) -> list[float]:
        """Values to name: 1, 2 and 5 times powers of ten, or about five steps of one."""
        if self.log:
            decades = range(math.floor(math.log10(self.least)), math.ceil(math.log10(self.most)) + 1)
            values = [step * 10.0**decade for decade in decades for step in (1, 2, 5)]
        else:
            rough = (self.most - self.least) / 5
            unit = 10.0 ** math.floor(math.log10(rough))
            step = next(unit * times for times in (1, 2, 5, 10) if unit * times >= rough)
            values = [step * n for n in range(math.floor(self.most / step) + 1)]
        return [value for value in values if self.least <= value <= self.most * 1.0001]


def _text(x: float, y: float, words: str, style: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{html.escape(words)}</text>'


def _frame(title: str, down: Axis) -> list[str]:
    lines = [
        _text(0, -16, title, 'font-weight="bold"'),
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#999"/>',
        _text(-HEIGHT / 2, -52, down.title, 'transform="rotate(-90)" text-anchor="middle"'),
    ]
    for value in down.ticks():
        y = (1 - down.place(value)) * HEIGHT
        lines.append(f'<path d="M0 {y:.1f}H{WIDTH}" stroke="#eee"/>')
        lines.append(_text(-6, y + 4, f"{value:,g}", 'text-anchor="end"'))
    return lines


def _legend(names: Sequence[str]) -> list[str]:
    lines = []
    for number, name in enumerate(names):
        colour, y = COLOURS[number % len(COLOURS)], number * 18
        lines.append(f'<rect x="{WIDTH + 14}" y="{y}" width="12" height="12" fill="{colour}"/>')
        lines.append(_text(WIDTH + 32, y + 11, name))
    return lines


def _write(name: str, panels: Sequence[list[str]]) -> None:
    each = TOP + HEIGHT + BOTTOM
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + RIGHT}" height="{each * len(panels)}" '
        'font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for number, panel in enumerate(panels):
        lines += [f'<g transform="translate({LEFT},{number * each + TOP})">', *panel, "</g>"]
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.svg"
    path.write_text("\n".join([*lines, "</svg>", ""]))
    console.print(f"[dim]drawn in {path.relative_to(ROOT)}[/]")


def lines(
    name: str, titles: Sequence[str], across: Axis, down: Sequence[Axis],
    series: Sequence[Mapping[str, Sequence[tuple[float, float, float, float]]]],
) -> None:  # fmt: skip
    """A panel a title: each series is points of x, y, least and most y."""
    panels = []
    for title, axis, drawn in zip(titles, down, series, strict=True):
        panel = _frame(title, axis)
        for value in across.ticks():
            x = across.place(value) * WIDTH
            panel.append(f'<path d="M{x:.1f} 0V{HEIGHT}" stroke="#eee"/>')
            panel.append(_text(x, HEIGHT + 16, f"{value:,g}", 'text-anchor="middle"'))
        panel.append(_text(WIDTH / 2, HEIGHT + 38, across.title, 'text-anchor="middle"'))
        up: Callable[[float], float] = lambda y, axis=axis: (1 - axis.place(y)) * HEIGHT  # noqa: E731
        for number, points in enumerate(drawn.values()):
            colour = COLOURS[number % len(COLOURS)]
            # beside each other, so that spreads of equal load don't hide one another
            at = [across.place(x) * WIDTH + 3 * number for x, *_ in points]
            curve = " ".join(f"{x:.1f},{up(point[1]):.1f}" for x, point in zip(at, points, strict=True))
            panel.append(f'<polyline points="{curve}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
            for x, (_, y, least, most) in zip(at, points, strict=True):
                panel.append(f'<circle cx="{x:.1f}" cy="{up(y):.1f}" r="2.5" fill="{colour}"/>')
                panel.append(f'<path d="M{x:.1f} {up(least):.1f}V{up(most):.1f}" stroke="{colour}"/>')
        panels.append([*panel, *_legend(list(drawn))])
    _write(name, panels)


def bars(
    name: str,
    title: str,
    down: str,
    groups: Mapping[str, Mapping[str, Mapping[str, float]]],
    parts: Sequence[str],
) -> None:
    """Stacked bars: group -> bar -> part -> height. Bars of a group stand together."""
    most = max(sum(bar.values()) for group in groups.values() for bar in group.values())
    axis = Axis(down, 0, most * 1.05)
    panel = _frame(title, axis)
    count = sum(len(group) + 1 for group in groups.values())
    width, x = WIDTH / count, WIDTH / count / 2
    for group, stacked in groups.items():
        middle = x + width * len(stacked) / 2
        panel.append(_text(middle, HEIGHT + 34, group, 'text-anchor="middle"'))
        for label, heights in stacked.items():
            panel.append(_text(x + width / 2, HEIGHT + 16, label, 'text-anchor="middle"'))
            below = 0.0
            for number, part in enumerate(parts):
                top = below + heights.get(part, 0)
                y, height = (1 - axis.place(top)) * HEIGHT, (axis.place(top) - axis.place(below)) * HEIGHT
                panel.append(
                    f'<rect x="{x + 2:.1f}" y="{y:.2f}" width="{width - 4:.1f}" height="{height:.2f}" '
                    f'fill="{COLOURS[number % len(COLOURS)]}"/>'
                )
                below = top
            x += width
        x += width
    _write(name, [[*panel, *_legend(parts)]])

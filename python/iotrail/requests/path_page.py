"""`iotrail path --html`: each request as a tree, on one line of time, and as a graph."""

import html
from collections.abc import Sequence

from iotrail import page
from iotrail.page import Html, tag
from iotrail.page.colours import LINE, MACHINES, TEXT, WORSE
from iotrail.page.plot import Drawing, linear, words
from iotrail.requests import clocks, dot, graph, lost, path_text, walk
from iotrail.requests.path import Path
from iotrail.trail import Trail
from iotrail.units import duration
from iotrail.visible import visible

# Requests that are drawn as graphs: each is asked for anew.
MOST_GRAPHS = 10
# The drawing of a path in time, in pixels: names, machines and times beside the bars, a line's height.
_WIDTH, _NAMES, _MACHINES, _TIMES, _LINE = 1160, 300, 90, 74, 17
# Characters that names and machines have room for.
_NAME, _MACHINE = 46, 13


def render(trail: Trail, found: Sequence[Path], bounds: clocks.Bounds, note: str | None) -> bytes:
    """The page of these paths; `bounds`: what the whole trail says of its machines' clocks."""
    parts: list[Html] = [tag("p", trail.path.name)]
    if note is not None:
        parts.append(tag("p", note, of="note"))
    parts += [tag("p", line, of="worse") for line in lost.said(trail)]
    for number, path in enumerate(found):
        parts += _path(path, bounds)
        parts.append(_graph(trail, path) if number < MOST_GRAPHS else Html())
    if len(found) > MOST_GRAPHS:
        parts.append(tag("p", f"graphs are of the first {MOST_GRAPHS} requests", of="note"))
    return page.document("path", trail.path.name, parts)


def _path(path: Path, bounds: clocks.Bounds) -> list[Html]:
    rows = []
    shown = path_text.columns(path)
    for line in path_text.lines(path):
        said = zip(path_text.COLUMNS, path_text.cells(line), strict=True)
        name, *others = (cell.plain for column, cell in said if column in shown)
        rows.append((tag("span", name, of="tree"), *others))
    drawn = path_text.timeline(path, bounds)
    parts = [
        tag("h2", path_text.head(path).plain),
        page.table(
            shown,
            rows,
            left={at for at, column in enumerate(shown) if column in ("node", "process", "crumb", "")},
            wrap=None,
        ),
        *(tag("p", f"hole: {hole}", of="worse") for hole in path.holes),
        tag("p", path_text.LEGEND, of="note"),
    ]
    if drawn.rows:
        parts += [
            page.figure(_bars(path, drawn)),
            *(tag("p", said, of="note") for said in drawn.clocks),
            *(tag("p", said, of="worse") for said in drawn.missing),
        ]
    return parts


def _graph(trail: Trail, path: Path) -> Html:
    # the trail is narrowed to all that are shown
    one = Trail(trail.path)
    node = path.root.node.replace("'", "''")
    walk.down(one, f"SELECT '{node}' AS node, {path.root.crumb} AS crumb")
    walk.keep(one)
    steps = graph.of_walked(one, 1)
    if not steps.edges:
        return Html()
    return tag("h3", "As a graph") + dot.figure(graph.drawn(steps)) + tag("p", graph.DRAWN, of="note")


def _bars(path: Path, drawn: path_text.Timeline) -> Drawing:
    """Bars on the clock of the request's machine, a line a record, coloured by machine."""
    machines = list(dict.fromkeys([path.root.node, *(line.crumb.node for line, _ in drawn.rows)]))
    left, right = _NAMES + _MACHINES, _WIDTH - _TIMES
    axis = linear(0, max(drawn.span, 1), duration, most=6)
    height = _LINE * (len(drawn.rows) + 1) + 8
    parts = []
    for value, said in axis.marks:
        x = left + axis.share(value) * (right - left)
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_LINE}" y2="{height}" stroke="{LINE}"/>')
        parts.append(words(x, _LINE - 5, said, "middle"))
    for number, (line, bars) in enumerate(drawn.rows, start=1):
        top = number * _LINE
        colour = MACHINES[machines.index(line.crumb.node) % len(MACHINES)]
        said = line.label.plain
        parts.append(
            words(len(line.indent) * 7, top + 12, _short(said, _NAME - len(line.indent)), colour=TEXT)
        )
        parts.append(words(_NAMES, top + 12, _short(line.crumb.node, _MACHINE)))
        parts.append(words(_WIDTH, top + 12, path_text.took(line), "end"))
        tip = html.escape(visible(f"{said}: {path_text.took(line)} on {line.crumb.node}"))
        parts.append(f"<g><title>{tip}</title>")
        for at, dur in bars:
            x = left + axis.share(at) * (right - left)
            end = right if dur is None else left + axis.share(at + dur) * (right - left)
            shape = f'x="{x:.1f}" y="{top + 3}" width="{max(end - x, 1.5):.1f}" height="{_LINE - 6}"'
            # what never ended is open, to the right edge
            look = (
                f'fill="none" stroke="{WORSE}" stroke-dasharray="4 3"' if dur is None else f'fill="{colour}"'
            )
            parts.append(f"<rect {shape} {look}/>")
        parts.append("</g>")
    return Drawing("On one line of time", _WIDTH, height, "".join(parts), f"on the clock of {path.root.node}")


def _short(said: str, most: int) -> str:
    return said if len(said) <= most else f"{said[: max(most, 2) - 1]}…"

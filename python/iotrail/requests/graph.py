"""`iotrail graph`: the latency graph of many requests, and the path their time is made of.

Points are where a component posted something, edges the steps from one to the next that it caused: Stardust
(SIGMETRICS 2006), section 3.3 and figure 9. Counts and percentiles are module `graph_edge`'s; which steps are critical
is `critical.walk`'s.
"""

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.table import Table

from iotrail import page, pruned
from iotrail.errors import IotrailError
from iotrail.page import Html, tag
from iotrail.requests import critical, find, lost, walk
from iotrail.requests.dot import DotEdge, DotGraph, DotNode, write
from iotrail.requests.dot import figure as dot_figure
from iotrail.requests.find import Chosen
from iotrail.terminal import WIDE, Console, Text
from iotrail.trail import Trail
from iotrail.units import counted, duration
from iotrail.visible import one_line


@dataclass(frozen=True)
class Point:
    """A kind of point; `moment` is arrival, reply, call … or None for an instant; `node` its machine, None all of them."""

    component: str
    name: str
    moment: str | None
    node: str | None = None

    def __str__(self) -> str:
        where = f"{self.node}:" if self.node else None
        return " ".join(filter(None, (where, self.component, self.name, self.moment)))


@dataclass(frozen=True)
class Edge:
    """A kind of step; times in ns, None where no clock tells them."""

    source: Point
    target: Point
    # within, rpc, split, coalesce or back
    kind: str
    # to another machine
    across: bool
    count: int
    mean_ns: int | None
    p50_ns: int | None
    p99_ns: int | None
    # how often it was on a request's critical path, and the time it took there
    critical: int
    critical_ns: int


@dataclass(frozen=True)
class Graph:
    """The steps of some requests, in the order in which a reader follows them."""

    requests: int
    # of them, without a reply: they have no critical path
    unfinished: int
    # the time that all took until their replies
    total_ns: int
    edges: tuple[Edge, ...]

    def share(self, edge: Edge) -> float:
        """The part of the requests' time that the step is, 0 to 1."""
        return edge.critical_ns / self.total_ns if self.total_ns else 0.0


def collect(trail: Trail, chosen: Chosen) -> Graph:
    """The graph of these requests. Narrows the trail to them if they aren't all."""
    pruned.expect_kept(trail, "graphs", "latency graphs")
    trail.number_nodes()
    counts = trail.rows_of(
        "SELECT CAST(COALESCE(SUM(n), 0) AS BIGINT) AS n, CAST(COALESCE(SUM(unfinished), 0) AS BIGINT) AS unfinished "
        f"FROM request_count WHERE {chosen.where}"
    )[0]
    if not chosen.all:
        walk.down(trail, f"SELECT node, crumb FROM request WHERE {chosen.where}")
        # by breadcrumb only what wasn't pruned: see find.choose
        walk.keep(trail, chosen.rolled if chosen.through is None else "false")
    return _graph(trail, "true" if chosen.through else chosen.where, counts["n"], counts["unfinished"])


def of_walked(trail: Trail, requests: int) -> Graph:
    """The graph of the requests whose paths the trail was narrowed to."""
    return _graph(trail, "true", requests, 0)


def _graph(trail: Trail, where: str, requests: int, unfinished: int) -> Graph:
    total = critical.walk(trail, where)
    rows = trail.rows_of(
        """SELECT g.*, COALESCE(c.n, 0) AS critical, COALESCE(c.time_ns, 0) AS critical_ns
        FROM graph_edge AS g
        LEFT JOIN (
            SELECT from_kind, to_kind, kind, across, CAST(SUM(n) AS BIGINT) AS n,
                CAST(SUM(time_ns) AS BIGINT) AS time_ns
            FROM critical GROUP BY ALL
        ) AS c USING (from_kind, to_kind, kind, across)
        ORDER BY from_kind, n DESC, to_kind, kind, across"""
    )
    edges = [
        Edge(
            Point(r["from_component"], r["from_name"], r["from_moment"], r["from_node"]),
            Point(r["to_component"], r["to_name"], r["to_moment"], r["to_node"]),
            r["kind"],
            r["across"],
            r["n"],
            r["mean_ns"],
            r["p50_ns"],
            r["p99_ns"],
            r["critical"],
            r["critical_ns"],
        )
        for r in rows
    ]
    return Graph(requests, unfinished, total, tuple(_in_order(edges)))


def _in_order(edges: list[Edge]) -> list[Edge]:
    """Edges as one follows them from where requests arrive: depth first, what was taken most often first."""
    below: dict[Point, list[Edge]] = {}
    for edge in edges:
        below.setdefault(edge.source, []).append(edge)
    targets = {edge.target for edge in edges}
    starts = sorted(
        below, key=lambda point: (point in targets, -sum(e.count for e in below[point]), str(point))
    )
    ordered: list[Edge] = []
    followed: set[Point] = set()
    todo = [*reversed(starts)]
    while todo:
        point = todo.pop()
        if point in followed:
            continue
        followed.add(point)
        ordered += below.get(point, [])
        todo += [edge.target for edge in reversed(below.get(point, []))]
    return ordered


def run(
    trail: Trail,
    *,
    client: str | None,
    op: str | None,
    component: str | None,
    since: str | None,
    until: str | None,
    through: str | None,
    by_node: bool,
    dot: Path | None,
    svg: Path | None,
    html: Path | None,
    as_json: bool,
    force: bool,
) -> None:
    """Print or draw the latency graph of the requests that the options leave; `by_node`: machine by machine."""
    trail.set_params({"by_node": by_node})
    if html is not None:
        page.check(html, "graph", force=force)
    chosen = find.choose(trail, client, op, component, since, until, through)
    if by_node:
        pruned.expect_raw(trail, "steps by machine", chosen.where)
    graph = collect(trail, chosen)
    if not graph.edges:
        raise IotrailError("these requests have one point each: no step to show", "iotrail path shows them")
    lost.tell(trail)
    if html is not None:
        title = ", ".join(filter(None, (trail.path.name, chosen.words)))
        notes = [tag("p", line, of="worse") for line in lost.said(trail)]
        page.write(html, page.document("graph", title, [tag("p", title), *notes, *parts(graph)]))
    if dot is not None or svg is not None:
        write(drawn(graph), dot, svg, force=force)
    elif as_json:
        json.dump(asdict(graph), sys.stdout, indent=1, ensure_ascii=False)
        print()
    else:
        show(graph)


def parts(graph: Graph) -> list[Html]:
    """The graph in a page."""
    rows = [
        [
            Html(tag("b", cell)) if edge.critical and place in (0, 2) else cell
            for place, cell in enumerate(row(graph, edge))
        ]
        for edge in graph.edges
    ]
    return [
        tag("p", tag("b", head(graph))),
        dot_figure(drawn(graph)),
        tag("p", DRAWN, of="note"),
        page.table(COLUMNS, rows, left={1, 2}, wrap=None),
        *(tag("p", line, of="note") for line in legend(graph)),
    ]


def head(graph: Graph) -> str:
    """How many requests, and how long they took."""
    words = [counted(graph.requests, "request")]
    if finished := graph.requests - graph.unfinished:
        words.append(f"{duration(graph.total_ns / finished)} each on average")
    if graph.unfinished:
        words.append(f"{graph.unfinished:,} without a reply")
    return ", ".join(words)


DRAWN = "red: what replies waited for last; dashed: to another machine"
COLUMNS = ("from", "", "to", "n", "mean", "p50", "p99", "of the time")


def row(graph: Graph, edge: Edge) -> tuple[str, ...]:
    """A step's row under COLUMNS."""
    return (
        str(edge.source),
        "⇢" if edge.across else "→",
        str(edge.target),
        f"{edge.count:,}",
        *("–" if ns is None else duration(ns) for ns in (edge.mean_ns, edge.p50_ns, edge.p99_ns)),
        f"{100 * graph.share(edge):.1f} %" if edge.critical else "",
    )


def legend(graph: Graph) -> list[str]:
    """What the table's figures mean."""
    lines = [
        "of the time: the step's part of the time until the reply, along what each reply waited for last."
    ]
    if any(edge.across for edge in graph.edges):
        lines.append("⇢ goes to another machine: half of what the call lasted longer than its serving.")
    return lines


def show(graph: Graph) -> None:
    """Print the graph as a table, one line a step."""
    console = Console(piped=WIDE)
    console.print(Text(head(graph), style="bold"))
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for number, column in enumerate(COLUMNS):
        table.add_column(column, justify="right" if number > 2 else "left", no_wrap=True)
    for edge in graph.edges:
        style = "bold" if edge.critical else "dim"
        source, arrow, target, *figures = row(graph, edge)
        arrow_style = "cyan bold" if edge.across else style
        table.add_row(
            Text(one_line(source), style=style),
            Text(arrow, style=arrow_style),
            Text(one_line(target), style=style),
            *figures,
        )
    console.print(table)
    for line in legend(graph):
        console.print(Text(line, style="dim"))


def drawn(graph: Graph) -> DotGraph:
    """The graph as Graphviz draws it."""
    points = list(dict.fromkeys(p for edge in graph.edges for p in (edge.source, edge.target)))
    names = {point: f"p{number}" for number, point in enumerate(points)}
    on_path = {p for edge in graph.edges if edge.critical for p in (edge.source, edge.target)}
    nodes = [
        DotNode(
            names[p],
            ": ".join(filter(None, (p.node, p.component))),
            " ".join(filter(None, (p.name, p.moment))),
            p.node or p.component,
            p in on_path,
        )
        for p in points
    ]
    edges = [
        DotEdge(names[e.source], names[e.target], _label(graph, e), e.across, graph.share(e), e.critical > 0)
        for e in graph.edges
    ]
    return DotGraph(counted(graph.requests, "request"), nodes, edges)


def _label(graph: Graph, edge: Edge) -> str:
    lines = [] if graph.requests == 1 and edge.count == 1 else [f"{edge.count:,} ×"]
    if edge.mean_ns is None:
        lines.append("time unknown")
    elif edge.count == 1:
        lines.append(duration(edge.mean_ns))
    else:
        lines.append(duration(edge.mean_ns))
        if edge.p50_ns is not None and edge.p99_ns is not None:
            lines.append(f"p50 {duration(edge.p50_ns)}, p99 {duration(edge.p99_ns)}")
    if edge.critical:
        lines.append(f"{100 * graph.share(edge):.1f} %")
    return "\n".join(lines)

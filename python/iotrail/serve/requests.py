"""What the page draws of requests: which there are, how long they took over time, where their time went, and one path.

Numbers are those of the modules and of the verbs `graph` and `path`. A graph or a path narrows the trail to its
requests, so each is asked of a trail opened for it.
"""

import json
from dataclasses import asdict
from typing import Any

from iotrail.errors import IotrailError, UsageError
from iotrail.page.colours import DARK
from iotrail.requests import clocks, dot, find, graph, path_text
from iotrail.requests.find import Chosen
from iotrail.requests.path import paths
from iotrail.trail import Trail
from iotrail.units import duration

MS = 1_000_000
# Columns of the heat map of latency at most, and requests of a list.
MOST_COLUMNS = 240
MOST_LISTED = 200
# Graphs of more requests than a person waits for are drawn of the newest of them.
MOST_DRAWN = 200_000


def overview(trail: Trail, chosen: Chosen, slowest: int) -> str:
    """Who asked for what, and the slowest of the requests that are left, as JSON."""
    if not 1 <= slowest <= MOST_LISTED:
        raise UsageError(f"slowest: expected 1 to {MOST_LISTED}, found {slowest}")
    if not any(trail.rows.get(table) for table in ("service_op", "pruned")):
        return json.dumps({"count": 0, "start_ms": None, "end_ms": None, "kinds": [], "slowest": []})
    if chosen.through is not None:
        find.mark_through(trail, chosen.through)
    kinds = trail.rows_of(
        f"""SELECT component, op, client, CAST(SUM(n) AS BIGINT) AS n, CAST(SUM(unfinished) AS BIGINT) AS unfinished,
            CAST(SUM(time_ns) AS BIGINT) AS time_ns, MIN(ts) // {MS} AS first_ms, MAX(ts) // {MS} AS last_ms
        FROM request_count WHERE {chosen.where}
        GROUP BY ALL ORDER BY n DESC, component, op, client LIMIT 500"""
    )
    listed = trail.rows_of(
        f"""SELECT ts // {MS} AS ts_ms, dur, node, CAST(crumb AS VARCHAR) AS crumb, client, component, op, status, length
        FROM request WHERE {chosen.where} AND dur IS NOT NULL
        ORDER BY dur DESC, ts, node, crumb LIMIT {slowest}"""
    )
    return json.dumps(
        {
            "count": sum(row["n"] for row in kinds),
            "start_ms": min((row["first_ms"] for row in kinds), default=None),
            "end_ms": max((row["last_ms"] for row in kinds), default=None),
            "kinds": kinds,
            "slowest": listed,
        }
    )


def heat(trail: Trail, chosen: Chosen, every_ms: int) -> str:
    """Requests by time and latency, one entry a cell: index of the time bucket, least latency in ns, count."""
    if chosen.start_ts is None or chosen.end_ts is None:
        raise UsageError("start_ms, end_ms: expected both")
    if every_ms < 1 or (chosen.end_ts - chosen.start_ts) // (every_ms * MS) > MOST_COLUMNS:
        raise UsageError(f"every_ms: expected at most {MOST_COLUMNS} columns, and at least 1 ms each")
    if not any(trail.rows.get(table) for table in ("service_op", "pruned")):
        return json.dumps({"start_ms": chosen.start_ts // MS, "every_ms": every_ms, "cells": []})
    if chosen.through is not None:
        find.mark_through(trail, chosen.through)
    rows = trail.query(
        f"""SELECT (ts - {chosen.start_ts}) // {every_ms * MS} AS bucket, least, CAST(SUM(n) AS BIGINT) AS n
        FROM request_count WHERE {chosen.where} AND least IS NOT NULL
        GROUP BY ALL ORDER BY bucket, least"""
    ).fetchall()
    return json.dumps({"start_ms": chosen.start_ts // MS, "every_ms": every_ms, "cells": rows})


def latency_graph(trail: Trail, chosen: Chosen) -> str:
    """The latency graph: its steps, and what Graphviz draws of it."""
    if chosen.through is not None:
        find.mark_through(trail, chosen.through)
    found = graph.collect(trail, chosen)
    drawn = graph.drawn(found)
    points = {node.id: node for node in drawn.nodes}
    return json.dumps(
        {
            "requests": found.requests,
            "unfinished": found.unfinished,
            "total_ns": found.total_ns,
            "head": graph.head(found),
            "legend": graph.legend(found),
            "dot": dot.text(drawn),
            "dark": DARK,
            "edges": [{**asdict(edge), "share": found.share(edge)} for edge in found.edges],
            "points": [asdict(point) for point in points.values()],
        }
    )


def one_path(trail: Trail, node: str, crumb: int) -> str:
    """One request's way: its lines as a tree, each with its bars on the clock of the request's machine."""
    key, roots = find.of_crumb(trail, crumb, node)
    if not roots:
        raise IotrailError(f"{crumb} on {node} works for no request: its stitches lead in a circle")
    # before the trail is narrowed to it
    bounds = clocks.of_trail(trail)
    [path] = paths(trail, roots[:1])
    drawn = path_text.timeline(path, bounds)
    # The timeline made lines of its own, in the same order, without those that it can't place.
    placed = iter(drawn.rows)
    ahead = next(placed, None)
    rows: list[dict[str, Any]] = []
    for line in path_text.lines(path):
        parts: tuple[tuple[int, int | None], ...] = ()
        if ahead is not None and ahead[0] == line:
            parts, ahead = ahead[1], next(placed, None)
        record = line.record
        rows.append(
            {
                "indent": line.indent,
                "label": line.label.plain,
                "node": line.crumb.node,
                "process": record.process if record else None,
                "crumb": str(line.crumb.crumb),
                "record": record.record if record else None,
                "kind": record.kind if record else None,
                "at_ns": None if line.ts is None else line.ts - line.since,
                "dur_ns": line.dur,
                "length": record.length if record else None,
                "status": record.status if record else None,
                "bars": parts,
            }
        )
    return json.dumps(
        {
            "asked": {"node": key[0], "crumb": str(key[1])},
            "head": path_text.head(path).plain,
            "node": path.root.node,
            "crumb": str(path.root.crumb),
            "requests": len(roots),
            "span_ns": drawn.span,
            "span": duration(drawn.span),
            "lines": rows,
            "holes": path.holes,
            "clocks": drawn.clocks,
            "missing": drawn.missing,
        }
    )

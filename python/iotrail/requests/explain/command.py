"""`iotrail explain`: collect, judge, print or draw."""

import json
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from iotrail import page, pruned
from iotrail.requests import find, graph, lost
from iotrail.requests.explain import pattern, resources, usual, verdict, waits
from iotrail.requests.explain.pattern import Pattern
from iotrail.requests.explain.resources import Resource, Window
from iotrail.requests.explain.usual import Usual
from iotrail.requests.explain.verdict import Verdict
from iotrail.requests.find import Chosen
from iotrail.requests.graph import Graph
from iotrail.trail import Trail

# Who lost less than this share of records is told of it beside the answer only.
LEAST_LOST = 0.01


@dataclass(frozen=True)
class Asked:
    """Requests of one kind of the client; times in ns, None without replies."""

    kind: str
    n: int
    unfinished: int
    mean_ns: float | None
    p99_ns: float | None
    time_ns: int
    usual_ns: float | None


@dataclass(frozen=True)
class Explanation:
    """All that `iotrail explain` says."""

    client: str
    window: Window
    asked: tuple[Asked, ...]
    verdict: Verdict
    resources: list[Resource]
    usual: Usual
    pattern: Pattern | None
    graph: Graph
    # what is not in the trail, a line each
    lost: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """For JSON: without what only drawings need."""
        return {
            "client": self.client,
            "window": asdict(self.window) | {"every_ns": self.window.every_ns},
            "verdict": asdict(self.verdict),
            "lost": self.lost,
            "requests": [asdict(each) for each in self.asked],
            "resources": [
                {name: value for name, value in asdict(each).items() if name != "series"}
                for each in self.resources
            ],
            "compared_with": self.usual.whose,
            "comparison": self.usual.comparison.as_dict() if self.usual.comparison else None,
            "pattern": self.pattern
            and {name: value for name, value in asdict(self.pattern).items() if name != "cells"},
            "graph": asdict(self.graph),
        }


def explain(path: Path, chosen: Chosen, link_bytes_s: int = 0) -> Explanation:
    """Why the client of `chosen` complains of these requests. `link_bytes_s`: what a machine's network can send."""
    assert chosen.client is not None
    # each narrows its trail in its own way
    trail, of_client, of_time = Trail(path), Trail(path), Trail(path)
    for each in (trail, of_client, of_time):
        # DuckDB would draw it over stdout after two seconds
        each.connection.execute("SET enable_progress_bar = false")
    trail.set_params({"link_bytes_s": link_bytes_s})
    window = _window(trail, chosen)
    against = usual.compare(trail, chosen)
    asked = _asked(trail, chosen, against)
    used = resources.collect(trail, window)
    steps = graph.collect(of_client, chosen)
    accesses = pattern.collect(of_time, chosen)
    # only what was saturated needs to be known to have been waited for
    saturated = any(map(verdict.is_saturated, used))
    said = verdict.judge(
        chosen.client,
        {each.kind: each.time_ns for each in asked},
        used,
        before(trail, window) if against.at_other_times and saturated else {},
        waits.collect(path, chosen) if saturated else waits.NONE,
        against,
        accesses,
        steps,
    )
    if (share := lost.share(trail)) >= LEAST_LOST:
        text = f"{said.text}; of what was recorded {share:.0%} is lost, so this may be wrong"
        said = replace(said, text=text)
    return Explanation(
        chosen.client, window, asked, said, used, against, accesses, steps, tuple(lost.said(trail))
    )


def before(trail: Trail, window: Window) -> dict[tuple[str, str, str | None], float]:
    """In which share of the rest of the trail's time each resource was saturated: (machine, resource, disk)."""
    [span] = trail.rows_of(
        "SELECT MIN(ts) AS start_ts, MAX(ts + COALESCE(dur, 0)) AS end_ts FROM service_op WHERE node = $node",
        {"node": window.node},
    )
    rest = [
        Window(window.node, start, end)
        for start, end in ((span["start_ts"], window.start_ts), (window.end_ts, span["end_ts"]))
        if end - start >= resources.LEAST_EVERY
    ]
    whole = sum(part.end_ts - part.start_ts for part in rest)
    found: dict[tuple[str, str, str | None], float] = {}
    for part in rest:
        for each in resources.collect(trail, part):
            share = (each.saturated or 0.0) * (part.end_ts - part.start_ts) / whole
            found[each.key] = found.get(each.key, 0.0) + share
    return found


def _window(trail: Trail, chosen: Chosen) -> Window:
    """When the requests were served, on the clock of the machine that most of them arrived at."""
    row = trail.rows_of(
        f"""SELECT node, MIN(ts) AS start_ts, MAX(ts + COALESCE(dur, 0)) AS end_ts FROM request WHERE {chosen.where}
        GROUP BY node ORDER BY COUNT(*) DESC, node"""
    )[0]
    start = row["start_ts"] if chosen.start_ts is None else chosen.start_ts
    end = row["end_ts"] if chosen.end_ts is None else chosen.end_ts
    return Window(row["node"], start, max(end, start + 1))


def _asked(trail: Trail, chosen: Chosen, against: Usual) -> tuple[Asked, ...]:
    rows = trail.rows_of(
        f"""SELECT concat_ws(' ', component, op) AS kind, COUNT(*) AS n, COUNT(*) - COUNT(dur) AS unfinished,
            AVG(dur) AS mean_ns, quantile_cont(dur, 0.99) AS p99_ns, CAST(COALESCE(SUM(dur), 0) AS BIGINT) AS time_ns
        FROM request WHERE {chosen.where} GROUP BY ALL ORDER BY time_ns DESC, n DESC, kind"""
    )
    return tuple(Asked(**row, usual_ns=against.mean.get(row["kind"])) for row in rows)


def run(
    trail: Trail,
    *,
    client: str | None,
    op: str | None,
    since: str | None,
    until: str | None,
    link: str | None,
    svg: Path | None,
    html: Path | None,
    as_json: bool,
    force: bool,
) -> None:
    """Explain, and print or draw it."""
    # they show what is defined here
    from iotrail.requests.explain import drawing, show
    from iotrail.requests.explain.page import render

    if html is not None:
        page.check(html, "explain", force=force)
    if svg is not None:
        page.check_drawing(svg, force=force)
    chosen = find.choose(trail, show.the_client(trail, client), op, None, since, until)
    pruned.expect_raw(trail, "the causes of a complaint", chosen.where)
    explanation = explain(trail.path, chosen, show.link_speed(link))
    lost.tell(trail)
    if html is not None:
        page.write(html, render(explanation, trail.path.name))
    if svg is not None:
        drawing.write(explanation, svg)
    elif as_json:
        json.dump(explanation.as_dict(), sys.stdout, indent=1, ensure_ascii=False)
        print()
    else:
        show.show(explanation)

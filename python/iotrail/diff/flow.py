"""How the requests of one kind flow in one trail: their steps, the shapes of their paths, what the paths are made of.

A **part** of a path is a kind of record at a place in it: what was done (component, operation; of disks not which one,
which placement decides anew each time), below the work that it was done for. The **shape** of a path is the set of its
parts: that something was repeated is no other shape, but more of a part. Parts are found from requests downwards, a
round of joins a level (docs/decisions/0007-walks-are-loops.md).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from iotrail.diff.noise import Series
from iotrail.requests import graph
from iotrail.requests.find import Chosen
from iotrail.requests.graph import Edge, Graph, Point
from iotrail.requests.walk import Key
from iotrail.trail import Trail

# As many as `call_slice` cuts calls into: docs/diff.md, "Slices".
SLICES = 128

Step = tuple[str, str, str]

_LABEL = """concat(CASE WHEN node IS NOT NULL THEN concat(node, ': ') END, CASE record
        WHEN 'service_op' THEN concat(component, CASE kind WHEN 'client' THEN ' calls ' ELSE ' ' END, op)
        WHEN 'buffer_op' THEN concat(component, ' ', place, ' ', kind)
        ELSE concat('disk ', op, CASE kind WHEN 'kernel' THEN ' (kernel)' ELSE '' END)
    END)"""

_TABLES = (
    """CREATE OR REPLACE TEMP TABLE flow_request AS
    SELECT *, ROW_NUMBER() OVER (ORDER BY ts, node, crumb) - 1 AS i FROM (
        SELECT node, crumb, MIN(ts) AS ts, MIN_BY(dur, ts) AS dur FROM request WHERE {where} GROUP BY node, crumb
    ) AS r""",
    f"CREATE OR REPLACE TEMP TABLE flow_kind AS SELECT *, {_LABEL} AS label FROM point_kind",
    # a crumb is called as who served it, or else by what it began with
    """CREATE OR REPLACE TEMP TABLE flow_name AS
    SELECT t.node, t.crumb, MIN_BY(k.label, CASE t.role WHEN 'arrival' THEN 0 WHEN 'call' THEN 1 WHEN 'begin' THEN 2
        ELSE 3 END * 1000000 + LEAST(t.seq, 999999)) AS label
    FROM point AS t JOIN flow_kind AS k USING (point_kind) GROUP BY t.node, t.crumb""",
    """CREATE OR REPLACE TEMP TABLE flow_walk AS
    SELECT r.i, w.node, w.crumb, w.depth, COALESCE(n.label, 'no record') AS label
    FROM walk AS w
    JOIN flow_request AS r ON r.node = w.root_node AND r.crumb = w.root_crumb
    LEFT JOIN flow_name AS n ON n.node = w.node AND n.crumb = w.crumb""",
    """CREATE OR REPLACE TEMP TABLE flow_crumb AS
    SELECT i, node, crumb, depth, label, hash(label) AS place, CAST(NULL AS UBIGINT) AS above
    FROM flow_walk WHERE depth = 0""",
)

# A crumb with several parents in one request is at one place. From the parents down: a crumb that thousands were made
# into has as many, of which a request is one.
_LEVEL = """INSERT INTO flow_crumb
    WITH below AS MATERIALIZED (
        SELECT p.i, p.place, c.node, c.crumb
        FROM flow_crumb AS p
        JOIN crumb_parent AS c ON c.parent_node = p.node AND c.parent_crumb = p.crumb
        WHERE p.depth = {depth} - 1
    )
    SELECT w.i, w.node, w.crumb, w.depth, w.label, MIN(hash(p.place, w.label)), MIN_BY(p.place, hash(p.place, w.label))
    FROM below AS p
    JOIN flow_walk AS w ON w.i = p.i AND w.node = p.node AND w.crumb = p.crumb AND w.depth = {depth}
    GROUP BY w.i, w.node, w.crumb, w.depth, w.label"""

# A part's time is its ends less its beginnings, where none is missing.
_PARTS = (
    """CREATE OR REPLACE TEMP TABLE flow_part AS
    SELECT c.i, c.place, hash(c.place, k.label) AS part, k.label,
        COUNT(*) FILTER (WHERE k.moment_number IN (0, 2)) AS n,
        CASE WHEN COUNT(*) FILTER (WHERE k.moment_number = 0) = COUNT(*) FILTER (WHERE k.moment_number = 1)
            THEN SUM(CASE k.moment_number WHEN 0 THEN -t.ts WHEN 1 THEN t.ts ELSE 0 END) END AS time_ns
    FROM flow_crumb AS c
    JOIN point AS t ON t.node = c.node AND t.crumb = c.crumb
    JOIN flow_kind AS k USING (point_kind)
    GROUP BY c.i, c.place, k.label""",
    """CREATE OR REPLACE TEMP TABLE flow_shape AS
    SELECT i, hash(list_sort(list(part))) AS shape FROM flow_part GROUP BY i""",
)

_STEPS = """SELECT from_kind, to_kind, kind, across, stratum, slice, AVG(latency) AS mean, COUNT(*) AS n FROM (
        SELECT e.*, t.stratum, (ROW_NUMBER() OVER w - 1) * {slices} // GREATEST(COUNT(*) OVER (
            PARTITION BY e.from_kind, e.to_kind, e.kind, e.across, t.stratum), {slices}) AS slice
        FROM edge AS e
        JOIN (SELECT node, crumb, MIN(i) AS i FROM flow_crumb GROUP BY node, crumb) AS c USING (node, crumb)
        JOIN flow_shape AS s USING (i)
        JOIN flow_stratum AS t USING (shape)
        WHERE e.latency IS NOT NULL
        WINDOW w AS (PARTITION BY e.from_kind, e.to_kind, e.kind, e.across, t.stratum ORDER BY c.i, e.crumb, e.seq)
    ) AS cut GROUP BY ALL ORDER BY from_kind, to_kind, kind, across, stratum, slice"""


@dataclass(frozen=True)
class Part:
    """A kind of record at its place in the paths."""

    label: str
    # what it stands below, outermost first
    above: tuple[str, ...]
    # the part that the work it belongs to is called by: itself, or of what is above if it is that
    owner: int | None
    count: int
    # mean time of one, ns; 0 unknown
    mean_ns: float

    def __str__(self) -> str:
        return " › ".join((*self.above[-1:], self.label))


@dataclass(frozen=True)
class Shape:
    """Requests whose paths have the same parts."""

    count: int
    mean_ns: float | None
    example: Key


class Flow:
    """The requests of one kind in a trail, which is opened anew, as it is narrowed to them."""

    def __init__(self, path: Path, chosen: Chosen, *, by_node: bool = False) -> None:
        self.trail = trail = Trail(path, {"by_node": by_node})
        # DuckDB would draw it over stdout after two seconds
        trail.connection.execute("SET enable_progress_bar = false")
        self.graph: Graph = graph.collect(trail, chosen)
        self.edges: dict[Step, Edge] = {step_of(e): e for e in self.graph.edges}
        trail.prepare("request point point_kind crumb_parent edge")
        connection = trail.connection
        with trail.errors(_LEVEL):
            for statement in _TABLES:
                connection.execute(statement.format(where=chosen.where))
            [(deepest,)] = connection.execute("SELECT MAX(depth) FROM flow_walk").fetchall()
            for depth in range(1, deepest + 1):
                connection.execute(_LEVEL.format(depth=depth))
            for statement in _PARTS:
                connection.execute(statement)
        self.shapes = {
            row["shape"]: Shape(row["n"], row["mean_ns"], (row["node"], row["crumb"]))
            for row in trail.rows_of(
                """SELECT s.shape, COUNT(*) AS n, AVG(r.dur) AS mean_ns, MIN_BY(r.node, i) AS node,
                    MIN_BY(r.crumb, i) AS crumb
                FROM flow_shape AS s JOIN flow_request AS r USING (i) GROUP BY s.shape ORDER BY n DESC, MIN(i)"""
            )
        }
        # a breadcrumb that served twice is one path
        self.requests = sum(shape.count for shape in self.shapes.values())
        self.parts = self._parts()
        # By label, how many replies waited for each on average: the steps to its end on critical paths. More than 1
        # where several requests share one, as a group commit.
        self.awaited = self._awaited()

    def _parts(self) -> dict[int, Part]:
        places = {
            row["place"]: row
            for row in self.trail.rows_of(
                "SELECT place, MIN(above) AS above, MIN(label) AS label, hash(place, MIN(label)) AS part "
                "FROM flow_crumb GROUP BY place"
            )
        }

        def chain(place: int | None) -> tuple[str, ...]:
            return () if place is None else (*chain(places[place]["above"]), places[place]["label"])

        found = {}
        for row in self.trail.rows_of(
            "SELECT part, MIN(place) AS place, MIN(label) AS label, SUM(n)::BIGINT AS n, "
            "COALESCE(SUM(time_ns) / NULLIF(SUM(n) FILTER (WHERE time_ns IS NOT NULL), 0), 0)::DOUBLE AS mean_ns "
            "FROM flow_part GROUP BY part ORDER BY part"
        ):
            place = places[row["place"]]
            names_work = place["part"] == row["part"]
            outer = place["above"] if names_work else row["place"]
            owner = None if outer is None else places[outer]["part"]
            found[row["part"]] = Part(row["label"], chain(outer), owner, row["n"], row["mean_ns"])
        return found

    def _awaited(self) -> dict[str, float]:
        rows = self.trail.rows_of(
            """SELECT k.label, SUM(c.n)::DOUBLE / SUM(e.n)::DOUBLE AS share
            FROM (SELECT to_kind, SUM(n) AS n FROM critical GROUP BY to_kind) AS c
            JOIN (SELECT to_kind, COUNT(*) AS n FROM edge GROUP BY to_kind) AS e USING (to_kind)
            JOIN flow_kind AS k ON k.point_kind = e.to_kind AND k.moment_number IN (1, 2)
            GROUP BY k.label"""
        )
        return {row["label"]: row["share"] for row in rows}

    def parts_of(self, shape: int) -> set[int]:
        """The parts of a shape."""
        rows = self.trail.rows_of(
            "SELECT part FROM flow_part WHERE i = (SELECT MIN(i) FROM flow_shape WHERE shape = $shape)",
            {"shape": shape},
        )
        return {row["part"] for row in rows}

    def durations(self) -> Series:
        """Mean time until the reply in slices of equal numbers of requests, ns."""
        return self._series(
            f"""SELECT AVG(dur) AS value FROM (
                SELECT dur, (ROW_NUMBER() OVER (ORDER BY i) - 1) * {SLICES} // GREATEST(COUNT(*) OVER (), {SLICES})
                    AS slice FROM flow_request WHERE dur IS NOT NULL
            ) AS cut GROUP BY slice ORDER BY slice"""
        )

    def per_request(self, slices: int) -> tuple[dict[int, Series], dict[int, Series], Series]:
        """Of each part how many there are, of each shape how many requests have it, and the number of requests, in
        `slices` slices of equal numbers of requests."""
        of = f"i * {slices} // {self.requests}"
        whole = self._series(f"SELECT COUNT(*) AS value FROM flow_request GROUP BY {of} ORDER BY {of}")
        found: list[dict[int, Series]] = []
        for query in (
            f"SELECT part AS key, {of} AS slice, SUM(n)::DOUBLE AS value FROM flow_part GROUP BY ALL",
            f"SELECT shape AS key, {of} AS slice, COUNT(*)::DOUBLE AS value FROM flow_shape GROUP BY ALL",
        ):
            columns: dict[int, Series] = {}
            for row in self.trail.rows_of(query):
                columns.setdefault(row["key"], np.zeros(slices))[row["slice"]] = row["value"]
            found.append(columns)
        return found[0], found[1], whole

    def steps(self, strata: Mapping[int, int]) -> dict[Step, dict[int, tuple[int, Series]]]:
        """Of each step and stratum (`strata`: of each shape) how many are timed, and the mean times, ns, in up to
        SLICES slices of equal numbers."""
        connection = self.trail.connection
        with self.trail.errors(_STEPS):
            connection.execute("CREATE OR REPLACE TEMP TABLE flow_stratum (shape UBIGINT, stratum BIGINT)")
            connection.executemany("INSERT INTO flow_stratum VALUES (?, ?)", list(strata.items()))
        names = {
            row["point_kind"]: str(Point(row["component"], row["name"], row["moment"], row["node"]))
            for row in self.trail.rows_of("SELECT point_kind, component, name, moment, node FROM point_kind")
        }
        means: dict[Step, dict[int, list[tuple[int, float]]]] = {}
        for row in self.trail.rows_of(_STEPS.format(slices=SLICES)):
            step = (names[row["from_kind"]], names[row["to_kind"]], arrow(row["kind"], row["across"]))
            means.setdefault(step, {}).setdefault(row["stratum"], []).append((row["n"], row["mean"]))
        return {
            step: {
                stratum: (sum(n for n, _ in cut), np.array([mean for _, mean in cut]))
                for stratum, cut in of.items()
            }
            for step, of in means.items()
        }

    def _series(self, query: str) -> Series:
        return np.array([row["value"] for row in self.trail.rows_of(query)], dtype=float)


def step_of(edge: Edge) -> Step:
    """What identifies a step in any trail."""
    return str(edge.source), str(edge.target), arrow(edge.kind, edge.across)


def arrow(kind: str, across: bool) -> str:
    """How a step goes: `kind` as module `edge` says."""
    return f"{kind} ⇢" if across else f"{kind} →"


def kinds(trail: Trail, chosen: Chosen) -> dict[tuple[str, str], dict[str, Any]]:
    """(component, op) of the requests that are left, with number, number of replies and their time, ns."""
    rows = trail.rows_of(
        f"""SELECT component, op, COUNT(*) AS n, COUNT(dur) AS replies, COALESCE(SUM(dur), 0)::BIGINT AS time_ns
        FROM request WHERE {chosen.where} AND component IS NOT NULL AND op IS NOT NULL
        GROUP BY component, op ORDER BY time_ns DESC, n DESC, component, op"""
    )
    return {(row["component"], row["op"]): row for row in rows}


def in_sample(trail: Trail, chosen: Chosen) -> tuple[Chosen, int]:
    """What is left of a sample of requests where all are as likely to be in it, and of how many seconds it is; of all
    requests what was chosen, and 0. Whoever counts each request once would count slow ones and those of bursts too often."""
    [row] = trail.rows_of(
        f"""SELECT COUNT(DISTINCT ts - ts % 1000000000) AS seconds
        FROM request WHERE {chosen.where} AND weight > 1"""
    )
    return (replace(chosen, sampled=True) if row["seconds"] else chosen), row["seconds"]

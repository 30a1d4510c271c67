"""Which requests a question is about: by breadcrumb, or those that its options leave."""

import re
from dataclasses import dataclass

from iotrail import pruned
from iotrail.errors import IotrailError, TrailError, UnknownNameError, UsageError
from iotrail.moments import moment, written
from iotrail.requests.walk import Key, up
from iotrail.trail import Trail, unknown


@dataclass(frozen=True)
class Chosen:
    """Requests left by the options of the command line; None leaves all. Times are ns since the epoch."""

    client: str | None = None
    op: str | None = None
    component: str | None = None
    start_ts: int | None = None
    end_ts: int | None = None
    # a machine or member of a cluster that had a part in them: temporary table `through` has their breadcrumbs
    through: str | None = None
    # not those that this leaves
    but: "Chosen | None" = None
    # only those of the seconds of which a sample of requests consists: slow ones and bursts are all there, others not
    sampled: bool = False

    @property
    def all(self) -> bool:
        """Whether every request is left."""
        return self == Chosen()

    @property
    def where(self) -> str:
        """The condition on the modules `request` and `request_count`, in SQL."""
        tests = self.rolled
        if self.through is not None:
            tests += " AND (node, crumb) IN (SELECT node, crumb FROM through)"
        if self.sampled:
            tests += (
                " AND ts - ts % 1000000000 IN (SELECT ts - ts % 1000000000 FROM request WHERE weight > 1)"
            )
        return tests

    @property
    def rolled(self) -> str:
        """The condition on what requests and rollups alike say of a request."""
        tests = [
            f"{name} = {_text(value)}"
            for name, value in (("client", self.client), ("op", self.op), ("component", self.component))
            if value is not None
        ]
        if self.start_ts is not None:
            tests.append(f"ts >= {self.start_ts}")
        if self.end_ts is not None:
            tests.append(f"ts < {self.end_ts}")
        if self.but is not None:
            tests.append(f"({self.but.where}) IS NOT TRUE")
        return " AND ".join(tests) or "true"

    @property
    def words(self) -> str:
        """What leaves them, as one says it; empty if all are left."""
        said = [
            f"{word} {value}"
            for word, value in (
                ("client", self.client),
                ("op", self.op),
                ("component", self.component),
                ("from", self.start_ts and written(self.start_ts)),
                ("to", self.end_ts and written(self.end_ts)),
                ("through", self.through),
            )
            if value is not None
        ]
        return ", ".join(said)


def choose(
    trail: Trail,
    client: str | None = None,
    op: str | None = None,
    component: str | None = None,
    since: str | None = None,
    until: str | None = None,
    through: str | None = None,
) -> Chosen:
    """The requests that options of the command line leave; refused if they name what no request has."""
    expect_requests(trail)
    for kind, value in (("client", client), ("op", op), ("component", component)):
        if value is not None:
            rows = trail.rows_of(
                f"SELECT DISTINCT {kind} AS name FROM request_count WHERE {kind} IS NOT NULL"
            )
            known = sorted(row["name"] for row in rows)
            if value not in known:
                pruned.expect_kept(trail, "graphs", "requests")
                has = f"requests have {', '.join(known[:10])}" if known else f"no request has a {kind}"
                raise unknown(kind, value, known, has)
    start_ts, end_ts = times(trail, since, until)
    pruned.expect_edges(trail, "request_rollup", start_ts, end_ts)
    chosen = Chosen(client, op, component, start_ts, end_ts, through)
    if through is not None:
        pruned.expect_raw(trail, "what a request went through", chosen.rolled)
        mark_through(trail, through)
    # counted, not stopped at the first: DuckDB 2.0 was seen to wait for itself under a LIMIT over these joins
    if not trail.rows_of(f"SELECT COUNT(*) AS n FROM request_count WHERE {chosen.where}")[0]["n"]:
        pruned.expect_kept(trail, "graphs", "requests")
        raise IotrailError("no request is of all of these", "leave out an option, or widen --from and --to")
    return chosen


# What had a part in requests: a machine, a member of the cluster, or a process of that name.
_AT = """CREATE OR REPLACE TEMP TABLE through AS SELECT DISTINCT node, crumb FROM record
    WHERE crumb <> 0 AND (
        node = $name
        OR (node, thread) IN (
            SELECT (t.node, t.thread) FROM thread AS t
            SEMI JOIN (
                SELECT node, process FROM member WHERE member = $name AND process IS NOT NULL
                UNION ALL SELECT node, process FROM process WHERE name = $name
            ) AS p ON p.node = t.node AND p.process = t.process
        )
    )"""
_ABOVE = """CREATE OR REPLACE TEMP TABLE through_above AS
    SELECT DISTINCT s.parent_node AS node, s.parent_crumb AS crumb
    FROM stitch AS s
    SEMI JOIN through_above AS f ON f.node = s.node AND f.crumb = s.crumb
    ANTI JOIN through AS t ON t.node = s.parent_node AND t.crumb = s.parent_crumb
    WHERE s.parent_crumb <> 0"""


def mark_through(trail: Trail, name: str) -> None:
    """Make the temporary table `through`: the breadcrumbs that left records on a machine or at a member or process of
    this name, and all that those work for."""
    trail.prepare(f"{_AT} stitch")
    connection = trail.connection
    with trail.errors(_AT):
        connection.execute(_AT, {"name": name})
        connection.execute("CREATE OR REPLACE TEMP TABLE through_above AS FROM through")
        while True:
            connection.execute(_ABOVE)
            if not connection.execute("INSERT INTO through FROM through_above").fetchall()[0][0]:
                break
    if not trail.rows_of("SELECT COUNT(*) AS n FROM through")[0]["n"]:
        rows = trail.rows_of("SELECT member AS name FROM member UNION SELECT DISTINCT node FROM service_op")
        known = sorted(row["name"] for row in rows)
        raise unknown("machine or member", name, known, f"requests went through {', '.join(known[:10])}")


def times(trail: Trail, since: str | None, until: str | None) -> tuple[int | None, int | None]:
    """`--from` and `--to` as ns since the epoch."""
    if since is None and until is None:
        return None, None
    start = trail.rows_of("SELECT start_ts FROM trail_span")[0]["start_ts"] or 0
    start_ts = None if since is None else moment(since, start, "--from")
    end_ts = None if until is None else moment(until, start, "--to")
    if start_ts is not None and end_ts is not None and start_ts >= end_ts:
        raise UsageError(f"--from {since} is not before --to {until}")
    return start_ts, end_ts


def expect_requests(trail: Trail) -> None:
    """Refuse a trail in which nothing was posted about requests."""
    if not any(trail.rows.get(table) for table in ("service_op", "pruned")):
        raise TrailError(
            f"{trail.path}: no requests in this trail: table service_op is empty",
            "requests are posted by the components that serve them: docs/requests.md says what they post",
        )


def of_crumb(trail: Trail, crumb: int, node: str | None) -> tuple[Key, list[Key]]:
    """A breadcrumb's key and the requests it works for: itself if it is one, none if its stitches lead in a circle."""
    expect_requests(trail)
    rows = trail.rows_of(
        """SELECT DISTINCT node FROM (
            SELECT node FROM record WHERE crumb = $crumb
            UNION ALL SELECT node FROM stitch WHERE crumb = $crumb
            UNION ALL SELECT parent_node FROM stitch WHERE parent_crumb = $crumb
        ) AS k ORDER BY node""",
        {"crumb": crumb},
    )
    nodes = [row["node"] for row in rows]
    if crumb == 0 or not nodes or (node is not None and node not in nodes):
        raise _no_crumb(trail, crumb, node, nodes)
    if node is None and len(nodes) > 1:
        raise UsageError(f"breadcrumb {crumb} is on {', '.join(nodes)}: which?", f"--node {nodes[0]}")
    key = (node or nodes[0], crumb)
    pruned.expect_request(trail, *key)
    return key, up(trail, key)[0]


def of_trace(trail: Trail, text: str) -> list[Key]:
    """The requests of an OpenTelemetry trace, given by its id; of one that iotrail's SDK began, whose id has its breadcrumb."""
    expect_requests(trail)
    digits = text.strip().lower().replace("-", "")
    if not re.fullmatch(r"[0-9a-f]{32}", digits) or not int(digits, 16):
        raise UsageError(f"--trace: expected 32 hexadecimal digits, found {text!r}")
    high, low = (_signed(int(half, 16)) for half in (digits[:16], digits[16:]))
    rows = trail.rows_of(
        """SELECT DISTINCT node, crumb FROM service_op WHERE crumb <> 0 AND trace_hi = $high AND trace_lo = $low
        UNION SELECT DISTINCT node, crumb FROM service_op WHERE crumb = $low AND crumb > 0 AND trace_hi IS NULL""",
        {"high": high, "low": low},
    )
    if not rows:
        hint = (
            pruned.said(trail)
            if trail.rows.get("pruned")
            else "iotrail path X.trail --slowest 10 shows some requests"
        )
        raise UnknownNameError(f"no request of trace {text}", hint)
    roots: dict[Key, None] = {}
    seen: set[Key] = set()
    for row in rows:
        key = (row["node"], row["crumb"])
        if key not in seen:
            above, between = up(trail, key)
            seen.update(between)
            roots |= dict.fromkeys(above)
    return list(roots)


def _signed(bits: int) -> int:
    """64 bits as the number that a BIGINT with them is."""
    return bits - (1 << 64) if bits >> 63 else bits


def slowest(trail: Trail, chosen: Chosen, count: int) -> list[Key]:
    """The requests with the longest time until the reply, longest first; those without a reply are not among them."""
    rows = trail.rows_of(
        f"SELECT node, crumb, MAX(dur) AS dur FROM request WHERE {chosen.where} AND dur IS NOT NULL "
        f"GROUP BY node, crumb ORDER BY MAX(dur) DESC, node, crumb LIMIT {count}"
    )
    if not rows:
        pruned.expect_raw(trail, "paths", chosen.where)
        raise IotrailError("none of these requests has a reply", 'iotrail sql X.trail "FROM request"')
    return [(row["node"], row["crumb"]) for row in rows]


def _no_crumb(trail: Trail, crumb: int, node: str | None, nodes: list[str]) -> UnknownNameError:
    where = f" on node {node}" if node else ""
    if crumb == 0:
        return UnknownNameError("breadcrumb 0 stands for none", "--slowest 10 shows some requests")
    if nodes:
        return UnknownNameError(f"no breadcrumb {crumb}{where}", f"it is on {', '.join(nodes)}")
    if trail.rows.get("pruned"):
        return UnknownNameError(f"no breadcrumb {crumb}{where}", pruned.said(trail))
    near = trail.rows_of(
        "SELECT node, crumb FROM request ORDER BY abs(CAST(crumb AS HUGEINT) - $crumb), node LIMIT 3",
        {"crumb": crumb},
    )
    said = ", ".join(f"{row['crumb']} ({row['node']})" for row in near)
    return UnknownNameError(
        f"no breadcrumb {crumb}{where}", f"the nearest requests are {said}; --slowest 10 shows some"
    )


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"

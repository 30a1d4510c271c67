"""The critical path of requests: the steps that their time until the reply is made of, and no others.

It is walked back from the reply by causality. What awaited a child waited for the one that replied last: the walk goes
on at that reply, through the child to its beginning, and from there at what the child left from. All requests walk
together, a round of joins at a time (docs/decisions/0007-walks-are-loops.md), so that the times of the steps of a
request add up to the time between its first point and its reply, exactly.
"""

from iotrail.trail import Trail

# A breadcrumb awaited by one that awaits it: stitches in a circle. What share bounds too.
MOST_LEVELS = 64

# Each walk has a number, by which its rows join: one integer instead of where it is.
_START = """CREATE OR REPLACE TEMP TABLE critical_at AS
    SELECT ROW_NUMBER() OVER () AS walker, s.node, s.crumb, s.reply_seq AS seq, 0 AS level, r.whose,
        s.reply_ts - s.first_ts AS ns
    FROM crumb_span AS s
    JOIN ({requests}) AS r ON r.node = s.node AND r.crumb = s.crumb
    WHERE s.reply_seq IS NOT NULL"""

# Of what came back to a point or before it, the last; of several at one point that with the last reply.
_AWAITED = """CREATE OR REPLACE TEMP TABLE critical_awaited AS
    SELECT a.walker, a.level, a.whose, b.parent_node, b.parent_crumb, b.node, b.crumb,
        b.to_seq, b.reply_kind, b.to_kind, b.across, b.back_ns
    FROM critical_at AS a
    JOIN branch AS b ON b.parent_node = a.node AND b.parent_crumb = a.crumb AND b.to_seq <= a.seq
    QUALIFY ROW_NUMBER() OVER (
        PARTITION BY a.walker ORDER BY b.to_seq DESC, b.reply_ts DESC, b.node, b.crumb
    ) = 1"""

_STEPS = """INSERT INTO critical
    SELECT a.whose, p.before_kind, p.point_kind, 'within', FALSE, COUNT(*), SUM(p.ts - p.before_ts)
    FROM (
        SELECT a.whose, a.node, a.crumb, a.seq, COALESCE(w.to_seq, 1) AS since_seq
        FROM critical_at AS a LEFT JOIN critical_awaited AS w ON w.walker = a.walker
    ) AS a
    JOIN point AS p ON p.node = a.node AND p.crumb = a.crumb AND p.seq <= a.seq AND p.seq > a.since_seq
    GROUP BY ALL
    UNION ALL
    SELECT whose, reply_kind, to_kind, 'back', across, COUNT(*), SUM(back_ns) FROM critical_awaited GROUP BY ALL"""

# Through what was awaited, or a sibling that it began after, to its beginning.
_THROUGH = """CREATE OR REPLACE TEMP TABLE critical_through AS
    SELECT v.level, v.whose, b.*
    FROM (
        SELECT level, whose, parent_node, parent_crumb, node, crumb FROM critical_awaited
        UNION ALL
        SELECT level, whose, parent_node, parent_crumb, parent_node, from_crumb
        FROM critical_through WHERE from_crumb IS NOT NULL
    ) AS v
    JOIN branch AS b ON b.parent_node = v.parent_node AND b.parent_crumb = v.parent_crumb
        AND b.node = v.node AND b.crumb = v.crumb"""

_BEGUN = """INSERT INTO critical
    SELECT whose, from_kind, first_kind, kind, across, COUNT(*), SUM(there_ns)
    FROM critical_through WHERE from_kind IS NOT NULL GROUP BY ALL"""

_ON = f"""CREATE OR REPLACE TEMP TABLE critical_at AS
    SELECT ROW_NUMBER() OVER () AS walker, * FROM (
        SELECT node, crumb, reply_seq AS seq, level + 1 AS level, whose
        FROM critical_through WHERE level < {MOST_LEVELS}
        UNION ALL
        SELECT parent_node, parent_crumb, from_seq, level, whose
        FROM critical_through WHERE from_seq IS NOT NULL
    )"""


def walk(trail: Trail, where: str) -> int:
    """Make the temporary table `critical` of the requests that `where` leaves of module `request`: one row a kind of
    step with how often it was critical and the ns it took; of pruned requests too. Returns the ns that all these
    requests took."""
    # Those of one weight together: what they come to counts as often as each of them stands for others.
    walk_from(
        trail, f"SELECT node, crumb, MAX(weight) AS whose FROM request WHERE {where} GROUP BY node, crumb"
    )
    trail.prepare("request_rollup pruned_step")
    trail.connection.execute(
        "CREATE OR REPLACE TEMP TABLE critical AS SELECT CAST(0 AS BIGINT) AS whose, from_kind, to_kind, kind, across, "
        "CAST(SUM(n * whose) AS BIGINT) AS n, CAST(SUM(time_ns * whose) AS BIGINT) AS time_ns FROM critical GROUP BY ALL"
    )
    trail.connection.execute(
        "INSERT INTO critical SELECT 0, from_kind, to_kind, kind, across, CAST(SUM(critical) AS BIGINT), "
        "CAST(SUM(critical_ns) AS BIGINT) FROM pruned_step WHERE critical > 0 GROUP BY ALL"
    )
    [row] = trail.rows_of(
        "SELECT (SELECT COALESCE(SUM(ns * whose), 0) FROM critical_begun) + "
        f"(SELECT COALESCE(SUM(path_ns), 0) FROM request_rollup WHERE {where}) AS ns"
    )
    return int(row["ns"])


def walk_from(trail: Trail, requests: str) -> None:
    """Make the tables `critical` and `critical_begun`, node and ns of each request. `requests` is a SELECT of node,
    crumb and whose: a number that both tables have, too."""
    trail.prepare(f"{requests} crumb_span branch point")
    connection = trail.connection
    with trail.errors(_START):
        connection.execute(_START.format(requests=requests))
        connection.execute(
            "CREATE OR REPLACE TEMP TABLE critical_begun AS SELECT node, whose, ns FROM critical_at"
        )
        connection.execute(
            "CREATE OR REPLACE TEMP TABLE critical (whose BIGINT, from_kind BIGINT, to_kind BIGINT, kind VARCHAR, "
            "across BOOLEAN, n BIGINT, time_ns BIGINT)"
        )
        connection.execute(
            "CREATE OR REPLACE TEMP TABLE critical_through AS SELECT 0 AS level, CAST(0 AS BIGINT) AS whose, * "
            "FROM branch LIMIT 0"
        )
        while _rows(trail, "critical_at") or _rows(trail, "critical_through"):
            for statement in (_AWAITED, _STEPS, _THROUGH, _BEGUN, _ON):
                connection.execute(statement)


def _rows(trail: Trail, table: str) -> int:
    return int(trail.connection.execute(f"SELECT COUNT(*) FROM {table}").fetchall()[0][0])

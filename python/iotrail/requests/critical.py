"""The critical path of requests: the steps that their time until the reply is made of, and no others.

It is walked back from the reply by causality. What awaited a child waited for the one that replied last: the walk goes
on at that reply, through the child to its beginning, and from there at what the child left from. All requests walk
together, a round of joins at a time (docs/decisions/0007-walks-are-loops.md), so that the times of the steps of a
request add up to the time between its first point and its reply, exactly.
"""

from iotrail.trail import Trail

# A breadcrumb awaited by one that awaits it: stitches in a circle. What share bounds too.
MOST_LEVELS = 64

_START = """CREATE OR REPLACE TEMP TABLE critical_at AS
    SELECT s.node AS root_node, s.crumb AS root_crumb, s.node, s.crumb, s.reply_seq AS seq, 0 AS level
    FROM crumb_span AS s
    SEMI JOIN (SELECT node, crumb FROM request WHERE {where}) AS r ON r.node = s.node AND r.crumb = s.crumb
    WHERE s.reply_seq IS NOT NULL"""

# Of what came back to a point or before it, the last; of several at one point that with the last reply.
_AWAITED = """CREATE OR REPLACE TEMP TABLE critical_awaited AS
    SELECT a.root_node, a.root_crumb, a.node AS parent_node, a.crumb AS parent_crumb, a.level, a.seq,
        b.node, b.crumb,
        b.to_seq, b.reply_kind, b.to_kind, b.across, b.back_ns
    FROM critical_at AS a
    JOIN branch AS b ON b.parent_node = a.node AND b.parent_crumb = a.crumb AND b.to_seq <= a.seq
    QUALIFY ROW_NUMBER() OVER (
        PARTITION BY a.root_node, a.root_crumb, a.node, a.crumb, a.level, a.seq
        ORDER BY b.to_seq DESC, b.reply_ts DESC, b.node, b.crumb
    ) = 1"""

_STEPS = """INSERT INTO critical
    SELECT p.before_kind, p.point_kind, 'within', FALSE, COUNT(*), SUM(p.ts - p.before_ts)
    FROM critical_at AS a
    LEFT JOIN critical_awaited AS w ON w.root_node = a.root_node AND w.root_crumb = a.root_crumb
        AND w.parent_node = a.node AND w.parent_crumb = a.crumb AND w.level = a.level AND w.seq = a.seq
    JOIN point AS p ON p.node = a.node AND p.crumb = a.crumb AND p.seq <= a.seq AND p.seq > COALESCE(w.to_seq, 1)
    GROUP BY ALL
    UNION ALL
    SELECT reply_kind, to_kind, 'back', across, COUNT(*), SUM(back_ns) FROM critical_awaited GROUP BY ALL"""

# Through what was awaited, or a sibling that it began after, to its beginning.
_THROUGH = """CREATE OR REPLACE TEMP TABLE critical_through AS
    SELECT v.root_node, v.root_crumb, v.level, b.*
    FROM (
        SELECT root_node, root_crumb, parent_node, parent_crumb, level, node, crumb FROM critical_awaited
        UNION ALL
        SELECT root_node, root_crumb, parent_node, parent_crumb, level, parent_node, from_crumb
        FROM critical_through WHERE from_crumb IS NOT NULL
    ) AS v
    JOIN branch AS b ON b.parent_node = v.parent_node AND b.parent_crumb = v.parent_crumb
        AND b.node = v.node AND b.crumb = v.crumb"""

_BEGUN = """INSERT INTO critical
    SELECT from_kind, first_kind, kind, across, COUNT(*), SUM(there_ns)
    FROM critical_through WHERE from_kind IS NOT NULL GROUP BY ALL"""

_ON = f"""CREATE OR REPLACE TEMP TABLE critical_at AS
    SELECT root_node, root_crumb, node, crumb, reply_seq AS seq, level + 1 AS level
    FROM critical_through WHERE level < {MOST_LEVELS}
    UNION ALL
    SELECT root_node, root_crumb, parent_node, parent_crumb, from_seq, level
    FROM critical_through WHERE from_seq IS NOT NULL"""


def walk(trail: Trail, where: str) -> int:
    """Make the temporary table `critical` of the requests that `where` leaves of module `request`: one row a kind of
    step with how often it was critical and the ns it took. Returns the ns that all these requests took."""
    trail.prepare("crumb_span request branch point")
    connection = trail.connection
    with trail.errors(_START):
        connection.execute(_START.format(where=where))
        connection.execute(
            "CREATE OR REPLACE TEMP TABLE critical (from_kind BIGINT, to_kind BIGINT, kind VARCHAR, across BOOLEAN, "
            "n BIGINT, time_ns BIGINT)"
        )
        total = trail.rows_of(
            "SELECT CAST(COALESCE(SUM(s.reply_ts - s.first_ts), 0) AS BIGINT) AS ns FROM crumb_span AS s "
            "SEMI JOIN critical_at AS a ON a.node = s.node AND a.crumb = s.crumb"
        )[0]["ns"]
        connection.execute(
            "CREATE OR REPLACE TEMP TABLE critical_through AS SELECT '' AS root_node, CAST(0 AS BIGINT) AS root_crumb, "
            "0 AS level, * FROM branch LIMIT 0"
        )
        while _rows(trail, "critical_at") or _rows(trail, "critical_through"):
            for statement in (_AWAITED, _STEPS, _THROUGH, _BEGUN, _ON):
                connection.execute(statement)
    return int(total)


def _rows(trail: Trail, table: str) -> int:
    row = trail.connection.execute(f"SELECT COUNT(*) FROM {table}").fetchone()
    return int(row[0]) if row else 0

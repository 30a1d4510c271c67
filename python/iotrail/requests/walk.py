"""From requests to the breadcrumbs below them, and from a breadcrumb up to its requests.

Both are loops of joins over sets of breadcrumbs, each step one query, with a visited set: it ends however stitches
lead, in cycles too, and costs the same few queries for one request and for a million
(docs/decisions/0007-walks-are-loops.md).
"""

from iotrail.trail import Trail

Key = tuple[str, int]

# By breadcrumb alone first: see Trail.narrow.
_BELOW = """CREATE OR REPLACE TEMP TABLE frontier AS
    WITH below AS MATERIALIZED (
        SELECT node, crumb, parent_node, parent_crumb
        FROM stitch AS s SEMI JOIN frontier AS f ON f.crumb = s.parent_crumb
        WHERE s.crumb <> 0
    )
    SELECT DISTINCT f.root_node, f.root_crumb, s.node, s.crumb, f.depth + 1 AS depth
    FROM frontier AS f
    JOIN below AS s ON s.parent_node = f.node AND s.parent_crumb = f.crumb
    ANTI JOIN walk AS w ON w.root_node = f.root_node AND w.root_crumb = f.root_crumb
        AND w.node = s.node AND w.crumb = s.crumb"""


def down(trail: Trail, roots: str) -> int:
    """Make the temporary table `walk`: the breadcrumbs of paths, one row a root and breadcrumb.

    `roots` is a SELECT of node and crumb. Columns: root_node, root_crumb, node, crumb, depth (0 the root). Returns
    how many rows it has.
    """
    return down_from(trail, f"SELECT node AS root_node, crumb AS root_crumb, node, crumb FROM ({roots}) AS r")


def down_from(trail: Trail, starts: str) -> int:
    """As `down`, from any breadcrumbs, which `starts` gives with what stands for their root."""
    trail.prepare(f"{starts} stitch")
    connection = trail.connection
    with trail.errors(starts):
        connection.execute(
            "CREATE OR REPLACE TEMP TABLE frontier AS SELECT DISTINCT root_node, root_crumb, "
            f"node, crumb, CAST(0 AS BIGINT) AS depth FROM ({starts}) AS s"
        )
        connection.execute("CREATE OR REPLACE TEMP TABLE walk AS FROM frontier LIMIT 0")
        rows = 0
        while found := _count(trail, "INSERT INTO walk FROM frontier"):
            rows += found
            connection.execute(_BELOW)
    return rows


def keep(trail: Trail, pruned: str = "false") -> None:
    """Narrow the trail to the breadcrumbs of `walk`, and to the pruned requests that `pruned` leaves."""
    trail.connection.execute("CREATE OR REPLACE TEMP TABLE walked AS SELECT DISTINCT node, crumb FROM walk")
    trail.narrow("walked", pruned)


def up(trail: Trail, key: Key) -> tuple[list[Key], list[Key]]:
    """The requests a breadcrumb works for, and the breadcrumbs between: (roots, all above with the given one).

    No roots: what is above leads back to itself.
    """
    seen = [key]
    roots: list[Key] = []
    fresh = [key]
    while fresh:
        parents: dict[Key, set[Key]] = {child: set() for child in fresh}
        for row in trail.rows_of(
            "SELECT s.node, s.crumb, s.parent_node, s.parent_crumb FROM stitch AS s JOIN "
            "(SELECT unnest($nodes) AS node, unnest($crumbs) AS crumb) AS k ON k.node = s.node AND k.crumb = s.crumb "
            "WHERE s.parent_crumb <> 0",
            {"nodes": [n for n, _ in fresh], "crumbs": [c for _, c in fresh]},
        ):
            parents[row["node"], row["crumb"]].add((row["parent_node"], row["parent_crumb"]))
        roots += [child for child, above in parents.items() if not above]
        fresh = sorted({parent for above in parents.values() for parent in above} - set(seen))
        seen += fresh
    return sorted(roots), seen


def _count(trail: Trail, statement: str) -> int:
    return int(trail.connection.execute(statement).fetchall()[0][0])

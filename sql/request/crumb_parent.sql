-- What breadcrumbs work for: one row a child and parent, with the part of the child's cost that is the parent's.
-- A child's whole is cut into 2^30 parts, which its parents have by weight, in order of node and breadcrumb:
-- [lo, hi) are the parent's, so that the parts of all parents are the whole exactly. Where no weight is above 0
-- all parents have the same.
--
-- @requires stitch
-- @order node, crumb, lo
-- @dimension node, crumb, parent_node, parent_crumb, kind
-- @measure n = count(*)
-- @column node VARCHAR: machine of the child
-- @column crumb BIGINT: the child
-- @column parent_node VARCHAR: machine of the parent
-- @column parent_crumb BIGINT: the parent
-- @column kind VARCHAR: rpc, split or coalesce
-- @column ts BIGINT ns: when it was first said, on the clock of the child's node
-- @column lo BIGINT: first of the parent's parts of 1,073,741,824
-- @column hi BIGINT: end of the parent's parts
WITH several AS (
    -- few are stitched more than once: only they are grouped by parent and weighed
    SELECT node, crumb
    FROM stitch
    WHERE crumb <> 0 AND parent_crumb <> 0
    GROUP BY node, crumb
    HAVING COUNT(*) > 1
),

pair AS (
    -- a stitch said twice is one; a request's two pages in one flush are one parent of both weights
    SELECT
        s.node,
        s.crumb,
        s.parent_node,
        s.parent_crumb,
        MIN(s.kind) AS kind,
        MIN(s.ts) AS ts,
        CAST(SUM(GREATEST(s.weight, 0)) AS DOUBLE) AS weight
    FROM stitch AS s
    SEMI JOIN several AS c ON c.node = s.node AND c.crumb = s.crumb
    WHERE s.crumb <> 0 AND s.parent_crumb <> 0
    GROUP BY s.node, s.crumb, s.parent_node, s.parent_crumb
),

weighed AS (
    SELECT
        *,
        SUM(weight) OVER (PARTITION BY node, crumb) AS of_all,
        SUM(weight) OVER (
            PARTITION BY node, crumb ORDER BY parent_node NULLS LAST, parent_crumb NULLS LAST
            ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS until_here,
        COUNT(*) OVER (PARTITION BY node, crumb) AS parents,
        ROW_NUMBER() OVER (PARTITION BY node, crumb ORDER BY parent_node NULLS LAST, parent_crumb NULLS LAST) AS place
    FROM pair
),

cut AS (
    SELECT
        *,
        -- rounded up, so that a third of 9 is 3 though 2^30 is no multiple of 3
        CAST(
            CEIL(
                1073741824 * CASE WHEN of_all > 0 THEN until_here / of_all ELSE CAST(place AS DOUBLE) / parents END
            ) AS BIGINT
        ) AS hi
    FROM weighed
)

SELECT
    node,
    crumb,
    parent_node,
    parent_crumb,
    kind,
    ts,
    LAG(hi, 1, 0) OVER (PARTITION BY node, crumb ORDER BY place NULLS LAST) AS lo,
    hi
FROM cut
UNION ALL
SELECT s.node, s.crumb, s.parent_node, s.parent_crumb, s.kind, s.ts, 0, 1073741824
FROM stitch AS s
ANTI JOIN several AS c ON c.node = s.node AND c.crumb = s.crumb
WHERE s.crumb <> 0 AND s.parent_crumb <> 0

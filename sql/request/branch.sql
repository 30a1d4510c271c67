-- Where what works for a breadcrumb leaves it and comes back to it: one row a parent and child.
-- On one machine, whose clock orders them, a child leaves from what came last before it: a point of the parent, or
-- the reply of a sibling. Its reply is awaited by what comes next: a point of the parent, or a sibling that begins.
-- Another machine's leaves from the parent's call and is awaited by its return. What ends after all of that was not
-- awaited; nor is what seems to begin before its parent.
--
-- @materialize
-- @requires crumb_parent, crumb_span, point
-- @order parent_node, parent_crumb, from_seq
-- @dimension kind, across
-- @measure n = count(*)
-- @column parent_node VARCHAR: machine of the parent
-- @column parent_crumb BIGINT: the parent
-- @column node VARCHAR: machine of the child
-- @column crumb BIGINT: the child
-- @column kind VARCHAR: rpc, split or coalesce
-- @column across BOOLEAN: whether they are on different machines
-- @column from_seq BIGINT: the parent's point it leaves from; null a sibling, or nothing came before
-- @column from_crumb BIGINT: the sibling whose reply it leaves from; null the parent
-- @column from_kind BIGINT: what it leaves from, see point_kind; null nothing came before
-- @column to_seq BIGINT: the parent's point that awaited it; null a sibling, or none did
-- @column to_crumb BIGINT: the sibling that began after it; null the parent
-- @column to_kind BIGINT: what awaited it; null nothing did
-- @column since_seq BIGINT: the parent's last point before the child began; null none
-- @column first_kind BIGINT: the child's first point
-- @column reply_seq BIGINT: the child's reply, as seq of its point; null it is missing
-- @column reply_kind BIGINT: what that is
-- @column reply_ts BIGINT ns: when that was
-- @column there_ns BIGINT ns: time until the child's first point; across machines half of what the call lasted
--     longer than its serving; null unknown
-- @column back_ns BIGINT ns: time from the child's reply to what awaited it, across machines the rest
WITH pair AS (
    SELECT
        p.parent_node,
        p.parent_crumb,
        p.node,
        p.crumb,
        p.kind,
        c.first_ts,
        c.first_kind,
        c.reply_ts,
        c.reply_seq,
        c.reply_kind,
        s.first_ts AS parent_ts
    FROM crumb_parent AS p
    INNER JOIN crumb_span AS c ON c.node = p.node AND c.crumb = p.crumb
    -- of a parent without points nothing leaves
    INNER JOIN crumb_span AS s ON s.node = p.parent_node AND s.crumb = p.parent_crumb
),

near AS (
    SELECT * FROM pair WHERE node = parent_node AND crumb <> parent_crumb
),

-- what seems to begin before its parent, as after a step of the clock, has no place in the parent's order
ordered AS (
    SELECT * FROM near WHERE first_ts >= parent_ts
),

-- what happens at a parent: its points, and children that begin (2) and reply (0, or 3 if they took no time)
happening AS (
    SELECT t.node, t.crumb, t.ts, 1 AS place, t.seq, CAST(NULL AS BIGINT) AS child, t.point_kind
    FROM point AS t
    SEMI JOIN ordered AS p ON p.parent_node = t.node AND p.parent_crumb = t.crumb
    UNION ALL
    SELECT node, parent_crumb, first_ts, 2, NULL, crumb, first_kind FROM ordered
    UNION ALL
    SELECT node, parent_crumb, reply_ts, CASE WHEN reply_ts > first_ts THEN 0 ELSE 3 END, NULL, crumb, reply_kind
    FROM ordered
    WHERE reply_ts IS NOT NULL
),

numbered AS (
    SELECT
        *,
        ROW_NUMBER() OVER (
            PARTITION BY node, crumb
            ORDER BY ts NULLS LAST, place NULLS LAST, seq NULLS LAST, child NULLS LAST
        ) AS i
    FROM happening
),

placed AS (
    SELECT
        *,
        MAX(CASE WHEN place <> 2 THEN i END) OVER (
            PARTITION BY node, crumb ORDER BY i NULLS LAST ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS before_i,
        MIN(CASE WHEN place BETWEEN 1 AND 2 THEN i END) OVER (
            PARTITION BY node, crumb ORDER BY i NULLS LAST ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING
        ) AS after_i,
        MAX(seq) OVER (
            PARTITION BY node, crumb ORDER BY i NULLS LAST ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS since_seq
    FROM numbered
),

leaving AS (
    SELECT b.node, b.crumb, b.child, b.since_seq, f.seq, f.child AS from_crumb, f.point_kind, f.ts
    FROM placed AS b
    INNER JOIN numbered AS f ON f.node = b.node AND f.crumb = b.crumb AND f.i = b.before_i
    WHERE b.place = 2
),

back AS (
    SELECT b.node, b.crumb, b.child, t.seq, t.child AS to_crumb, t.point_kind, t.ts
    FROM placed AS b
    INNER JOIN numbered AS t ON t.node = b.node AND t.crumb = b.crumb AND t.i = b.after_i
    WHERE b.place IN (0, 3)
),

far AS (
    SELECT
        p.*,
        s.call_seq,
        s.call_kind,
        CASE WHEN p.reply_seq IS NOT NULL THEN s.return_seq END AS to_seq,
        CASE WHEN p.reply_seq IS NOT NULL THEN s.return_kind END AS to_kind,
        s.return_ts - s.call_ts - (p.reply_ts - p.first_ts) AS both_ns
    FROM pair AS p
    INNER JOIN crumb_span AS s ON s.node = p.parent_node AND s.crumb = p.parent_crumb
    WHERE p.node <> p.parent_node
)

SELECT
    p.parent_node,
    p.parent_crumb,
    p.node,
    p.crumb,
    p.kind,
    FALSE AS across,
    l.seq AS from_seq,
    l.from_crumb,
    l.point_kind AS from_kind,
    r.seq AS to_seq,
    r.to_crumb,
    r.point_kind AS to_kind,
    l.since_seq,
    p.first_kind,
    p.reply_seq,
    p.reply_kind,
    p.reply_ts,
    p.first_ts - l.ts AS there_ns,
    r.ts - p.reply_ts AS back_ns
FROM near AS p
LEFT JOIN leaving AS l ON l.node = p.node AND l.crumb = p.parent_crumb AND l.child = p.crumb
LEFT JOIN back AS r ON r.node = p.node AND r.crumb = p.parent_crumb AND r.child = p.crumb
UNION ALL
SELECT
    parent_node,
    parent_crumb,
    node,
    crumb,
    kind,
    TRUE,
    call_seq,
    NULL,
    call_kind,
    to_seq,
    NULL,
    to_kind,
    call_seq,
    first_kind,
    reply_seq,
    reply_kind,
    reply_ts,
    CAST((both_ns - both_ns % 2) / 2 AS BIGINT),
    both_ns - CAST((both_ns - both_ns % 2) / 2 AS BIGINT)
FROM far

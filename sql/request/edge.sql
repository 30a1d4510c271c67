-- Steps of requests from one point to the next that it caused: one row a step, the edges of a latency graph.
-- Within a breadcrumb points follow each other. What works for it leaves and comes back (module branch), in parallel
-- with others perhaps; a parent's step past it, in which it only waited, is no step.
--
-- @requires point, branch, service_op
-- @dimension from_kind, to_kind, kind, across
-- @measure n = sum(weight); latency = sum(latency * weight)
-- @column node VARCHAR: machine of the point it leads to
-- @column crumb BIGINT: breadcrumb of that point; of a step back, which waited, its parent's
-- @column seq BIGINT: that point's place in its breadcrumb
-- @column from_kind BIGINT: what it starts from, see point_kind
-- @column to_kind BIGINT: what it leads to
-- @column kind VARCHAR: within, the stitch it follows (rpc, split, coalesce), or back
-- @column across BOOLEAN: whether it leads to another machine
-- @column latency BIGINT ns: time it took; across machines half of what the call lasted longer than its serving;
--     null unknown
-- @column least BIGINT ns: smallest time of the histogram's bucket that holds it; null unknown
-- @column of_node VARCHAR: machine of the breadcrumb it is a step of: that of the point, or the parent
-- @column of_crumb BIGINT: that breadcrumb
-- @column weight BIGINT ops: steps it stands for: 1, but in a sample
WITH step AS (
    SELECT
        p.node,
        p.crumb,
        p.seq,
        p.before_kind AS from_kind,
        p.point_kind AS to_kind,
        'within' AS kind,
        FALSE AS across,
        p.ts - p.before_ts AS latency,
        p.node AS of_node,
        p.crumb AS of_crumb
    FROM point AS p
    ANTI JOIN branch AS b
        ON b.parent_node = p.node AND b.parent_crumb = p.crumb AND b.to_seq = p.seq AND b.since_seq = p.seq - 1
    WHERE p.before_kind IS NOT NULL
    UNION ALL
    SELECT node, crumb, 1, from_kind, first_kind, kind, across, there_ns, parent_node, parent_crumb
    FROM branch
    WHERE from_kind IS NOT NULL
    UNION ALL
    -- a reply that a sibling begins after: not said twice, where that one leaves from it
    SELECT
        b.parent_node,
        COALESCE(b.to_crumb, b.parent_crumb),
        COALESCE(b.to_seq, 1),
        b.reply_kind,
        b.to_kind,
        'back',
        b.across,
        b.back_ns,
        b.parent_node,
        b.parent_crumb
    FROM branch AS b
    ANTI JOIN branch AS s
        ON s.parent_node = b.parent_node AND s.parent_crumb = b.parent_crumb AND s.node = b.node AND s.crumb = b.to_crumb
        AND s.from_crumb = b.crumb
    WHERE b.to_kind IS NOT NULL
),

-- of a sample only
weighed AS (
    SELECT node, crumb, MAX(weight) AS weight
    FROM service_op
    WHERE weight <> 1
    GROUP BY node, crumb
),

placed AS (
    SELECT
        *,
        -- log2 may round up just below a power of two: >> tells
        CAST(FLOOR(LOG2(GREATEST(latency, 1))) AS INTEGER)
        - CASE
            WHEN GREATEST(latency, 1) >> CAST(FLOOR(LOG2(GREATEST(latency, 1))) AS INTEGER) = 0 THEN 1 ELSE 0
        END AS octave
    FROM step
)

SELECT
    p.node,
    p.crumb,
    p.seq,
    from_kind,
    to_kind,
    kind,
    across,
    latency,
    -- the bucket's lower bound (crates/format/src/hist.rs): the 5 bits below the highest one stay; a step of
    -- less than no time, of records that contradict each other, counts as 0
    CASE
        WHEN latency < 64 THEN GREATEST(latency, 0)
        ELSE latency - latency % CAST(POWER(2, octave - 5) AS BIGINT)
    END AS least,
    p.of_node,
    p.of_crumb,
    COALESCE(w.weight, 1) AS weight
FROM placed AS p
LEFT JOIN weighed AS w ON w.node = p.of_node AND w.crumb = p.of_crumb

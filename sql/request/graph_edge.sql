-- The latency graph of all requests: one row a kind of step, how often it was taken and how long it took.
-- In a sample a step counts as often as its request stands for. A percentile is the lower bound of the histogram's bucket that holds it: at most 1/32 too low.
--
-- @requires edge, point_kind, pruned_step
-- @order n DESC
-- @dimension from_component, to_component, kind, across
-- @measure n = sum(n); time_ns = sum(time_ns)
-- @column from_kind BIGINT: what it starts from, see point_kind
-- @column from_component VARCHAR: part of the system
-- @column from_name VARCHAR: what is done there
-- @column from_moment VARCHAR: arrival, reply, call …; null an instant
-- @column from_node VARCHAR: its machine; null without by_node, and of what was pruned
-- @column to_kind BIGINT: what it leads to
-- @column to_component VARCHAR: part of the system
-- @column to_name VARCHAR: what is done there
-- @column to_moment VARCHAR: arrival, reply, call …; null an instant
-- @column to_node VARCHAR: its machine; null without by_node, and of what was pruned
-- @column kind VARCHAR: within, the stitch it follows (rpc, split, coalesce), or back
-- @column across BOOLEAN: whether it leads to another machine
-- @column n BIGINT ops: how often it was taken
-- @column timed BIGINT ops: how often its time is known
-- @column time_ns BIGINT ns: that time together
-- @column mean_ns BIGINT ns: its mean, rounded down; null unknown
-- @column p50_ns BIGINT ns: its median; null unknown
-- @column p99_ns BIGINT ns: its 99th percentile; null unknown
-- @column max_ns BIGINT ns: its largest, exact; null unknown
WITH histogram AS (
    SELECT
        from_kind,
        to_kind,
        kind,
        across,
        least,
        SUM(weight) AS n,
        SUM(latency * weight) AS time_ns,
        COUNT(*) AS rows_n,
        SUM(latency) AS rows_ns,
        MAX(latency) AS max_ns
    FROM edge
    GROUP BY from_kind, to_kind, kind, across, least
    UNION ALL
    SELECT from_kind, to_kind, kind, across, least, n, time_ns, n, time_ns, max_ns
    FROM pruned_step
),

-- steps of which all were collected for the paths of others count as they are
counted AS (
    SELECT
        from_kind,
        to_kind,
        kind,
        across,
        least,
        CASE WHEN SUM(n) OVER (PARTITION BY from_kind, to_kind, kind, across) > 0 THEN n ELSE rows_n END AS n,
        CASE WHEN SUM(n) OVER (PARTITION BY from_kind, to_kind, kind, across) > 0 THEN time_ns ELSE rows_ns END AS time_ns,
        max_ns
    FROM histogram
),

running AS (
    SELECT
        *,
        SUM(n) OVER (
            PARTITION BY from_kind, to_kind, kind, across ORDER BY least NULLS LAST
            ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS until_here,
        SUM(CASE WHEN least IS NULL THEN 0 ELSE n END) OVER (PARTITION BY from_kind, to_kind, kind, across) AS timed
    FROM counted
),

summed AS (
    SELECT
        from_kind,
        to_kind,
        kind,
        across,
        CAST(SUM(n) AS BIGINT) AS n,
        CAST(MAX(timed) AS BIGINT) AS timed,
        CAST(COALESCE(SUM(time_ns), 0) AS BIGINT) AS time_ns,
        -- in integers, so that the 99th of 100 is exactly the 99th
        MIN(least) FILTER (WHERE until_here * 100 >= timed * 50) AS p50_ns,
        MIN(least) FILTER (WHERE until_here * 100 >= timed * 99) AS p99_ns,
        MAX(max_ns) AS max_ns
    FROM running
    GROUP BY from_kind, to_kind, kind, across
    HAVING SUM(n) > 0
)

SELECT
    s.from_kind,
    f.component AS from_component,
    f.name AS from_name,
    f.moment AS from_moment,
    f.node AS from_node,
    s.to_kind,
    t.component AS to_component,
    t.name AS to_name,
    t.moment AS to_moment,
    t.node AS to_node,
    s.kind,
    s.across,
    s.n,
    s.timed,
    s.time_ns,
    CAST(FLOOR(s.time_ns / NULLIF(s.timed, 0)) AS BIGINT) AS mean_ns,
    s.p50_ns,
    s.p99_ns,
    s.max_ns
FROM summed AS s
INNER JOIN point_kind AS f ON f.point_kind = s.from_kind
INNER JOIN point_kind AS t ON t.point_kind = s.to_kind

-- Points of the system at which something arrives: how often, how evenly, how long it takes there.
-- A percentile is the lower bound of the histogram's bucket that holds it: at most 1/32 too low.
--
-- @requires interarrival, interarrival_bucket
-- @order level DESC, node, place
-- @dimension level, node, place
-- @measure n = sum(n)
-- @column level VARCHAR: request, message or disk
-- @column node VARCHAR: machine
-- @column place VARCHAR: component, sender or disk
-- @column n BIGINT ops: arrivals
-- @column rate DOUBLE 1/s: arrivals a second, from the first to the last; null fewer than two moments
-- @column mean_ns DOUBLE ns: mean time between arrivals; null a single one
-- @column cv DOUBLE: its standard deviation by its mean: 1 if exponential; null fewer than three, or all at once
-- @column p50_ns BIGINT ns: median time between arrivals; null a single one
-- @column p99_ns BIGINT ns: its 99th percentile; null a single one
-- @column max_ns BIGINT ns: the longest, exact; null a single one
-- @column service_ns DOUBLE ns: mean time served, without waiting; null unknown
-- @column service_cv DOUBLE: its standard deviation by its mean; null unknown
-- @column response_ns DOUBLE ns: mean time until it was done; null unknown
WITH summed AS (
    SELECT
        level,
        node,
        place,
        COUNT(*) AS n,
        AVG(CAST(gap_ns AS DOUBLE)) AS mean_ns,
        STDDEV_SAMP(CAST(gap_ns AS DOUBLE)) AS spread,
        AVG(CAST(service_ns AS DOUBLE)) AS service_ns,
        STDDEV_SAMP(CAST(service_ns AS DOUBLE)) AS service_spread,
        AVG(CAST(response_ns AS DOUBLE)) AS response_ns
    FROM interarrival
    GROUP BY level, node, place
),

running AS (
    SELECT
        level,
        node,
        place,
        gap_ns,
        max_ns,
        SUM(n) OVER (
            PARTITION BY level, node, place ORDER BY gap_ns NULLS LAST
            ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS until_here,
        SUM(n) OVER (PARTITION BY level, node, place) AS of_all
    FROM interarrival_bucket
),

ranked AS (
    SELECT
        level,
        node,
        place,
        MIN(gap_ns) FILTER (WHERE until_here * 100 >= of_all * 50) AS p50_ns,
        MIN(gap_ns) FILTER (WHERE until_here * 100 >= of_all * 99) AS p99_ns,
        MAX(max_ns) AS max_ns
    FROM running
    GROUP BY level, node, place
)

SELECT
    s.level,
    s.node,
    s.place,
    s.n,
    1000000000 / NULLIF(s.mean_ns, 0) AS rate,
    s.mean_ns,
    s.spread / NULLIF(s.mean_ns, 0) AS cv,
    r.p50_ns,
    r.p99_ns,
    r.max_ns,
    s.service_ns,
    s.service_spread / NULLIF(s.service_ns, 0) AS service_cv,
    s.response_ns
FROM summed AS s
LEFT JOIN ranked AS r ON r.level = s.level AND r.node = s.node AND r.place = s.place

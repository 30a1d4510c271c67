-- Latency percentiles: of all operations, by kind, by call, by process, by file and their pairs.
-- A percentile is the lower bound of the histogram's bucket that holds it: at most 1/32 too low.
--
-- @materialize
-- @requires latency, file_latency
-- @grouped per
-- @dimension kind, call, process, process_name, file, path
-- @column per VARCHAR: what a row stands for: all, or the columns it is grouped by: kind; call; process;
--     call, process; file; call, file
-- @column call VARCHAR: name of the call; null where not grouped by it
-- @column kind VARCHAR: what it does; null where grouped by neither
-- @column process BIGINT: process; null where not grouped by it, or unknown
-- @column process_name VARCHAR: name of its executable; null as process
-- @column file BIGINT: file; null where not grouped by it, or unknown
-- @column path VARCHAR: its path; null as file
-- @column n BIGINT ops: operations that returned
-- @column time_ns BIGINT ns: their time together
-- @column mean_ns BIGINT ns: mean latency, rounded down
-- @column p50_ns BIGINT ns: median
-- @column p90_ns BIGINT ns: 90th percentile
-- @column p99_ns BIGINT ns: 99th percentile
-- @column p999_ns BIGINT ns: 99.9th percentile
-- @column max_ns BIGINT ns: the longest, exact
WITH histogram AS (
    SELECT
        CASE
            WHEN GROUPING(process) = 0 AND GROUPING(call) = 0 THEN 'call, process'
            WHEN GROUPING(process) = 0 THEN 'process'
            WHEN GROUPING(call) = 0 THEN 'call'
            WHEN GROUPING(kind) = 0 THEN 'kind'
            ELSE 'all'
        END AS per,
        call,
        kind,
        process,
        process_name,
        CAST(NULL AS VARCHAR) AS node,
        CAST(NULL AS BIGINT) AS file,
        CAST(NULL AS VARCHAR) AS path,
        latency,
        SUM(n) AS n,
        SUM(time_ns) AS time_ns,
        MAX(max_ns) AS max_ns
    FROM latency
    GROUP BY GROUPING SETS (
        (latency),
        (kind, latency),
        (call, kind, latency),
        (process, process_name, latency),
        (call, kind, process, process_name, latency)
    )
    UNION ALL
    SELECT
        CASE WHEN GROUPING(call) = 0 THEN 'call, file' ELSE 'file' END,
        call,
        kind,
        NULL,
        NULL,
        node,
        file,
        path,
        latency,
        SUM(n),
        SUM(time_ns),
        MAX(max_ns)
    FROM file_latency
    GROUP BY GROUPING SETS ((node, file, path, latency), (node, file, path, call, kind, latency))
),

running AS (
    SELECT
        *,
        SUM(n) OVER (
            PARTITION BY per, call, kind, process, node, file ORDER BY latency NULLS LAST
            ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS until_here,
        SUM(n) OVER (PARTITION BY per, call, kind, process, node, file) AS of_all
    FROM histogram
)

SELECT
    per,
    call,
    kind,
    process,
    process_name,
    file,
    path,
    CAST(SUM(n) AS BIGINT) AS n,
    CAST(SUM(time_ns) AS BIGINT) AS time_ns,
    CAST(FLOOR(SUM(time_ns) / NULLIF(SUM(n), 0)) AS BIGINT) AS mean_ns,
    -- in integers, so that the 99th of 100 is exactly the 99th
    MIN(latency) FILTER (WHERE until_here * 1000 >= of_all * 500) AS p50_ns,
    MIN(latency) FILTER (WHERE until_here * 1000 >= of_all * 900) AS p90_ns,
    MIN(latency) FILTER (WHERE until_here * 1000 >= of_all * 990) AS p99_ns,
    MIN(latency) FILTER (WHERE until_here * 1000 >= of_all * 999) AS p999_ns,
    MAX(max_ns) AS max_ns
FROM running
GROUP BY per, call, kind, process, process_name, node, file, path

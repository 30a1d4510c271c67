-- A long tail: the slowest thousandth of a program's calls takes a hundred times the median and more. The
-- mean hides it; whoever waits for several calls in turn meets it often (Dean and Barroso, "The Tail at
-- Scale", CACM 2013). Causes are write-back and journal commits that hold up a call, garbage collection in
-- an SSD, a disk that repeats, throttling in a cloud volume, a queue behind a large request.
--
-- Reads, writes and flushes by call, from the histogram every latency comes from (`latency`).
--
-- @param min_share DOUBLE 0.01: a smaller share of the working time is no finding
-- @param medium_share DOUBLE 0.05: share of the working time from which a finding is medium
-- @param high_share DOUBLE 0.2: share of the working time from which a finding is high
-- @param min_ops BIGINT 1000: fewer calls are no finding (Drishti, small_requests_absolute and
--     random_operations_absolute)
-- @param tail_ratio DOUBLE 100: latency of the slowest thousandth, in medians, from which it is an outlier
-- @param tail_ns BIGINT 1000000 ns: a slowest thousandth below this disturbs nobody
-- @requires latency, effort
WITH merged AS (
    SELECT
        process_name,
        call,
        latency,
        min(process) AS process_min,
        max(process) AS process_max,
        CAST(sum(n) AS BIGINT) AS n,
        CAST(sum(time_ns) AS BIGINT) AS time_ns,
        max(max_ns) AS max_ns
    FROM latency
    WHERE kind IN ('read', 'write', 'flush')
    GROUP BY process_name, call, latency
),

running AS (
    SELECT
        process_name,
        call,
        latency,
        process_min,
        process_max,
        n,
        time_ns,
        max_ns,
        sum(n) OVER (
            PARTITION BY process_name, call ORDER BY latency NULLS LAST
            ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS until_here,
        sum(n) OVER (PARTITION BY process_name, call) AS of_all
    FROM merged
),

cut AS (
    SELECT
        process_name,
        call,
        min(latency) FILTER (WHERE until_here * 1000 >= of_all * 500) AS p50_ns,
        min(latency) FILTER (WHERE until_here * 1000 >= of_all * 999) AS p999_ns
    FROM running
    GROUP BY process_name, call
),

found AS (
    SELECT
        coalesce(r.process_name, 'unknown process') AS process_name,
        r.call,
        c.p50_ns,
        c.p999_ns,
        CASE WHEN min(r.process_min) = max(r.process_max) THEN min(r.process_min) END AS process,
        CAST(sum(r.n) AS BIGINT) AS all_ops,
        CAST(coalesce(sum(r.n) FILTER (WHERE r.latency >= c.p999_ns), 0) AS BIGINT) AS ops,
        CAST(coalesce(sum(r.time_ns) FILTER (WHERE r.latency >= c.p999_ns), 0) AS BIGINT) AS cost_ns,
        CAST(sum(r.time_ns) AS BIGINT) AS all_ns,
        max(r.max_ns) AS max_ns
    FROM running AS r
    INNER JOIN cut AS c ON c.call = r.call AND c.process_name IS NOT DISTINCT FROM r.process_name
    GROUP BY coalesce(r.process_name, 'unknown process'), r.call, c.p50_ns, c.p999_ns
)

SELECT
    'latency_outliers' AS finding,
    CASE
        WHEN f.cost_ns >= p.high_share * e.work_ns THEN 'high'
        WHEN f.cost_ns >= p.medium_share * e.work_ns THEN 'medium'
        ELSE 'low'
    END AS severity,
    concat(
        f.process_name, ': the slowest thousandth of ', f.call, ' takes ',
        printf('%,.1f', CAST(f.p999_ns / 1e6 AS DECIMAL(18, 1))), ' ms and more, the median ',
        printf('%,.1f', CAST(f.p50_ns / 1e3 AS DECIMAL(18, 1))), ' µs; the tail is ',
        printf('%,d', CAST(round(1e2 * f.cost_ns / e.work_ns) AS BIGINT)), ' % of the working time.'
    ) AS title,
    f.process_name AS program,
    f.process AS process,
    CAST(NULL AS BIGINT) AS thread,
    CAST(NULL AS BIGINT) AS file,
    f.ops AS ops,
    CAST(NULL AS BIGINT) AS bytes,
    f.cost_ns AS cost_ns,
    e.start_ts AS start_ts,
    e.end_ts AS end_ts,
    concat(
        printf('%,d', f.ops), ' of ', printf('%,d', f.all_ops), ' calls take ',
        printf('%,d', CAST(round(1e2 * f.cost_ns / NULLIF(f.all_ns, 0)) AS BIGINT)), ' % of their time (',
        printf('%,.3f', CAST(f.cost_ns / 1e9 AS DECIMAL(18, 3))), ' s); the longest ',
        printf('%,.1f', CAST(f.max_ns / 1e6 AS DECIMAL(18, 1))), ' ms.'
    ) AS evidence,
    concat(
        'Look at when they happen (the report’s latency over time) and at what else runs then. ',
        'Writes: smaller vm.dirty_background_bytes, so that write-back begins early; flush in a ',
        'thread of its own. Device: the scheduler (kyber or mq-deadline bound latency), discard by ',
        'fstrim instead of mount option, another volume for the log. Cloud volumes: compare with the ',
        'volume’s IOPS and burst limits.'
    ) AS advice
FROM found AS f
CROSS JOIN params AS p
CROSS JOIN effort AS e
WHERE f.all_ops >= p.min_ops
    AND f.p999_ns >= p.tail_ratio * f.p50_ns
    AND f.p999_ns >= p.tail_ns
    AND f.cost_ns >= p.min_share * e.work_ns

-- Of the processes of a program that run side by side, the one that does most: one row a program and measure.
-- Its peers are the processes of the same name that live through at least half of its life, itself among them; what
-- they do says whether the work is shared out evenly (bytes) and whether one lags behind (io_ns). Module `imbalance`
-- compares all processes of a program, those included that run one after the other.
--
-- @requires activity, process, effort
-- @order process_name, measure
-- @dimension process_name, measure
-- @column process_name VARCHAR: program
-- @column measure VARCHAR: what it does most of: bytes or io_ns
-- @column process BIGINT: the process
-- @column rank BIGINT: its MPI rank; null none
-- @column peers BIGINT: processes compared, itself among them
-- @column total BIGINT: the measure summed over them, in its unit
-- @column median DOUBLE: median of the measure over them, in its unit
-- @column io_ns BIGINT ns: the process's time in calls on files
-- @column bytes BIGINT bytes: bytes it read and wrote
-- @column ops BIGINT ops: its reads and writes
-- @column start_ts BIGINT ns: when it began
-- @column end_ts BIGINT ns: when it ended, or recording did
WITH did AS (
    SELECT
        node,
        process,
        CAST(sum(io_ns) AS BIGINT) AS io_ns,
        CAST(sum(CASE WHEN kind IN ('read', 'write') THEN bytes ELSE 0 END) AS BIGINT) AS bytes,
        CAST(sum(CASE WHEN kind IN ('read', 'write') THEN ops ELSE 0 END) AS BIGINT) AS ops
    FROM activity
    GROUP BY node, process
),

lives AS (
    SELECT
        p.name,
        p.process,
        p.rank,
        p.start_ts,
        coalesce(p.end_ts, e.end_ts) AS end_ts,
        coalesce(d.io_ns, 0) AS io_ns,
        coalesce(d.bytes, 0) AS bytes,
        coalesce(d.ops, 0) AS ops
    FROM (
        SELECT node, process, max(name) AS name, max(rank) AS rank, min(start_ts) AS start_ts, max(end_ts) AS end_ts
        FROM process
        GROUP BY node, process
    ) AS p
    LEFT JOIN did AS d ON d.node = p.node AND d.process = p.process
    CROSS JOIN effort AS e
),

measured AS (
    SELECT l.*, m.measure, CASE m.measure WHEN 'bytes' THEN l.bytes ELSE l.io_ns END AS v
    FROM lives AS l
    CROSS JOIN (VALUES ('bytes'), ('io_ns')) AS m (measure)
),

leader AS (
    SELECT
        name,
        measure,
        max_by(process, concat(lpad(CAST(v AS VARCHAR), 20, '0'), CAST(process AS VARCHAR))) AS process
    FROM measured
    GROUP BY name, measure
)

SELECT
    m.name AS process_name,
    m.measure,
    m.process,
    m.rank,
    count(*) AS peers,
    CAST(sum(o.v) AS BIGINT) AS total,
    CAST(percentile_cont(0.5) WITHIN GROUP (ORDER BY o.v) AS DOUBLE) AS median,
    m.io_ns,
    m.bytes,
    m.ops,
    m.start_ts,
    m.end_ts
FROM leader AS l
INNER JOIN measured AS m ON m.name = l.name AND m.measure = l.measure AND m.process = l.process
INNER JOIN measured AS o ON o.name = l.name AND o.measure = l.measure
WHERE 2e0 * (least(o.end_ts, m.end_ts) - greatest(o.start_ts, m.start_ts)) >= m.end_ts - m.start_ts
GROUP BY m.name, m.measure, m.process, m.rank, m.io_ns, m.bytes, m.ops, m.start_ts, m.end_ts

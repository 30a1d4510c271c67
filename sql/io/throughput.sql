-- Operations and bytes over time: one row a time bucket, process and kind.
-- An operation counts in the bucket in which it returned; in which it began, where the trail doesn't know when it returned. Buckets without one have no row; grouped rates are over the buckets with one.
--
-- @materialize
-- @requires op, time_bucket, channel
-- @dimension kind, process, process_name
-- @measure n = sum(n); bytes = sum(bytes); time_ns = sum(time_ns);
--     iops = sum(n) * 1000000000.0 / (count(DISTINCT ts) * max(every_ns));
--     bytes_per_s = sum(bytes) * 1000000000.0 / (count(DISTINCT ts) * max(every_ns))
-- @column ts BIGINT ns: start of the time bucket
-- @column every_ns BIGINT ns: its width
-- @column process BIGINT: process that called; null unknown
-- @column process_name VARCHAR: name of its executable; null unknown
-- @column kind VARCHAR: read, write, flush, meta or map
-- @column n BIGINT ops: operations that returned
-- @column bytes BIGINT bytes: bytes they moved
-- @column time_ns BIGINT ns: their latencies together; null if none is known
-- @column iops DOUBLE 1/s: operations a second
-- @column bytes_per_s DOUBLE bytes/s: bytes a second
WITH width AS (
    SELECT MAX(every_ns) AS every_ns FROM time_bucket
),

counted AS (
    SELECT
        at_ts - at_ts % (SELECT every_ns FROM width) AS ts,
        process,
        process_name,
        kind,
        COUNT(*) AS n,
        CAST(SUM(moved) AS BIGINT) AS bytes,
        CAST(SUM(dur) AS BIGINT) AS time_ns
    FROM (
        SELECT node, file, COALESCE(end_ts, ts) AS at_ts, process, process_name, kind, moved, dur
        FROM op
        WHERE COALESCE(dur, result) IS NOT NULL
        UNION ALL
        -- a copy inside the kernel is a write of its second file too, in the same time
        SELECT node, file2, COALESCE(end_ts, ts), process, process_name, 'write', moved, dur - dur
        FROM op
        WHERE COALESCE(dur, result) IS NOT NULL AND moved > 0 AND file2 IS NOT NULL
            AND call IN ('copy_file_range', 'sendfile', 'splice')
    ) AS o
    ANTI JOIN channel AS c ON c.node = o.node AND c.file = o.file
    GROUP BY at_ts - at_ts % (SELECT every_ns FROM width), process, process_name, kind
)

SELECT
    c.ts,
    w.every_ns,
    c.process,
    c.process_name,
    c.kind,
    c.n,
    c.bytes,
    c.time_ns,
    CAST(c.n AS DOUBLE) * 1000000000 / w.every_ns AS iops,
    CAST(c.bytes AS DOUBLE) * 1000000000 / w.every_ns AS bytes_per_s
FROM counted AS c
CROSS JOIN width AS w

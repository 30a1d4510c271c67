-- Operations and bytes over time: one row a time bucket, process and kind.
-- An operation counts in the bucket in which it returned. Buckets without one have no row; grouped rates are over the buckets with one.
--
-- @materialize
-- @requires op, time_bucket
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
-- @column time_ns BIGINT ns: their latencies together
-- @column iops DOUBLE 1/s: operations a second
-- @column bytes_per_s DOUBLE bytes/s: bytes a second
WITH width AS (
    SELECT MAX(every_ns) AS every_ns FROM time_bucket
),

counted AS (
    SELECT
        end_ts - end_ts % (SELECT every_ns FROM width) AS ts,
        process,
        process_name,
        kind,
        COUNT(*) AS n,
        CAST(SUM(moved) AS BIGINT) AS bytes,
        CAST(SUM(dur) AS BIGINT) AS time_ns
    FROM op
    WHERE dur IS NOT NULL
    GROUP BY end_ts - end_ts % (SELECT every_ns FROM width), process, process_name, kind
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

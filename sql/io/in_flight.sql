-- How many operations on files are in flight, on average over each time bucket, and when it begins: one row a time bucket,
-- idle ones included. From the start and end of every operation, without sorting them: what module `queue_depth` adds, the
-- largest number at any instant, costs ten times as much. What counts: module `flight_edge`. Every column but ts is null
-- where the trail has operations, but no duration of any.
--
-- @requires file_op, flight_edge, time_bucket
-- @order ts
-- @measure mean = avg(mean); mean_reads = avg(mean_reads); mean_writes = avg(mean_writes); mean_flushes = avg(mean_flushes);
--     busy_ns = sum(busy_ns)
-- @column ts BIGINT ns: start of the time bucket
-- @column carried BIGINT ops: operations in flight when the bucket begins
-- @column carried_reads BIGINT ops: as carried, of reads
-- @column carried_writes BIGINT ops: as carried, of writes
-- @column carried_flushes BIGINT ops: as carried, of flushes
-- @column mean DOUBLE ops: mean number of operations in flight over the bucket
-- @column mean_reads DOUBLE ops: as mean, of reads
-- @column mean_writes DOUBLE ops: as mean, of writes
-- @column mean_flushes DOUBLE ops: as mean, of flushes
-- @column busy_ns BIGINT ns: time of the operations in the bucket together: mean times its width
WITH changed AS (
    -- an edge counts from its instant to the bucket's end, and for the whole width of all later buckets
    SELECT
        p.bucket_ts,
        SUM(p.step) AS step,
        SUM(CASE WHEN p.kind = 1 THEN p.step ELSE 0 END) AS read_step,
        SUM(CASE WHEN p.kind = 2 THEN p.step ELSE 0 END) AS write_step,
        SUM(CASE WHEN p.kind = 3 THEN p.step ELSE 0 END) AS flush_step,
        SUM(p.step * (p.bucket_ts + b.every_ns - p.ts)) AS area,
        SUM(CASE WHEN p.kind = 1 THEN p.step * (p.bucket_ts + b.every_ns - p.ts) ELSE 0 END) AS read_area,
        SUM(CASE WHEN p.kind = 2 THEN p.step * (p.bucket_ts + b.every_ns - p.ts) ELSE 0 END) AS write_area,
        SUM(CASE WHEN p.kind = 3 THEN p.step * (p.bucket_ts + b.every_ns - p.ts) ELSE 0 END) AS flush_area
    FROM flight_edge AS p
    CROSS JOIN (SELECT MAX(every_ns) AS every_ns FROM time_bucket) AS b
    GROUP BY p.bucket_ts
),

summed AS (
    SELECT
        b.ts,
        b.every_ns,
        COALESCE(c.area, 0) AS area,
        COALESCE(c.read_area, 0) AS read_area,
        COALESCE(c.write_area, 0) AS write_area,
        COALESCE(c.flush_area, 0) AS flush_area,
        COALESCE(SUM(c.step) OVER before, 0) AS carried,
        COALESCE(SUM(c.read_step) OVER before, 0) AS read_carried,
        COALESCE(SUM(c.write_step) OVER before, 0) AS write_carried,
        COALESCE(SUM(c.flush_step) OVER before, 0) AS flush_carried
    FROM time_bucket AS b
    LEFT JOIN changed AS c ON c.bucket_ts = b.ts
    WINDOW before AS (ORDER BY b.ts NULLS LAST ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
)

SELECT
    s.ts,
    CASE WHEN k.known THEN CAST(s.carried AS BIGINT) END AS carried,
    CASE WHEN k.known THEN CAST(s.read_carried AS BIGINT) END AS carried_reads,
    CASE WHEN k.known THEN CAST(s.write_carried AS BIGINT) END AS carried_writes,
    CASE WHEN k.known THEN CAST(s.flush_carried AS BIGINT) END AS carried_flushes,
    CASE WHEN k.known THEN CAST(s.carried * s.every_ns + s.area AS DOUBLE) / s.every_ns END AS mean,
    CASE WHEN k.known THEN CAST(s.read_carried * s.every_ns + s.read_area AS DOUBLE) / s.every_ns END AS mean_reads,
    CASE WHEN k.known THEN CAST(s.write_carried * s.every_ns + s.write_area AS DOUBLE) / s.every_ns END AS mean_writes,
    CASE WHEN k.known THEN CAST(s.flush_carried * s.every_ns + s.flush_area AS DOUBLE) / s.every_ns END
        AS mean_flushes,
    CASE WHEN k.known THEN CAST(s.carried * s.every_ns + s.area AS BIGINT) END AS busy_ns
FROM summed AS s
CROSS JOIN (SELECT COUNT(*) = 0 OR COUNT(dur) > 0 AS known FROM file_op) AS k

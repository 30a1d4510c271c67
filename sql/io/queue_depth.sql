-- How many operations on files are in flight over time: one row a time bucket, idle ones included.
-- From the start and end of every operation: the mean is weighted by time and exact, the maximum is the
-- largest number at any instant. A call that never returned stays in flight until its thread's end; a request that
-- never completes in a trace of requests isn't counted, for nobody knows until when it was in flight. An operation of
-- no length counts in neither. Every column but ts is null where the trail has operations, but no duration of any.
--
-- @requires file_op, call, op, time_bucket
-- @order ts
-- @measure mean = avg(mean); most = max(most); mean_reads = avg(mean_reads);
--     most_reads = max(most_reads); mean_writes = avg(mean_writes); most_writes = max(most_writes);
--     mean_flushes = avg(mean_flushes); most_flushes = max(most_flushes); busy_ns = sum(busy_ns)
-- @column ts BIGINT ns: start of the time bucket
-- @column mean DOUBLE ops: mean number of operations in flight over the bucket
-- @column most BIGINT ops: largest number in flight at once
-- @column mean_reads DOUBLE ops: as mean, of reads
-- @column most_reads BIGINT ops: as most, of reads
-- @column mean_writes DOUBLE ops: as mean, of writes
-- @column most_writes BIGINT ops: as most, of writes
-- @column mean_flushes DOUBLE ops: as mean, of flushes
-- @column most_flushes BIGINT ops: as most, of flushes
-- @column busy_ns BIGINT ns: time of the operations in the bucket together: mean times its width
WITH flight AS (
    -- ids and numbers only, because these rows are sorted: names would double the time
    SELECT
        o.ts,
        o.ts + o.dur AS end_ts,
        CASE c.kind WHEN 'read' THEN 1 WHEN 'write' THEN 2 WHEN 'flush' THEN 3 ELSE 4 END AS kind
    FROM file_op AS o
    LEFT JOIN call AS c ON c.call = o.call
    WHERE o.dur > 0
    UNION ALL
    SELECT ts, end_ts, CASE kind WHEN 'read' THEN 1 WHEN 'write' THEN 2 WHEN 'flush' THEN 3 ELSE 4 END
    FROM op
    WHERE dur IS NULL AND end_ts > ts
),

placed AS (
    SELECT ts - ts % (SELECT MAX(every_ns) FROM time_bucket) AS bucket_ts, ts, kind, 1 AS step
    FROM flight
    UNION ALL
    -- an operation that ends as a bucket begins wasn't in flight in that bucket
    SELECT (end_ts - 1) - (end_ts - 1) % (SELECT MAX(every_ns) FROM time_bucket), end_ts, kind, -1
    FROM flight
),

-- Depth against the bucket's end, after each start: ends less starts that are still to come, which ranks say for
-- a tenth of what a running sum costs. An end comes before a start at the same instant: those two don't overlap.
running AS (
    SELECT
        bucket_ts,
        ts,
        kind,
        step,
        RANK() OVER (PARTITION BY bucket_ts ORDER BY ts DESC NULLS LAST, step DESC NULLS LAST) + 1
        - 2 * RANK() OVER (PARTITION BY bucket_ts, step ORDER BY ts DESC NULLS LAST) AS depth,
        RANK() OVER (PARTITION BY bucket_ts, kind ORDER BY ts DESC NULLS LAST, step DESC NULLS LAST) + 1
        - 2 * RANK() OVER (PARTITION BY bucket_ts, kind, step ORDER BY ts DESC NULLS LAST) AS kind_depth
    FROM placed
),

-- an edge counts from its instant to the bucket's end, and for the whole width of all later buckets
changed AS (
    SELECT
        r.bucket_ts,
        SUM(r.step) AS step,
        SUM(CASE WHEN r.kind = 1 THEN r.step ELSE 0 END) AS read_step,
        SUM(CASE WHEN r.kind = 2 THEN r.step ELSE 0 END) AS write_step,
        SUM(CASE WHEN r.kind = 3 THEN r.step ELSE 0 END) AS flush_step,
        SUM(r.step * (r.bucket_ts + b.every_ns - r.ts)) AS area,
        SUM(CASE WHEN r.kind = 1 THEN r.step * (r.bucket_ts + b.every_ns - r.ts) ELSE 0 END) AS read_area,
        SUM(CASE WHEN r.kind = 2 THEN r.step * (r.bucket_ts + b.every_ns - r.ts) ELSE 0 END) AS write_area,
        SUM(CASE WHEN r.kind = 3 THEN r.step * (r.bucket_ts + b.every_ns - r.ts) ELSE 0 END) AS flush_area,
        SUM(r.step) + MAX(r.depth) FILTER (WHERE r.step = 1) AS depth,
        SUM(r.step) FILTER (WHERE r.kind = 1)
        + MAX(r.kind_depth) FILTER (WHERE r.step = 1 AND r.kind = 1) AS read_depth,
        SUM(r.step) FILTER (WHERE r.kind = 2)
        + MAX(r.kind_depth) FILTER (WHERE r.step = 1 AND r.kind = 2) AS write_depth,
        SUM(r.step) FILTER (WHERE r.kind = 3)
        + MAX(r.kind_depth) FILTER (WHERE r.step = 1 AND r.kind = 3) AS flush_depth
    FROM running AS r
    CROSS JOIN (SELECT MAX(every_ns) AS every_ns FROM time_bucket) AS b
    GROUP BY r.bucket_ts
),

carried AS (
    SELECT
        b.ts,
        b.every_ns,
        c.area,
        c.read_area,
        c.write_area,
        c.flush_area,
        c.depth,
        c.read_depth,
        c.write_depth,
        c.flush_depth,
        COALESCE(SUM(c.step) OVER before, 0) AS carry,
        COALESCE(SUM(c.read_step) OVER before, 0) AS read_carry,
        COALESCE(SUM(c.write_step) OVER before, 0) AS write_carry,
        COALESCE(SUM(c.flush_step) OVER before, 0) AS flush_carry
    FROM time_bucket AS b
    LEFT JOIN changed AS c ON c.bucket_ts = b.ts
    WINDOW before AS (ORDER BY b.ts NULLS LAST ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
)

SELECT
    c.ts,
    CASE WHEN k.known THEN CAST(c.carry * c.every_ns + COALESCE(c.area, 0) AS DOUBLE) / c.every_ns END AS mean,
    CASE WHEN k.known THEN CAST(c.carry + GREATEST(COALESCE(c.depth, 0), 0) AS BIGINT) END AS most,
    CASE WHEN k.known THEN CAST(c.read_carry * c.every_ns + COALESCE(c.read_area, 0) AS DOUBLE) / c.every_ns END
        AS mean_reads,
    CASE WHEN k.known THEN CAST(c.read_carry + GREATEST(COALESCE(c.read_depth, 0), 0) AS BIGINT) END AS most_reads,
    CASE WHEN k.known THEN CAST(c.write_carry * c.every_ns + COALESCE(c.write_area, 0) AS DOUBLE) / c.every_ns END
        AS mean_writes,
    CASE WHEN k.known THEN CAST(c.write_carry + GREATEST(COALESCE(c.write_depth, 0), 0) AS BIGINT) END AS most_writes,
    CASE WHEN k.known THEN CAST(c.flush_carry * c.every_ns + COALESCE(c.flush_area, 0) AS DOUBLE) / c.every_ns END
        AS mean_flushes,
    CASE WHEN k.known THEN CAST(c.flush_carry + GREATEST(COALESCE(c.flush_depth, 0), 0) AS BIGINT) END AS most_flushes,
    CASE WHEN k.known THEN CAST(c.carry * c.every_ns + COALESCE(c.area, 0) AS BIGINT) END AS busy_ns
FROM carried AS c
CROSS JOIN (SELECT COUNT(*) = 0 OR COUNT(dur) > 0 AS known FROM file_op) AS k

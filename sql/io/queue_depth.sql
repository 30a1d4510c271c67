-- How many operations on files are in flight over time: one row a time bucket, idle ones included.
-- The mean is weighted by time and exact, the maximum is the largest number at any instant. What counts: module
-- `flight_edge`. Every column but ts is null where the trail has operations, but no duration of any.
--
-- @requires flight_edge, in_flight
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
WITH running AS (
    -- Depth against the bucket's end, after each start: ends less starts that are still to come, which ranks say for
    -- a tenth of what a running sum costs. An end comes before a start at the same instant: those two don't overlap.
    SELECT
        bucket_ts,
        ts,
        kind,
        step,
        RANK() OVER (PARTITION BY bucket_ts ORDER BY ts DESC NULLS LAST, step DESC NULLS LAST) + 1
        - 2 * RANK() OVER (PARTITION BY bucket_ts, step ORDER BY ts DESC NULLS LAST) AS depth,
        RANK() OVER (PARTITION BY bucket_ts, kind ORDER BY ts DESC NULLS LAST, step DESC NULLS LAST) + 1
        - 2 * RANK() OVER (PARTITION BY bucket_ts, kind, step ORDER BY ts DESC NULLS LAST) AS kind_depth
    FROM flight_edge
),

-- what was in flight when the bucket began comes on top
highest AS (
    SELECT
        bucket_ts,
        SUM(step) + MAX(depth) FILTER (WHERE step = 1) AS depth,
        SUM(step) FILTER (WHERE kind = 1) + MAX(kind_depth) FILTER (WHERE step = 1 AND kind = 1) AS read_depth,
        SUM(step) FILTER (WHERE kind = 2) + MAX(kind_depth) FILTER (WHERE step = 1 AND kind = 2) AS write_depth,
        SUM(step) FILTER (WHERE kind = 3) + MAX(kind_depth) FILTER (WHERE step = 1 AND kind = 3) AS flush_depth
    FROM running
    GROUP BY bucket_ts
)

SELECT
    f.ts,
    f.mean,
    CAST(f.carried + GREATEST(COALESCE(h.depth, 0), 0) AS BIGINT) AS most,
    f.mean_reads,
    CAST(f.carried_reads + GREATEST(COALESCE(h.read_depth, 0), 0) AS BIGINT) AS most_reads,
    f.mean_writes,
    CAST(f.carried_writes + GREATEST(COALESCE(h.write_depth, 0), 0) AS BIGINT) AS most_writes,
    f.mean_flushes,
    CAST(f.carried_flushes + GREATEST(COALESCE(h.flush_depth, 0), 0) AS BIGINT) AS most_flushes,
    f.busy_ns
FROM in_flight AS f
LEFT JOIN highest AS h ON h.bucket_ts = f.ts

-- Module time_split over time: one row a thread and time bucket of its life.
-- Idle buckets included. A call over several buckets counts in each with the part that lies in it.
--
-- @materialize
-- @requires busy_bucket, thread_life, time_bucket
-- @order thread, ts
-- @dimension node, process, process_name, thread
-- @measure life_ns = sum(life_ns); compute_ns = sum(compute_ns); io_ns = sum(io_ns); sync_ns = sum(sync_ns);
--     read_ns = sum(read_ns); write_ns = sum(write_ns); flush_ns = sum(flush_ns)
-- @column ts BIGINT ns: start of the time bucket
-- @column node VARCHAR: machine
-- @column process BIGINT: process
-- @column process_name VARCHAR: name of its executable
-- @column thread BIGINT: thread
-- @column life_ns BIGINT ns: part of the bucket in which the thread lived: compute_ns + io_ns + sync_ns
-- @column compute_ns BIGINT ns: of it in no recorded call
-- @column io_ns BIGINT ns: of it in file calls
-- @column sync_ns BIGINT ns: of it waiting for something else
-- @column read_ns BIGINT ns: of it reading
-- @column write_ns BIGINT ns: of it writing
-- @column flush_ns BIGINT ns: of it making data durable
WITH change AS (
    SELECT thread, kind, ts, 0 AS step, begun_ns AS area FROM busy_bucket
    UNION ALL
    -- calls that reach further are an edge up at their bucket's end and one down at theirs; an edge counts
    -- from its instant to the end of its bucket, and for the whole width of all later buckets
    SELECT b.thread, b.kind, b.ts + w.every_ns, b.n, b.n * w.every_ns
    FROM busy_bucket AS b
    CROSS JOIN (SELECT MAX(every_ns) AS every_ns FROM time_bucket) AS w
    WHERE b.until_ts IS NOT NULL
    UNION ALL
    SELECT b.thread, b.kind, b.until_ts - b.until_ts % w.every_ns, -b.n, -b.n * (w.every_ns - b.until_ts % w.every_ns)
    FROM busy_bucket AS b
    CROSS JOIN (SELECT MAX(every_ns) AS every_ns FROM time_bucket) AS w
    WHERE b.until_ts IS NOT NULL
),

changed AS (
    SELECT
        thread,
        ts AS bucket_ts,
        SUM(step) FILTER (WHERE kind = 'wait') AS sync_step,
        SUM(step) FILTER (WHERE kind = 'read') AS read_step,
        SUM(step) FILTER (WHERE kind = 'write') AS write_step,
        SUM(step) FILTER (WHERE kind = 'flush') AS flush_step,
        SUM(step) FILTER (WHERE kind IN ('meta', 'map')) AS meta_step,
        SUM(area) FILTER (WHERE kind = 'wait') AS sync_area,
        SUM(area) FILTER (WHERE kind = 'read') AS read_area,
        SUM(area) FILTER (WHERE kind = 'write') AS write_area,
        SUM(area) FILTER (WHERE kind = 'flush') AS flush_area,
        SUM(area) FILTER (WHERE kind IN ('meta', 'map')) AS meta_area
    FROM change
    GROUP BY thread, ts
),

spent AS (
    SELECT
        b.ts,
        t.node,
        t.process,
        t.process_name,
        t.thread,
        LEAST(b.ts + b.every_ns, t.end_ts) - GREATEST(b.ts, t.start_ts) AS life_ns,
        COALESCE(SUM(c.sync_step) OVER before, 0) * b.every_ns + COALESCE(c.sync_area, 0) AS sync_ns,
        COALESCE(SUM(c.read_step) OVER before, 0) * b.every_ns + COALESCE(c.read_area, 0) AS read_ns,
        COALESCE(SUM(c.write_step) OVER before, 0) * b.every_ns + COALESCE(c.write_area, 0) AS write_ns,
        COALESCE(SUM(c.flush_step) OVER before, 0) * b.every_ns + COALESCE(c.flush_area, 0) AS flush_ns,
        COALESCE(SUM(c.meta_step) OVER before, 0) * b.every_ns + COALESCE(c.meta_area, 0) AS meta_ns
    FROM thread_life AS t
    INNER JOIN time_bucket AS b ON b.ts < t.end_ts AND b.ts + b.every_ns > t.start_ts
    LEFT JOIN changed AS c ON c.thread = t.thread AND c.bucket_ts = b.ts
    WINDOW before AS (
        PARTITION BY t.thread ORDER BY b.ts NULLS LAST ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    )
)

SELECT
    ts,
    node,
    process,
    process_name,
    thread,
    life_ns,
    CAST(life_ns - sync_ns - read_ns - write_ns - flush_ns - meta_ns AS BIGINT) AS compute_ns,
    CAST(read_ns + write_ns + flush_ns + meta_ns AS BIGINT) AS io_ns,
    CAST(sync_ns AS BIGINT) AS sync_ns,
    CAST(read_ns AS BIGINT) AS read_ns,
    CAST(write_ns AS BIGINT) AS write_ns,
    CAST(flush_ns AS BIGINT) AS flush_ns
FROM spent

-- Module time_split over time: one row a thread and time bucket of its life.
-- Idle buckets included. A call over several buckets counts in each with the part that lies in it.
--
-- @materialize
-- @requires busy, thread_life, time_bucket
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
WITH edge AS (
    SELECT thread, kind, since_ts AS ts, 1 AS step FROM busy
    UNION ALL
    SELECT thread, kind, until_ts, -1 FROM busy
),

-- an edge counts from its instant to the bucket's end, and for the whole width of all later buckets
changed AS (
    SELECT
        e.thread,
        e.ts - e.ts % b.every_ns AS bucket_ts,
        SUM(e.step) FILTER (WHERE e.kind = 'wait') AS sync_step,
        SUM(e.step) FILTER (WHERE e.kind = 'read') AS read_step,
        SUM(e.step) FILTER (WHERE e.kind = 'write') AS write_step,
        SUM(e.step) FILTER (WHERE e.kind = 'flush') AS flush_step,
        SUM(e.step) FILTER (WHERE e.kind IN ('meta', 'map')) AS meta_step,
        SUM(e.step * (b.every_ns - e.ts % b.every_ns)) FILTER (WHERE e.kind = 'wait') AS sync_area,
        SUM(e.step * (b.every_ns - e.ts % b.every_ns)) FILTER (WHERE e.kind = 'read') AS read_area,
        SUM(e.step * (b.every_ns - e.ts % b.every_ns)) FILTER (WHERE e.kind = 'write') AS write_area,
        SUM(e.step * (b.every_ns - e.ts % b.every_ns)) FILTER (WHERE e.kind = 'flush') AS flush_area,
        SUM(e.step * (b.every_ns - e.ts % b.every_ns)) FILTER (WHERE e.kind IN ('meta', 'map')) AS meta_area
    FROM edge AS e
    CROSS JOIN (SELECT MAX(every_ns) AS every_ns FROM time_bucket) AS b
    GROUP BY e.thread, e.ts - e.ts % b.every_ns
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

-- Serialised I/O: several threads do I/O, but only one is in a call at any time. A lock, a shared stream
-- or a design that takes turns keeps the storage at queue depth 1, where an SSD or a network file system
-- gives a fraction of what it can.
--
-- Depth is the time of all calls together over the time in which there was one. Long trails are sampled:
-- every 16th of 1,024 slices of the recording, if there are more than a million calls.
--
-- @param peers BIGINT 4: fewer processes or threads side by side are not compared
-- @param serial_ratio DOUBLE 1.1: calls in flight on average, while there is one, up to which I/O counts as
--     serialised
-- @param serial_busy DOUBLE 0.5: share of the time with a call in flight below which serialised I/O does
--     not matter
-- @requires activity, file_op, thread, effort
WITH working AS (
    SELECT node, process, process_name, thread, CAST(sum(io_ns) AS BIGINT) AS io_ns, CAST(sum(ops) AS BIGINT) AS ops
    FROM activity
    WHERE process IS NOT NULL
    GROUP BY node, process, process_name, thread
),

candidates AS (
    SELECT w.node, w.process, w.process_name, count(*) AS threads, CAST(sum(w.ops) AS BIGINT) AS ops
    FROM working AS w
    INNER JOIN (
        SELECT node, process, max(io_ns) AS most_ns FROM working GROUP BY node, process
    ) AS m ON m.node = w.node AND m.process = w.process AND 1e1 * w.io_ns >= m.most_ns
    GROUP BY w.node, w.process, w.process_name
    HAVING count(*) >= (SELECT peers FROM params)
),

slices AS (
    SELECT
        start_ts,
        greatest(CAST((wall_ns - wall_ns % 1024) / 1024 AS BIGINT), 1) AS slice_ns,
        CASE WHEN (SELECT sum(ops) FROM candidates) > 1000000 THEN 16 ELSE 1 END AS every
    FROM effort
),

spans AS (
    SELECT t.node, t.process, o.ts, o.ts + o.dur AS end_ts
    FROM file_op AS o
    INNER JOIN thread AS t ON t.node = o.node AND t.thread = o.thread
    SEMI JOIN candidates AS c ON c.node = t.node AND c.process = t.process
    CROSS JOIN slices AS s
    WHERE o.dur > 0
        AND CAST((o.ts - s.start_ts - (o.ts - s.start_ts) % s.slice_ns) / s.slice_ns AS BIGINT) % s.every = 0
),

followed AS (
    SELECT
        node,
        process,
        ts,
        end_ts,
        max(end_ts) OVER (
            PARTITION BY node, process ORDER BY ts NULLS LAST
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS covered_ts
    FROM spans
),

depths AS (
    SELECT
        node,
        process,
        CAST(sum(end_ts - ts) AS BIGINT) AS io_ns,
        CAST(sum(greatest(0, end_ts - greatest(ts, coalesce(covered_ts, ts)))) AS BIGINT) AS busy_ns,
        min(ts) AS start_ts,
        max(end_ts) AS end_ts
    FROM followed
    GROUP BY node, process
),

found AS (
    SELECT
        c.process,
        c.process_name,
        c.threads,
        c.ops,
        1e0 * d.io_ns / NULLIF(d.busy_ns, 0) AS depth,
        d.busy_ns * s.every AS cost_ns,
        d.start_ts,
        d.end_ts
    FROM candidates AS c
    INNER JOIN depths AS d ON d.node = c.node AND d.process = c.process
    CROSS JOIN slices AS s
)

SELECT
    'serial_io' AS finding,
    CASE
        WHEN f.cost_ns >= (1 + p.serial_busy) / 2 * e.wall_ns THEN 'high'
        ELSE 'medium'
    END AS severity,
    concat(
        f.process_name, ': ', printf('%,d', f.threads), ' threads do I/O, but one at a time: ',
        printf('%,.2f', CAST(f.depth AS DECIMAL(18, 2))), ' calls in flight on average, ',
        printf('%,d', CAST(round(1e2 * f.cost_ns / e.wall_ns) AS BIGINT)), ' % of the time.'
    ) AS title,
    f.process_name AS program,
    f.process AS process,
    CAST(NULL AS BIGINT) AS thread,
    CAST(NULL AS BIGINT) AS file,
    f.ops AS ops,
    CAST(NULL AS BIGINT) AS bytes,
    f.cost_ns AS cost_ns,
    f.start_ts AS start_ts,
    f.end_ts AS end_ts,
    concat(
        printf('%,d', f.ops), ' calls of ', printf('%,d', f.threads),
        ' threads; there was one in flight for ', printf('%,.3f', CAST(f.cost_ns / 1e9 AS DECIMAL(18, 3))),
        ' s of ', printf('%,.3f', CAST(e.wall_ns / 1e9 AS DECIMAL(18, 3))), ' s.'
    ) AS evidence,
    concat(
        'Find the lock around the I/O (finding_lock_waits): give each thread its own descriptor or ',
        'stream, use pread and pwrite instead of seek and read, split the file, or let one thread ',
        'keep many requests in flight (io_uring). Python: read in threads releases the GIL, parsing ',
        'doesn’t; use processes for that.'
    ) AS advice
FROM found AS f
CROSS JOIN params AS p
CROSS JOIN effort AS e
WHERE f.depth <= p.serial_ratio
    AND f.cost_ns >= p.serial_busy * e.wall_ns

-- What the critical path of a run consists of, of recordings with --causal: what its threads did while all waited for them, one row
-- for each thread and kind of work. The times add up to the length of the run.
--
-- @requires critical_path, compute, file_op, file, thread_life
-- @dimension node, process, process_name, rank, thread, work, call, path
-- @measure ns = CAST(SUM(ns) AS BIGINT)
-- @order ns DESC
-- @column node VARCHAR: machine
-- @column process BIGINT: process; null unknown
-- @column process_name VARCHAR: name of the executable; null unknown
-- @column rank BIGINT: MPI rank; null none
-- @column thread BIGINT: thread
-- @column work VARCHAR: io: calls on files; compute: on a CPU between calls; queued: waiting for a CPU between calls; unexplained:
--     between calls, doing nobody knows what; wait: in calls that wait, for what is not recorded, or going on after a signal
-- @column call VARCHAR: name of the call; null but for io
-- @column path VARCHAR: file; null but for io, or unknown
-- @column ns BIGINT ns: time on the path
WITH op AS (
    SELECT
        c.node,
        c.thread,
        o.call,
        o.file,
        CAST(SUM(LEAST(o.ts + o.dur, c.ts + c.dur) - GREATEST(o.ts, c.ts)) AS BIGINT) AS ns
    FROM critical_path AS c
    INNER JOIN file_op AS o ON o.thread = c.thread AND o.ts < c.ts + c.dur AND o.ts + o.dur > c.ts
    GROUP BY c.node, c.thread, o.call, o.file
),

gap AS (
    SELECT
        c.node,
        c.thread,
        g.dur,
        g.cpu_ns,
        g.ready_ns,
        LEAST(g.ts + g.dur, c.ts + c.dur) - GREATEST(g.ts, c.ts) AS ns
    FROM critical_path AS c
    INNER JOIN compute AS g ON g.thread = c.thread AND g.ts < c.ts + c.dur AND g.ts + g.dur > c.ts
),

shared AS (
    SELECT
        node,
        thread,
        CAST(SUM(ns) AS BIGINT) AS ns,
        CAST(SUM(CAST(ROUND(CAST(ns AS DOUBLE) * COALESCE(cpu_ns, 0) / NULLIF(dur, 0)) AS BIGINT)) AS BIGINT) AS cpu_ns,
        CAST(SUM(CAST(ROUND(CAST(ns AS DOUBLE) * COALESCE(ready_ns, 0) / NULLIF(dur, 0)) AS BIGINT)) AS BIGINT) AS ready_ns
    FROM gap
    GROUP BY node, thread
),

whole AS (
    SELECT node, thread, CAST(SUM(dur) AS BIGINT) AS ns
    FROM critical_path
    GROUP BY node, thread
),

in_calls AS (
    SELECT node, thread, CAST(SUM(ns) AS BIGINT) AS ns
    FROM op
    GROUP BY node, thread
),

part AS (
    SELECT node, thread, 'io' AS work, call, file, ns
    FROM op
    UNION ALL
    SELECT node, thread, 'compute' AS work, CAST(NULL AS VARCHAR) AS call, CAST(NULL AS BIGINT) AS file, cpu_ns AS ns
    FROM shared
    UNION ALL
    SELECT node, thread, 'queued' AS work, CAST(NULL AS VARCHAR) AS call, CAST(NULL AS BIGINT) AS file, ready_ns AS ns
    FROM shared
    UNION ALL
    SELECT
        node,
        thread,
        'unexplained' AS work,
        CAST(NULL AS VARCHAR) AS call,
        CAST(NULL AS BIGINT) AS file,
        ns - cpu_ns - ready_ns AS ns
    FROM shared
    UNION ALL
    SELECT
        w.node,
        w.thread,
        'wait' AS work,
        CAST(NULL AS VARCHAR) AS call,
        CAST(NULL AS BIGINT) AS file,
        w.ns - COALESCE(i.ns, 0) - COALESCE(s.ns, 0) AS ns
    FROM whole AS w
    LEFT JOIN in_calls AS i ON i.node = w.node AND i.thread = w.thread
    LEFT JOIN shared AS s ON s.node = w.node AND s.thread = w.thread
)

SELECT
    p.node,
    t.process,
    t.process_name,
    t.rank,
    p.thread,
    p.work,
    p.call,
    f.path,
    p.ns
FROM part AS p
LEFT JOIN thread_life AS t ON t.thread = p.thread
LEFT JOIN (
    SELECT node, file, MAX(path) AS path
    FROM file
    GROUP BY node, file
) AS f ON f.node = p.node AND f.file = p.file
WHERE p.ns > 0

-- What threads did over time, and what of it is on the critical path, of recordings with --causal: one row a time bucket, thread and kind
-- of work. The times of a thread and bucket add up to the part of its life in it, those on the path to the path's. A call on a file counts
-- as io also inside a call that waits (MPI-IO, MPI_Init).
--
-- @requires wait_state, compute, critical_path, file_op, sync_op, thread_life, time_bucket
-- @order ts, thread, ns DESC
-- @dimension node, thread, work, call, file, state, cause_thread
-- @measure n = CAST(SUM(n) AS BIGINT); ns = CAST(SUM(ns) AS BIGINT); path_ns = CAST(SUM(path_ns) AS BIGINT)
-- @column ts BIGINT ns: start of the time bucket
-- @column node VARCHAR: machine
-- @column thread BIGINT: thread
-- @column work VARCHAR: io: calls on files; compute: on a CPU between calls; queued: waiting for a CPU between calls; unexplained: between
--     calls, doing nobody knows what; wait: in a call that waits, until the signal came (to its end if its edge is not known); resume: in
--     such a call after the signal; other: in calls that neither wait nor act on files
-- @column call VARCHAR: name of the call; null but for io, wait and resume, or unknown
-- @column file BIGINT: file, or pipe waited for; null none or unknown
-- @column state VARCHAR: as in wait_state; null but for wait
-- @column cause_thread BIGINT: thread that gave the signal; null but for wait, or unknown
-- @column n BIGINT: calls on files, or waits, that begin in the bucket
-- @column ns BIGINT ns: time
-- @column path_ns BIGINT ns: of it on the critical path
WITH width AS (SELECT MAX(every_ns) AS every_ns FROM time_bucket),

life AS (
    SELECT t.node, t.thread, t.start_ts AS ts, t.end_ts
    FROM thread_life AS t
    SEMI JOIN (SELECT thread FROM compute UNION SELECT thread FROM wait_state) AS k ON k.thread = t.thread
),

called AS (
    SELECT
        thread,
        ts,
        MAX_BY(call, CONCAT(LPAD(CAST(COALESCE(dur, 0) AS VARCHAR), 20, '0'), call)) AS call,
        MAX(CASE WHEN kind = 'pipe' THEN object END) AS file
    FROM sync_op
    GROUP BY thread, ts
),

waited AS (
    SELECT
        w.thread,
        w.ts,
        w.ts + LEAST(COALESCE(w.blocked_ns, w.dur, l.end_ts - w.ts), COALESCE(w.dur, l.end_ts - w.ts)) AS signal_ts,
        w.ts + COALESCE(w.dur, l.end_ts - w.ts) AS end_ts,
        c.call,
        c.file,
        w.state,
        w.cause_thread
    FROM wait_state AS w
    INNER JOIN life AS l ON l.thread = w.thread
    LEFT JOIN called AS c ON c.thread = w.thread AND c.ts = w.ts
),

phase AS (
    SELECT thread, ts AS wait_ts, ts, signal_ts AS end_ts, 'wait' AS work, call, file, state, cause_thread
    FROM waited
    WHERE signal_ts > ts
    UNION ALL
    SELECT thread, ts, signal_ts, end_ts, 'resume', call, file, CAST(NULL AS VARCHAR), CAST(NULL AS BIGINT)
    FROM waited
    WHERE end_ts > signal_ts
),

io AS (
    SELECT o.thread, o.ts, LEAST(o.ts + COALESCE(o.dur, l.end_ts - o.ts), l.end_ts) AS end_ts, o.call, o.file
    FROM file_op AS o
    INNER JOIN life AS l ON l.thread = o.thread
),

-- each call on a file with the last wait that began before
placed AS (
    SELECT
        thread,
        ts,
        end_ts,
        is_io,
        MAX(wait_ts) OVER (
            PARTITION BY thread ORDER BY ts NULLS LAST, is_io NULLS LAST ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS wait_ts
    FROM (
        SELECT thread, ts, end_ts, 1 AS is_io, CAST(NULL AS BIGINT) AS wait_ts FROM io
        UNION ALL
        SELECT thread, ts, end_ts, 0, ts FROM waited
    ) AS begun
),

-- a part has its share of the time from its start to a moment: from low to high, so that shares of one time add up to it
part AS (
    SELECT thread, ts, end_ts, 0e0 AS low, 1e0 AS high, 1 AS n, 'io' AS work, call, file, CAST(NULL AS VARCHAR) AS state, CAST(NULL AS BIGINT) AS cause_thread
    FROM io
    UNION ALL
    SELECT thread, ts, end_ts, 0e0, 1e0, CASE WHEN work = 'wait' THEN 1 ELSE 0 END, work, call, file, state, cause_thread
    FROM phase
    UNION ALL
    -- what a wait did on files is taken off it
    SELECT o.thread, GREATEST(o.ts, p.ts), LEAST(o.end_ts, p.end_ts), 1e0, 0e0, 0, p.work, p.call, p.file, p.state, p.cause_thread
    FROM placed AS o
    INNER JOIN phase AS p ON p.thread = o.thread AND p.wait_ts = o.wait_ts AND p.ts < o.end_ts AND p.end_ts > o.ts
    WHERE o.is_io = 1
    UNION ALL
    SELECT
        g.thread,
        g.ts,
        g.ts + g.dur,
        CASE k.work WHEN 'compute' THEN 0 WHEN 'queued' THEN g.cpu_ns ELSE g.cpu_ns + g.ready_ns END / CAST(g.dur AS DOUBLE),
        CASE k.work WHEN 'compute' THEN g.cpu_ns WHEN 'queued' THEN g.cpu_ns + g.ready_ns ELSE g.dur END / CAST(g.dur AS DOUBLE),
        0,
        k.work,
        CAST(NULL AS VARCHAR),
        CAST(NULL AS BIGINT),
        CAST(NULL AS VARCHAR),
        CAST(NULL AS BIGINT)
    FROM (
        SELECT thread, ts, dur, COALESCE(cpu_ns, 0) AS cpu_ns, COALESCE(ready_ns, 0) AS ready_ns
        FROM compute
        WHERE dur > 0
    ) AS g
    CROSS JOIN (SELECT 'compute' AS work UNION ALL SELECT 'queued' UNION ALL SELECT 'unexplained') AS k
    UNION ALL
    SELECT thread, ts, end_ts, 0e0, 1e0, 0, 'other', CAST(NULL AS VARCHAR), CAST(NULL AS BIGINT), CAST(NULL AS VARCHAR), CAST(NULL AS BIGINT)
    FROM life
),

cut AS (
    SELECT p.*, p.ts - p.ts % w.every_ns AS bucket_ts, p.ts AS from_ts, LEAST(p.end_ts, p.ts - p.ts % w.every_ns + w.every_ns) AS until_ts
    FROM part AS p
    CROSS JOIN width AS w
    UNION ALL
    SELECT p.*, b.ts, b.ts, LEAST(p.end_ts, b.ts + b.every_ns)
    FROM part AS p
    CROSS JOIN width AS w
    INNER JOIN time_bucket AS b ON b.ts > p.ts AND b.ts < p.end_ts
    WHERE p.end_ts > p.ts - p.ts % w.every_ns + w.every_ns
),

path AS (
    SELECT p.thread, b.ts AS bucket_ts, GREATEST(p.ts, b.ts) AS from_ts, LEAST(p.ts + p.dur, b.ts + b.every_ns) AS until_ts
    FROM critical_path AS p
    INNER JOIN time_bucket AS b ON b.ts < p.ts + p.dur AND b.ts + b.every_ns > p.ts
),

cell AS (
    SELECT bucket_ts, thread, work, call, file, state, cause_thread, CAST(0 AS BIGINT) AS n,
        ROUND(high * (until_ts - ts)) - ROUND(low * (until_ts - ts)) - ROUND(high * (from_ts - ts)) + ROUND(low * (from_ts - ts)) AS ns,
        0e0 AS path_ns
    FROM cut
    UNION ALL
    SELECT p.ts - p.ts % w.every_ns, p.thread, p.work, p.call, p.file, p.state, p.cause_thread, p.n, 0e0, 0e0
    FROM part AS p
    CROSS JOIN width AS w
    WHERE p.n > 0
    UNION ALL
    SELECT
        c.bucket_ts,
        c.thread,
        c.work,
        c.call,
        c.file,
        c.state,
        c.cause_thread,
        0,
        0e0,
        ROUND(c.high * (LEAST(c.until_ts, p.until_ts) - c.ts)) - ROUND(c.low * (LEAST(c.until_ts, p.until_ts) - c.ts))
        - ROUND(c.high * (GREATEST(c.from_ts, p.from_ts) - c.ts)) + ROUND(c.low * (GREATEST(c.from_ts, p.from_ts) - c.ts))
    FROM cut AS c
    INNER JOIN path AS p
        ON p.thread = c.thread AND p.bucket_ts = c.bucket_ts AND p.from_ts < c.until_ts AND p.until_ts > c.from_ts
    WHERE c.work <> 'other'
    UNION ALL
    SELECT
        bucket_ts,
        thread,
        'other',
        CAST(NULL AS VARCHAR),
        CAST(NULL AS BIGINT),
        CAST(NULL AS VARCHAR),
        CAST(NULL AS BIGINT),
        0,
        0e0,
        CAST(until_ts - from_ts AS DOUBLE)
    FROM path
),

summed AS (
    SELECT
        bucket_ts,
        thread,
        work,
        call,
        file,
        state,
        cause_thread,
        CAST(SUM(n) AS BIGINT) AS n,
        CAST(SUM(ns) AS BIGINT) AS ns,
        CAST(SUM(path_ns) AS BIGINT) AS path_ns
    FROM cell
    GROUP BY bucket_ts, thread, work, call, file, state, cause_thread
),

-- `other` has all of the thread's life and path so far: what is left of them is its own
rest AS (
    SELECT
        bucket_ts,
        thread,
        work,
        call,
        file,
        state,
        cause_thread,
        n,
        CASE WHEN work = 'other' THEN GREATEST(2 * ns - SUM(ns) OVER one, 0) ELSE ns END AS ns,
        CASE WHEN work = 'other' THEN GREATEST(2 * path_ns - SUM(path_ns) OVER one, 0) ELSE path_ns END AS path_ns
    FROM summed
    WINDOW one AS (PARTITION BY bucket_ts, thread)
)

SELECT
    r.bucket_ts AS ts,
    l.node,
    r.thread,
    r.work,
    r.call,
    r.file,
    r.state,
    r.cause_thread,
    r.n,
    CAST(r.ns AS BIGINT) AS ns,
    CAST(r.path_ns AS BIGINT) AS path_ns
FROM rest AS r
INNER JOIN life AS l ON l.thread = r.thread
WHERE r.ns > 0 OR r.path_ns > 0 OR r.n > 0

-- The time each call adds to its thread's time outside the program: one row a call, file and waiting calls.
-- A call inside another adds nothing: the outermost has the time. Cut to the life of the thread, so that
-- the rows of a thread never overlap and never exceed its life.
--
-- @requires file_op, sync_op, thread_call, trail_span
-- @dimension thread, process, kind, waits_for, call, file
-- @column process BIGINT: process
-- @column thread BIGINT: thread
-- @column call VARCHAR: name of the call
-- @column kind VARCHAR: read, write, flush, meta, map; wait for calls that wait for something else
-- @column waits_for VARCHAR: what a waiting call waits for: lock, condition (also futex, semaphore, queue), poll (also
--     accept), socket, pipe, process, thread, timer, mpi, barrier or other; null for calls on files
-- @column file BIGINT: file it acted on; null unknown and for waiting calls
-- @column object BIGINT: lock, pipe, socket … it waited for; null unknown and for calls on files
-- @column peer BIGINT: who it waited for; null unknown and for calls on files
-- @column since_ts BIGINT ns: from when the call adds time
-- @column until_ts BIGINT ns: until when
WITH slice AS (
    -- about a thousand calls each: a running maximum over millions of rows costs twenty times as much
    -- (at most 2^62 ns, so that 64 bits hold it)
    SELECT
        LEAST(CAST((s.end_ts - s.start_ts - (s.end_ts - s.start_ts) % n.n) / n.n AS BIGINT), 4503599627370495) * 1024
        + 1024 AS slice_ns
    FROM trail_span AS s
    CROSS JOIN (
        SELECT (SELECT COUNT(*) FROM file_op) + (SELECT COUNT(*) FROM sync_op) + 1 AS n
    ) AS n
),

reach AS (
    SELECT
        thread_number,
        slice_ts,
        MAX(end_ts) OVER (
            PARTITION BY thread_number ORDER BY slice_ts NULLS LAST ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS until_ts
    FROM (
        SELECT c.thread_number, c.ts - c.ts % w.slice_ns AS slice_ts, MAX(c.end_ts) AS end_ts
        FROM thread_call AS c
        CROSS JOIN slice AS w
        GROUP BY c.thread_number, c.ts - c.ts % w.slice_ns
    ) AS sliced
),

nested AS (
    SELECT
        c.*,
        c.ts - c.ts % w.slice_ns AS slice_ts,
        MAX(c.end_ts) OVER (
            PARTITION BY c.thread_number, c.ts - c.ts % w.slice_ns ORDER BY c.ts NULLS LAST, c.end_ts DESC NULLS LAST
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS covered_ts
    FROM thread_call AS c
    CROSS JOIN slice AS w
),

outermost AS (
    SELECT
        n.process,
        n.thread,
        n.call,
        n.kind_number,
        n.file,
        n.object,
        n.peer,
        GREATEST(n.ts, COALESCE(n.covered_ts, n.ts), COALESCE(r.until_ts, n.ts)) AS since_ts,
        n.end_ts
    FROM nested AS n
    LEFT JOIN (SELECT * FROM reach WHERE until_ts > slice_ts) AS r
        ON r.thread_number = n.thread_number AND r.slice_ts = n.slice_ts
)

SELECT
    process,
    thread,
    call,
    CASE kind_number
        WHEN 1 THEN 'read' WHEN 2 THEN 'write' WHEN 3 THEN 'flush' WHEN 4 THEN 'map' WHEN 5 THEN 'meta' ELSE 'wait'
    END AS kind,
    CASE kind_number
        WHEN 6 THEN 'other' WHEN 7 THEN 'lock' WHEN 8 THEN 'condition' WHEN 9 THEN 'poll' WHEN 10 THEN 'socket'
        WHEN 11 THEN 'pipe' WHEN 12 THEN 'process' WHEN 13 THEN 'thread' WHEN 14 THEN 'timer' WHEN 15 THEN 'mpi'
        WHEN 16 THEN 'barrier'
    END AS waits_for,
    file,
    object,
    peer,
    since_ts,
    end_ts AS until_ts
FROM outermost
WHERE end_ts > since_ts

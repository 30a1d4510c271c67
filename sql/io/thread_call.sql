-- All calls of all threads, on files and waiting ones, cut to the life of their thread: one row a call.
-- It carries small numbers for thread and kind, for modules that sort millions of calls.
--
-- @requires file_op, sync_op, call, thread_life
-- @column process BIGINT: process
-- @column thread BIGINT: thread
-- @column thread_number BIGINT: number of the thread, from 1
-- @column call VARCHAR: name of the call
-- @column kind_number BIGINT: 1 read, 2 write, 3 flush, 4 map, 5 meta, 6 and up waits for something
--     else, by what module busy says in waits_for
-- @column file BIGINT: file it acted on; null unknown and for waiting calls
-- @column object BIGINT: lock, pipe, socket … it waited for; null unknown and for calls on files
-- @column peer BIGINT: who it waited for; null unknown and for calls on files
-- @column ts BIGINT ns: when it began, or its thread if that was later
-- @column end_ts BIGINT ns: when it returned; when its thread ended if it didn't; when it began if the trail doesn't
--     know how long it took
WITH life AS (
    SELECT *, CAST(DENSE_RANK() OVER (ORDER BY thread NULLS LAST) AS BIGINT) AS thread_number
    FROM thread_life
),

every_call AS (
    SELECT
        o.ts,
        -- of a call whose duration is unknown the trail knows no time but its start
        CASE WHEN o.result IS NOT NULL THEN COALESCE(o.dur, 0) ELSE o.dur END AS dur,
        o.thread,
        o.call,
        CASE c.kind WHEN 'read' THEN 1 WHEN 'write' THEN 2 WHEN 'flush' THEN 3 WHEN 'map' THEN 4 ELSE 5 END
            AS kind_number,
        o.file,
        NULL AS object,
        NULL AS peer
    FROM file_op AS o
    LEFT JOIN call AS c ON c.call = o.call
    UNION ALL
    SELECT
        ts,
        CASE WHEN result IS NOT NULL THEN COALESCE(dur, 0) ELSE dur END,
        thread,
        call,
        CASE
            WHEN kind IN ('lock', 'file_lock') THEN 7
            WHEN kind IN ('condition', 'futex', 'semaphore', 'queue') THEN 8
            WHEN kind = 'poll' OR call = 'accept' THEN 9
            WHEN kind = 'socket' THEN 10
            WHEN kind = 'pipe' THEN 11
            WHEN kind = 'process' THEN 12
            WHEN kind = 'thread' THEN 13
            WHEN kind = 'sleep' THEN 14
            WHEN kind = 'mpi' THEN 15
            WHEN kind = 'barrier' THEN 16
            ELSE 6
        END,
        NULL,
        object,
        peer
    FROM sync_op
)

SELECT
    t.process,
    o.thread,
    t.thread_number,
    o.call,
    CAST(o.kind_number AS BIGINT) AS kind_number,
    o.file,
    CAST(o.object AS BIGINT) AS object,
    CAST(o.peer AS BIGINT) AS peer,
    GREATEST(o.ts, t.start_ts) AS ts,
    LEAST(COALESCE(o.ts + o.dur, t.end_ts), t.end_ts) AS end_ts
FROM every_call AS o
INNER JOIN life AS t ON t.thread = o.thread

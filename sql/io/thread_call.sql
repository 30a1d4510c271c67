-- All calls of all threads, on files and waiting ones, cut to the life of their thread: one row a call.
-- It carries small numbers for thread and kind, for modules that sort millions of calls.
--
-- @requires file_op, sync_op, call, thread_life
-- @column process BIGINT: process
-- @column thread BIGINT: thread
-- @column thread_number BIGINT: number of the thread, from 1
-- @column call VARCHAR: name of the call
-- @column kind_number BIGINT: 1 read, 2 write, 3 flush, 4 map, 5 meta, 6 waits for something else
-- @column file BIGINT: file it acted on; null unknown and for waiting calls
-- @column ts BIGINT ns: when it began, or its thread if that was later
-- @column end_ts BIGINT ns: when it returned; when its thread ended if it didn't
WITH life AS (
    SELECT *, CAST(DENSE_RANK() OVER (ORDER BY thread NULLS LAST) AS BIGINT) AS thread_number
    FROM thread_life
),

every_call AS (
    SELECT
        o.ts,
        o.dur,
        o.thread,
        o.call,
        CASE c.kind WHEN 'read' THEN 1 WHEN 'write' THEN 2 WHEN 'flush' THEN 3 WHEN 'map' THEN 4 ELSE 5 END
            AS kind_number,
        o.file
    FROM file_op AS o
    LEFT JOIN call AS c ON c.call = o.call
    UNION ALL
    SELECT ts, dur, thread, call, 6, NULL
    FROM sync_op
)

SELECT
    t.process,
    o.thread,
    t.thread_number,
    o.call,
    CAST(o.kind_number AS BIGINT) AS kind_number,
    o.file,
    GREATEST(o.ts, t.start_ts) AS ts,
    LEAST(COALESCE(o.ts + o.dur, t.end_ts), t.end_ts) AS end_ts
FROM every_call AS o
INNER JOIN life AS t ON t.thread = o.thread

-- The time each call adds to its thread's time outside the program: one row a call, file and waiting calls.
-- A call inside another adds nothing: the outermost has the time. Cut to the life of the thread, so that
-- the rows of a thread never overlap and never exceed its life.
--
-- @requires file_op, sync_op, call, thread_life
-- @dimension thread, process, kind, call, file
-- @column process BIGINT: process
-- @column thread BIGINT: thread
-- @column call VARCHAR: name of the call
-- @column kind VARCHAR: read, write, flush, meta, map; wait for calls that wait for something else
-- @column file BIGINT: file it acted on; null unknown and for waiting calls
-- @column since_ts BIGINT ns: from when the call adds time
-- @column until_ts BIGINT ns: until when
WITH every_call AS (
    SELECT o.ts, o.dur, o.thread, o.call, COALESCE(c.kind, 'meta') AS kind, o.file
    FROM file_op AS o
    LEFT JOIN (
        SELECT call, MAX(kind) AS kind
        FROM call
        GROUP BY call
    ) AS c ON c.call = o.call
    UNION ALL
    SELECT ts, dur, thread, call, 'wait', NULL
    FROM sync_op
),

lived AS (
    SELECT
        t.process,
        o.thread,
        o.call,
        o.kind,
        o.file,
        GREATEST(o.ts, t.start_ts) AS ts,
        LEAST(COALESCE(o.ts + o.dur, t.end_ts), t.end_ts) AS end_ts
    FROM every_call AS o
    INNER JOIN thread_life AS t ON t.thread = o.thread
),

nested AS (
    SELECT
        *,
        MAX(end_ts) OVER (
            PARTITION BY thread ORDER BY ts NULLS LAST, end_ts DESC NULLS LAST
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS covered_ts
    FROM lived
)

SELECT process, thread, call, kind, file, GREATEST(ts, COALESCE(covered_ts, ts)) AS since_ts, end_ts AS until_ts
FROM nested
WHERE end_ts > GREATEST(ts, COALESCE(covered_ts, ts))

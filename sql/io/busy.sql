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
WITH life AS (
    -- A small number for the thread and one for the kind: 12 million calls are sorted a third faster.
    SELECT *, CAST(DENSE_RANK() OVER (ORDER BY thread NULLS LAST) AS INTEGER) AS thread_number
    FROM thread_life
),

every_call AS (
    SELECT
        o.ts,
        o.dur,
        o.thread,
        o.call,
        CASE c.kind WHEN 'read' THEN 1 WHEN 'write' THEN 2 WHEN 'flush' THEN 3 WHEN 'map' THEN 4 ELSE 5 END AS kind_id,
        o.file
    FROM file_op AS o
    LEFT JOIN (
        SELECT call, MAX(kind) AS kind
        FROM call
        GROUP BY call
    ) AS c ON c.call = o.call
    UNION ALL
    SELECT ts, dur, thread, call, 6, NULL
    FROM sync_op
),

lived AS (
    SELECT
        t.process,
        t.thread_number,
        o.thread,
        o.call,
        o.kind_id,
        o.file,
        GREATEST(o.ts, t.start_ts) AS ts,
        LEAST(COALESCE(o.ts + o.dur, t.end_ts), t.end_ts) AS end_ts
    FROM every_call AS o
    INNER JOIN life AS t ON t.thread = o.thread
),

nested AS (
    SELECT
        *,
        MAX(end_ts) OVER (
            PARTITION BY thread_number ORDER BY ts NULLS LAST, end_ts DESC NULLS LAST
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS covered_ts
    FROM lived
)

SELECT
    process,
    thread,
    call,
    CASE kind_id
        WHEN 1 THEN 'read' WHEN 2 THEN 'write' WHEN 3 THEN 'flush' WHEN 4 THEN 'map' WHEN 5 THEN 'meta' ELSE 'wait'
    END AS kind,
    file,
    GREATEST(ts, COALESCE(covered_ts, ts)) AS since_ts,
    end_ts AS until_ts
FROM nested
WHERE end_ts > GREATEST(ts, COALESCE(covered_ts, ts))

-- A file lock that another process holds: the program waits in flock, lockf or fcntl(F_SETLKW), or tries again
-- and again with a sleep between (SQLite's busy handler, lock files).
--
-- The holder is the process that was the last to lock the file before the wait began: taken from the lock calls
-- of the recording; null where none of them can have held it (a process outside of it). Weighed against the working
-- time plus the waiting.
--
-- @param min_share DOUBLE 0.01: a smaller share of the working time is no finding
-- @param medium_share DOUBLE 0.05: share of the working time from which a finding is medium
-- @param high_share DOUBLE 0.2: share of the working time from which a finding is high
-- @param held_ns BIGINT 50000000 ns: a shorter wait for a file lock in all is no finding
-- @requires sync_op, file_op, thread, process, file, effort
WITH tried AS (
    SELECT o.node, o.thread, o.file, o.ts, coalesce(o.dur, 0) AS dur, o.errno
    FROM file_op AS o
    WHERE o.call = 'fcntl' AND o.flags IN (6, 7, 37, 38) AND o.file IS NOT NULL
),

-- calls that lock or unlock and came back
locked AS (
    SELECT s.node, s.thread, s.object AS file, s.ts, s.ts + s.dur AS end_ts
    FROM sync_op AS s
    WHERE s.kind = 'file_lock' AND s.dur IS NOT NULL AND s.errno = 0 AND s.object IS NOT NULL
    UNION ALL
    SELECT node, thread, file, ts, ts + dur FROM tried WHERE errno = 0
),

refused AS (
    SELECT node, thread, file, ts, ts + dur AS end_ts FROM tried WHERE errno IN (11, 13)
    UNION ALL
    SELECT s.node, s.thread, s.object, s.ts, s.ts + coalesce(s.dur, 0)
    FROM sync_op AS s
    WHERE s.kind = 'file_lock' AND s.errno IN (11, 13) AND s.object IS NOT NULL
),

-- what a thread does after it was refused: if it sleeps, it sleeps for the lock
tries AS (
    SELECT node, thread, file, ts, 0 AS dur, 0 AS slept FROM refused
    UNION ALL
    SELECT s.node, s.thread, CAST(NULL AS BIGINT), s.ts, coalesce(s.dur, 0), 1
    FROM sync_op AS s
    SEMI JOIN refused AS r ON r.node = s.node AND r.thread = s.thread
    WHERE s.kind = 'sleep'
),

waited AS (
    SELECT s.node, s.thread, s.object AS file, s.ts, coalesce(s.dur, 0) AS dur
    FROM sync_op AS s
    WHERE s.kind = 'file_lock' AND s.object IS NOT NULL
    UNION ALL
    SELECT node, thread, last_file, ts, dur
    FROM (
        SELECT node, thread, ts, dur, slept, lag(file) OVER (PARTITION BY node, thread ORDER BY ts NULLS LAST) AS last_file
        FROM tries
    ) AS followed
    WHERE slept = 1 AND last_file IS NOT NULL
),

-- the waits that matter, so that few are held against who locked before
long AS (
    SELECT w.node, w.thread, w.file, w.ts, w.dur, t.process
    FROM waited AS w
    INNER JOIN thread AS t ON t.node = w.node AND t.thread = w.thread
    WHERE w.dur >= 100000
),

holders AS (
    SELECT
        l.node, l.thread, l.file, l.ts, l.dur, l.process,
        max_by(h.process, concat(lpad(CAST(k.end_ts AS VARCHAR), 20, '0'), CAST(h.process AS VARCHAR))) AS holder
    FROM long AS l
    LEFT JOIN locked AS k ON k.node = l.node AND k.file = l.file AND k.end_ts <= l.ts + l.dur AND k.ts <= l.ts
    LEFT JOIN thread AS h ON h.node = k.node AND h.thread = k.thread AND h.process <> l.process
    WHERE k.thread IS NULL OR h.process IS NOT NULL OR k.thread = l.thread
    GROUP BY l.node, l.thread, l.file, l.ts, l.dur, l.process
),

per_holder AS (
    SELECT
        h.node, coalesce(p.name, 'unknown process') AS process_name, h.file, h.holder,
        min(h.process) AS process_min, max(h.process) AS process_max,
        count(*) AS ops, CAST(sum(h.dur) AS BIGINT) AS cost_ns, max(h.dur) AS max_ns, min(h.ts) AS start_ts,
        max(h.ts + h.dur) AS end_ts
    FROM holders AS h
    LEFT JOIN process AS p ON p.node = h.node AND p.process = h.process
    GROUP BY h.node, coalesce(p.name, 'unknown process'), h.file, h.holder
),

found AS (
    SELECT
        node, process_name, file,
        CASE WHEN min(process_min) = max(process_max) THEN min(process_min) END AS process,
        max_by(holder, concat(lpad(CAST(cost_ns AS VARCHAR), 20, '0'), coalesce(CAST(holder AS VARCHAR), ''))) AS holder,
        CAST(sum(ops) AS BIGINT) AS ops, CAST(sum(cost_ns) AS BIGINT) AS cost_ns, max(max_ns) AS max_ns,
        min(start_ts) AS start_ts, max(end_ts) AS end_ts
    FROM per_holder
    GROUP BY node, process_name, file
)

SELECT
    'file_lock' AS finding,
    CASE
        WHEN f.cost_ns >= p.high_share * (e.work_ns + f.cost_ns) THEN 'high'
        WHEN f.cost_ns >= p.medium_share * (e.work_ns + f.cost_ns) THEN 'medium'
        ELSE 'low'
    END AS severity,
    concat(
        f.process_name, ': waits ', printf('%,.3f', CAST(f.cost_ns / 1e9 AS DECIMAL(18, 3))), ' s for the lock of ',
        coalesce(i.path, '(unknown file)'),
        CASE
            WHEN h.process IS NULL THEN ', held by a process that the recording doesn’t show'
            ELSE concat(', held by ', coalesce(h.name, 'unknown process'), ' (pid ', CAST(h.pid AS VARCHAR), ')')
        END, '.'
    ) AS title,
    f.process_name AS program,
    f.process AS process,
    CAST(NULL AS BIGINT) AS thread,
    f.file AS file,
    f.ops AS ops,
    CAST(NULL AS BIGINT) AS bytes,
    f.cost_ns AS cost_ns,
    f.start_ts AS start_ts,
    f.end_ts AS end_ts,
    concat(
        printf('%,d', f.ops), ' waits (in the lock call, or asleep after it was refused), the longest ',
        printf('%,.1f', CAST(f.max_ns / 1e6 AS DECIMAL(18, 1))), ' ms, ',
        printf('%,.3f', CAST(f.cost_ns / 1e9 AS DECIMAL(18, 3))), ' s in all.'
    ) AS evidence,
    concat(
        'Hold the lock for the change only: prepare before, do slow work and network calls after. Lock parts ',
        '(a lock for each record, shard or queue entry) instead of the whole, share it among readers, and look ',
        'at what the holder does meanwhile. Wait in the call (F_SETLKW, flock without LOCK_NB) instead of ',
        'sleeping between tries.'
    ) AS advice
FROM found AS f
LEFT JOIN process AS h ON h.node = f.node AND h.process = f.holder
LEFT JOIN file AS i ON i.node = f.node AND i.file = f.file
CROSS JOIN params AS p
CROSS JOIN effort AS e
WHERE f.cost_ns >= p.held_ns
    AND f.cost_ns >= p.min_share * (e.work_ns + f.cost_ns)

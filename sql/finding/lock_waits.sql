-- Waiting for locks: threads stand in line for a mutex or a read-write lock while others do I/O or sleep. File locks
-- are `finding_file_lock`. A lock that is held during I/O makes the latency of one request that of all behind it.
--
-- Only waits are recorded, not who holds a lock, and a lock that was free has no row. So the cost is the waiting during
-- which another thread of the process was in a call on files, slept, or waited for a file lock, a socket or a pipe; all
-- of it where page faults waited for storage half as long. Locks held while computing are no matter of storage. Weighed
-- against the working time plus that waiting. Conditions, barriers and queues don't count, since idle workers wait
-- there. Where threads wait as long for a CPU as for locks, the machine is short of CPUs: a holder without one makes
-- the others wait.
--
-- @param min_share DOUBLE 0.01: a smaller share of the working time is no finding
-- @param medium_share DOUBLE 0.05: share of the working time from which a finding is medium
-- @param high_share DOUBLE 0.2: share of the working time from which a finding is high
-- @requires file_op, sync_op, thread, process, effort
WITH locking AS (
    SELECT t.node, t.process, s.thread, s.call, s.object, s.ts, s.ts + s.dur AS end_ts
    FROM sync_op AS s
    INNER JOIN thread AS t ON t.node = s.node AND t.thread = s.thread
    WHERE s.kind = 'lock' AND s.call NOT LIKE '%unlock' AND s.dur > 0
),

-- none where all waiting together is too little: there may be millions of calls
standing AS (
    SELECT l.node, l.process
    FROM locking AS l
    WHERE (SELECT sum(end_ts - ts) FROM locking) >= (SELECT p.min_share * e.work_ns FROM params AS p CROSS JOIN effort AS e)
    GROUP BY l.node, l.process
),

spans AS (
    SELECT node, thread, ts, ts + dur AS end_ts FROM file_op WHERE dur > 0
    UNION ALL
    SELECT node, thread, ts, ts + dur
    FROM sync_op
    WHERE dur > 0 AND kind IN ('sleep', 'file_lock', 'socket', 'pipe') AND call <> 'accept'
),

called AS (
    SELECT t.node, t.process, c.ts, c.end_ts
    FROM spans AS c
    INNER JOIN thread AS t ON t.node = c.node AND t.thread = c.thread
    SEMI JOIN standing AS s ON s.node = t.node AND s.process = t.process
),

-- how many calls begin or end at each moment
moment AS (
    SELECT node, process, ts, CAST(sum(more) AS BIGINT) AS more
    FROM (
        SELECT node, process, ts, 1 AS more FROM called
        UNION ALL
        SELECT node, process, end_ts, -1 FROM called
        UNION ALL
        SELECT node, process, ts, 0 FROM locking
        UNION ALL
        SELECT node, process, end_ts, 0 FROM locking
    ) AS each_moment
    GROUP BY node, process, ts
),

depth AS (
    SELECT
        node,
        process,
        ts,
        lead(ts) OVER (PARTITION BY node, process ORDER BY ts NULLS LAST) AS next_ts,
        sum(more) OVER (PARTITION BY node, process ORDER BY ts NULLS LAST ROWS UNBOUNDED PRECEDING) AS calls
    FROM moment
),

-- how long there was a call, until each moment
clock AS (
    SELECT
        node,
        process,
        ts,
        coalesce(
            sum(CASE WHEN calls > 0 THEN next_ts - ts ELSE 0 END)
                OVER (PARTITION BY node, process ORDER BY ts NULLS LAST ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING),
            0
        ) AS called_ns
    FROM depth
),

counted AS (
    SELECT
        l.node,
        l.process,
        l.thread,
        l.call,
        l.object,
        l.ts,
        l.end_ts,
        CAST(CASE WHEN 2 * e.fault_ns >= e.lock_ns THEN l.end_ts - l.ts ELSE b.called_ns - a.called_ns END AS BIGINT) AS cost_ns
    FROM locking AS l
    INNER JOIN clock AS a ON a.node = l.node AND a.process = l.process AND a.ts = l.ts
    INNER JOIN clock AS b ON b.node = l.node AND b.process = l.process AND b.ts = l.end_ts
    CROSS JOIN (
        SELECT coalesce((SELECT fault_ns FROM effort), 0) AS fault_ns, (SELECT sum(end_ts - ts) FROM locking) AS lock_ns
    ) AS e
),

waited AS (
    SELECT
        node,
        process,
        thread,
        call,
        object,
        count(*) AS ops,
        CAST(sum(cost_ns) AS BIGINT) AS cost_ns,
        max(cost_ns) AS max_ns,
        min(ts) AS start_ts,
        max(end_ts) AS end_ts
    FROM counted
    WHERE cost_ns > 0
    GROUP BY node, process, thread, call, object
),

per_lock AS (
    SELECT
        coalesce(p.name, 'unknown process') AS process_name,
        w.call,
        w.object,
        min(w.process) AS process_min,
        max(w.process) AS process_max,
        count(*) AS threads,
        CAST(sum(w.ops) AS BIGINT) AS ops,
        CAST(sum(w.cost_ns) AS BIGINT) AS cost_ns,
        max(w.max_ns) AS max_ns,
        min(w.start_ts) AS start_ts,
        max(w.end_ts) AS end_ts
    FROM waited AS w
    LEFT JOIN process AS p ON p.node = w.node AND p.process = w.process
    GROUP BY coalesce(p.name, 'unknown process'), w.call, w.object
),

found AS (
    SELECT
        process_name,
        CASE WHEN min(process_min) = max(process_max) THEN min(process_min) END AS process,
        count(*) AS locks,
        max_by(call, concat(lpad(CAST(cost_ns AS VARCHAR), 20, '0'), call, coalesce(CAST(object AS VARCHAR), ''))) AS top_call,
        max_by(threads, concat(lpad(CAST(cost_ns AS VARCHAR), 20, '0'), call, coalesce(CAST(object AS VARCHAR), ''))) AS top_threads,
        max(cost_ns) AS top_ns,
        CAST(sum(ops) AS BIGINT) AS ops,
        CAST(sum(cost_ns) AS BIGINT) AS cost_ns,
        max(max_ns) AS max_ns,
        min(start_ts) AS start_ts,
        max(end_ts) AS end_ts
    FROM per_lock
    GROUP BY process_name
)

SELECT
    'lock_waits' AS finding,
    CASE
        WHEN f.cost_ns >= p.high_share * (e.work_ns + f.cost_ns) THEN 'high'
        WHEN f.cost_ns >= p.medium_share * (e.work_ns + f.cost_ns) THEN 'medium'
        ELSE 'low'
    END AS severity,
    concat(
        f.process_name, ': ', printf('%,d', f.ops), ' waits for locks, while other threads do I/O or sleep, take ',
        printf('%,.3f', CAST(f.cost_ns / 1e9 AS DECIMAL(18, 3))), ' s, ',
        printf('%,d', CAST(round(1e2 * f.cost_ns / NULLIF((e.work_ns + f.cost_ns), 0)) AS BIGINT)),
        ' % of working and waiting together.'
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
        printf('%,d', f.locks), ' locks, ',
        printf('%,.1f', CAST(f.cost_ns / NULLIF(f.ops, 0) / 1e3 AS DECIMAL(18, 1))),
        ' µs a wait, the longest ', printf('%,.1f', CAST(f.max_ns / 1e6 AS DECIMAL(18, 1))),
        ' ms; the worst (', f.top_call, ') makes ', printf('%,d', f.top_threads), ' threads wait ',
        printf('%,.3f', CAST(f.top_ns / 1e9 AS DECIMAL(18, 3))), ' s.'
    ) AS evidence,
    concat(
        'Don’t hold the lock during I/O: prepare outside, let one thread write for all (group ',
        'commit), split the lock (per file, per shard), read under a shared lock or a snapshot.'
    ) AS advice
FROM found AS f
CROSS JOIN params AS p
CROSS JOIN effort AS e
WHERE f.cost_ns >= p.min_share * (e.work_ns + f.cost_ns)
    AND coalesce(e.queued_ns, 0) < f.cost_ns

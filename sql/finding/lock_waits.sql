-- Waiting for locks: threads stand in line for a mutex or a read-write lock. File locks are `finding_file_lock`.
-- Often it is held during I/O, so that the latency of one request becomes that of all behind it.
--
-- Weighed against the working time plus the waiting itself. Only waits are recorded: a lock that was free
-- has no row. Conditions, barriers and queues don't count, since idle workers wait there. Where threads wait as
-- long for a CPU as for locks, the machine is short of CPUs: a holder without one makes the others wait.
--
-- @param min_share DOUBLE 0.01: a smaller share of the working time is no finding
-- @param medium_share DOUBLE 0.05: share of the working time from which a finding is medium
-- @param high_share DOUBLE 0.2: share of the working time from which a finding is high
-- @requires sync_op, thread, process, effort
WITH waited AS (
    SELECT
        s.node,
        s.thread,
        s.call,
        s.object,
        count(*) AS ops,
        CAST(coalesce(sum(s.dur), 0) AS BIGINT) AS cost_ns,
        max(s.dur) AS max_ns,
        min(s.ts) AS start_ts,
        max(s.ts + coalesce(s.dur, 0)) AS end_ts
    FROM sync_op AS s
    WHERE s.kind = 'lock' AND s.call NOT LIKE '%unlock'
    GROUP BY s.node, s.thread, s.call, s.object
),

per_lock AS (
    SELECT
        coalesce(p.name, 'unknown process') AS process_name,
        w.call,
        w.object,
        min(t.process) AS process_min,
        max(t.process) AS process_max,
        count(*) AS threads,
        CAST(sum(w.ops) AS BIGINT) AS ops,
        CAST(sum(w.cost_ns) AS BIGINT) AS cost_ns,
        max(w.max_ns) AS max_ns,
        min(w.start_ts) AS start_ts,
        max(w.end_ts) AS end_ts
    FROM waited AS w
    LEFT JOIN thread AS t ON t.node = w.node AND t.thread = w.thread
    LEFT JOIN process AS p ON p.node = t.node AND p.process = t.process
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
        f.process_name, ': ', printf('%,d', f.ops), ' waits for locks take ',
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

-- Sleeping and looking again: a thread sleeps briefly between checks of files (stat, open, reads at the
-- end) instead of waiting to be told. It reacts half a sleep late on average, and works while nothing
-- happens.
--
-- A thread that sleeps without touching files between (a rate limit, a clock) is none.
--
-- @param poll_times BIGINT 100: fewer sleeps of a thread are no polling
-- @param poll_ns BIGINT 100000000 ns: a longer sleep on average is a schedule, no polling
-- @param poll_share DOUBLE 0.1: share of its life that a thread sleeps from which it is a finding
-- @requires sync_op, activity, effort
WITH slept AS (
    SELECT
        s.node,
        s.thread,
        count(*) AS ops,
        CAST(coalesce(sum(s.dur), 0) AS BIGINT) AS cost_ns,
        min(s.ts) AS start_ts,
        max(s.ts + coalesce(s.dur, 0)) AS end_ts
    FROM sync_op AS s
    WHERE s.kind = 'sleep'
    GROUP BY s.node, s.thread
),

checked AS (
    SELECT
        node,
        thread,
        process,
        process_name,
        CAST(sum(CASE WHEN kind = 'meta' AND call NOT IN ('close', 'fclose') THEN ops ELSE eof_ops END) AS BIGINT) AS checks,
        max_by(path, concat(lpad(CAST(ops AS VARCHAR), 20, '0'), path)) AS path,
        max_by(file, concat(lpad(CAST(ops AS VARCHAR), 20, '0'), path)) AS file
    FROM activity
    GROUP BY node, thread, process, process_name
),

found AS (
    SELECT c.process, c.process_name, c.thread, c.file, c.path, c.checks, s.ops, s.cost_ns, s.start_ts, s.end_ts
    FROM slept AS s
    INNER JOIN checked AS c ON c.node = s.node AND c.thread = s.thread
)

SELECT
    'polling' AS finding,
    CASE WHEN 2e0 * f.cost_ns >= e.wall_ns THEN 'medium' ELSE 'low' END AS severity,
    concat(
        f.process_name, ': ', printf('%,d', f.ops), ' sleeps of ',
        printf('%,.1f', CAST(f.cost_ns / NULLIF(f.ops, 0) / 1e6 AS DECIMAL(18, 1))),
        ' ms between checks of files, most of ', f.path, '.'
    ) AS title,
    f.process_name AS program,
    f.process AS process,
    f.thread AS thread,
    f.file AS file,
    f.ops AS ops,
    CAST(NULL AS BIGINT) AS bytes,
    f.cost_ns AS cost_ns,
    f.start_ts AS start_ts,
    f.end_ts AS end_ts,
    concat(
        printf('%,.3f', CAST(f.cost_ns / 1e9 AS DECIMAL(18, 3))), ' s asleep in ',
        printf('%,.3f', CAST((f.end_ts - f.start_ts) / 1e9 AS DECIMAL(18, 3))), ' s, ',
        printf('%,d', f.checks), ' look-ups or empty reads between.'
    ) AS evidence,
    concat(
        'Wait for the event: inotify or fanotify for files, poll or epoll for descriptors, a ',
        'condition variable or eventfd between threads, a blocking fcntl(F_SETLKW) instead of trying ',
        'a lock file. Where polling must stay (NFS, FUSE), double the pause up to a bound.'
    ) AS advice
FROM found AS f
CROSS JOIN params AS p
CROSS JOIN effort AS e
WHERE f.ops >= p.poll_times
    AND f.cost_ns < p.poll_ns * f.ops
    AND f.checks >= f.ops
    AND f.cost_ns >= p.poll_share * (f.end_ts - f.start_ts)

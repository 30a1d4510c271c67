-- Who holds everybody up: of the threads or ranks of a program that wait for each other, one, or a file that they take turns with, does what the
-- others wait for most of the time. Only of recordings with --causal, which say who waited for whom.
--
-- Counted is the excess (module `wait_cause`): what the cause computed, or did on files, while others waited for it and more than they did
-- themselves; of a thread less what it waits for others in the same way. So a balanced program has none, whatever its ranks wait for each other. Threads take part that others wait for, or that wait
-- for others, at least 1 % of the run. The cost is the excess over the others that take part: time of the run, if all waited. A file is named
-- where no thread holds up the others, and calls on it take longer than on the program's other files. Nothing is said where less than half of
-- the waiting is explained, nor of what costs less than medium_share of the run.
--
-- @param medium_share DOUBLE 0.05: share of the working time from which a finding is medium
-- @param high_share DOUBLE 0.2: share of the working time from which a finding is high
-- @param held_share DOUBLE 0.5: share of all waiting that one thread or file explains, from which it holds everybody up
-- @param explained_share DOUBLE 0.5: share of the waiting of which a cause is known, below which nothing is said
-- @param slow_ratio DOUBLE 3.0: time of a call on the file in calls on the program's other files from which it is slow
-- @requires wait_cause, wait_state, sync_op, thread_life, file, activity, effort
WITH taking_part AS (
    SELECT w.thread
    FROM (
        SELECT thread, dur FROM (SELECT DISTINCT thread, ts, cause_thread, dur FROM wait_cause) AS waits
        UNION ALL
        SELECT cause_thread, dur FROM (SELECT DISTINCT thread, ts, cause_thread, dur FROM wait_cause) AS causes
    ) AS w
    CROSS JOIN effort AS e
    GROUP BY w.thread, e.wall_ns
    HAVING sum(w.dur) >= 0.01 * e.wall_ns
),

-- freeing a lock waits for nobody
waiting AS (
    SELECT
        coalesce(t.process_name, 'unknown process') AS program,
        count(DISTINCT w.thread) AS waiters,
        CAST(sum(w.blocked_ns) AS BIGINT) AS waited_ns,
        CAST(coalesce(sum(w.blocked_ns) FILTER (WHERE w.state = 'unexplained'), 0) AS BIGINT) AS unexplained_ns
    FROM wait_state AS w
    SEMI JOIN taking_part AS k ON k.thread = w.thread
    INNER JOIN thread_life AS t ON t.thread = w.thread
    LEFT JOIN (SELECT thread, ts FROM sync_op WHERE call LIKE '%unlock' GROUP BY thread, ts) AS u ON u.thread = w.thread AND u.ts = w.ts
    WHERE w.state NOT IN ('begin', 'end', 'timer', 'start of MPI') AND u.thread IS NULL
    GROUP BY coalesce(t.process_name, 'unknown process')
),

members AS (
    SELECT coalesce(t.process_name, 'unknown process') AS program, count(*) AS threads
    FROM thread_life AS t
    SEMI JOIN taking_part AS k ON k.thread = t.thread
    GROUP BY coalesce(t.process_name, 'unknown process')
),

caused AS (
    SELECT coalesce(t.process_name, 'unknown process') AS program, t.process, t.rank, t.tid, t.thread_name, w.*
    FROM wait_cause AS w
    INNER JOIN thread_life AS t ON t.thread = w.cause_thread
    SEMI JOIN taking_part AS k ON k.thread = w.cause_thread
    WHERE w.excess_ns > 0
),

-- what each cause mostly did: the kind of work, call and file with most of its excess
worked AS (
    SELECT program, cause_thread, work, call, file, CAST(sum(excess_ns) AS BIGINT) AS excess_ns
    FROM caused
    GROUP BY program, cause_thread, work, call, file
),

mostly AS (
    SELECT
        cause_thread,
        max_by(work, concat(lpad(CAST(excess_ns AS VARCHAR), 20, '0'), work, coalesce(call, ''), coalesce(CAST(file AS VARCHAR), ''))) AS work,
        max_by(call, concat(lpad(CAST(excess_ns AS VARCHAR), 20, '0'), work, coalesce(call, ''), coalesce(CAST(file AS VARCHAR), ''))) AS call,
        max_by(file, concat(lpad(CAST(excess_ns AS VARCHAR), 20, '0'), work, coalesce(call, ''), coalesce(CAST(file AS VARCHAR), ''))) AS file,
        max(excess_ns) AS most_ns
    FROM worked
    GROUP BY cause_thread
),

by_thread AS (
    SELECT
        c.program,
        c.process,
        c.cause_thread AS thread,
        max(c.rank) AS rank,
        max(c.tid) AS tid,
        max(c.thread_name) AS thread_name,
        count(DISTINCT concat(CAST(c.thread AS VARCHAR), ' ', CAST(c.ts AS VARCHAR))) AS ops,
        count(DISTINCT c.thread) AS others,
        CAST(sum(c.excess_ns) AS BIGINT) AS excess_ns,
        CAST(coalesce(sum(c.excess_ns) FILTER (WHERE c.state = 'lock'), 0) AS BIGINT) AS lock_ns,
        max(c.dur) AS max_ns,
        min(c.ts) AS start_ts,
        max(c.ts + c.dur) AS end_ts
    FROM caused AS c
    GROUP BY c.program, c.process, c.cause_thread
),

suffered AS (
    SELECT thread, sum(excess_ns) AS excess_ns FROM caused GROUP BY thread
),

-- who is late now and then is waited for and waits in turn
holder AS (
    SELECT b.*, m.work, m.call, m.file, m.most_ns
    FROM by_thread AS b
    INNER JOIN mostly AS m ON m.cause_thread = b.thread
    LEFT JOIN suffered AS s ON s.thread = b.thread
    INNER JOIN waiting AS w ON w.program = b.program
    CROSS JOIN params AS p
    WHERE b.excess_ns - coalesce(s.excess_ns, 0) >= p.held_share * w.waited_ns
),

called AS (
    SELECT process_name AS program, file, kind, CAST(sum(ops) AS BIGINT) AS ops, CAST(sum(io_ns) AS BIGINT) AS io_ns
    FROM activity
    WHERE kind IN ('read', 'write', 'flush')
    GROUP BY process_name, file, kind
),

-- files on which a call takes several times as long as on the others
slow_file AS (
    SELECT program, file, max(1e0 * io_ns / ops * other_ops / NULLIF(other_ns, 0)) AS ratio
    FROM (
        SELECT
            *,
            sum(ops) OVER (PARTITION BY program, kind) - ops AS other_ops,
            sum(io_ns) OVER (PARTITION BY program, kind) - io_ns AS other_ns
        FROM called
    ) AS compared
    WHERE ops >= 10 AND other_ops >= 10
    GROUP BY program, file
),

by_file AS (
    SELECT
        c.program,
        CASE WHEN min(c.process) = max(c.process) THEN min(c.process) END AS process,
        CAST(NULL AS BIGINT) AS thread,
        CAST(NULL AS BIGINT) AS rank,
        CAST(NULL AS BIGINT) AS tid,
        CAST(NULL AS VARCHAR) AS thread_name,
        count(DISTINCT concat(CAST(c.thread AS VARCHAR), ' ', CAST(c.ts AS VARCHAR))) AS ops,
        count(DISTINCT c.thread) AS others,
        CAST(sum(c.excess_ns) AS BIGINT) AS excess_ns,
        CAST(0 AS BIGINT) AS lock_ns,
        max(c.dur) AS max_ns,
        min(c.ts) AS start_ts,
        max(c.ts + c.dur) AS end_ts,
        'io' AS work,
        max_by(c.call, concat(lpad(CAST(c.excess_ns AS VARCHAR), 20, '0'), c.call)) AS call,
        c.file,
        CAST(sum(c.excess_ns) AS BIGINT) AS most_ns
    FROM caused AS c
    ANTI JOIN holder AS h ON h.program = c.program
    INNER JOIN waiting AS w ON w.program = c.program
    INNER JOIN slow_file AS s ON s.program = c.program AND s.file = c.file
    CROSS JOIN params AS p
    WHERE c.work = 'io' AND s.ratio >= p.slow_ratio
    GROUP BY c.program, c.file, w.waited_ns, p.held_share
    HAVING sum(c.excess_ns) >= p.held_share * w.waited_ns
),

found AS (
    SELECT
        b.*,
        w.waited_ns,
        w.unexplained_ns,
        CAST(floor(1e0 * b.excess_ns / greatest(m.threads - 1, 1)) AS BIGINT) AS cost_ns,
        i.path,
        CASE
            WHEN b.rank IS NOT NULL THEN concat('rank ', CAST(b.rank AS VARCHAR))
            WHEN b.tid IS NOT NULL THEN concat('thread ', coalesce(b.thread_name, CAST(b.tid AS VARCHAR)))
        END AS who
    FROM (
        SELECT * FROM holder
        UNION ALL
        SELECT * FROM by_file
    ) AS b
    INNER JOIN waiting AS w ON w.program = b.program
    INNER JOIN members AS m ON m.program = b.program
    LEFT JOIN (SELECT file, max(path) AS path FROM file GROUP BY file) AS i ON i.file = b.file
)

SELECT
    'held_up' AS finding,
    CASE
        WHEN f.cost_ns >= p.high_share * e.wall_ns THEN 'high'
        WHEN f.cost_ns >= p.medium_share * e.wall_ns THEN 'medium'
        ELSE 'low'
    END AS severity,
    concat(
        f.program, ': ',
        CASE
            WHEN f.who IS NULL THEN coalesce(f.path, 'a file without a name')
            ELSE f.who
        END,
        CASE WHEN 2 * f.lock_ns >= f.excess_ns THEN ' holds the others up with a lock' ELSE ' holds the others up' END,
        ': they wait ', printf('%,.3f', CAST(f.excess_ns / 1e9 AS DECIMAL(18, 3))), ' s for it, ',
        printf('%,d', CAST(round(1e2 * f.excess_ns / NULLIF(f.waited_ns, 0)) AS BIGINT)), ' % of their waiting for each other.'
    ) AS title,
    f.program AS program,
    f.process AS process,
    f.thread AS thread,
    CASE WHEN f.work = 'io' AND 2 * f.most_ns >= f.excess_ns THEN f.file END AS file,
    f.ops AS ops,
    CAST(NULL AS BIGINT) AS bytes,
    f.cost_ns AS cost_ns,
    f.start_ts AS start_ts,
    f.end_ts AS end_ts,
    concat(
        'Mostly ',
        CASE WHEN f.work = 'compute' THEN 'it computes' ELSE concat('it is in ', f.call, coalesce(concat(' of ', f.path), '')) END,
        ' meanwhile (', printf('%,.3f', CAST(f.most_ns / 1e9 AS DECIMAL(18, 3))), ' s of it), more than those who wait do themselves; ',
        printf('%,d', f.ops), ' waits of ', printf('%,d', f.others), ' threads, the longest ',
        printf('%,.1f', CAST(f.max_ns / 1e6 AS DECIMAL(18, 1))), ' ms. Of ', printf('%,.3f', CAST(f.waited_ns / 1e9 AS DECIMAL(18, 3))),
        ' s that the threads which take part waited, nothing recorded explains ',
        printf('%,d', CAST(round(1e2 * f.unexplained_ns / NULLIF(f.waited_ns, 0)) AS BIGINT)), ' %.'
    ) AS evidence,
    CASE
        WHEN 2 * f.lock_ns >= f.excess_ns
            THEN 'Hold the lock for less: do I/O and computing before or after it, split it, or hand the work to one thread by a queue.'
        WHEN f.work = 'compute'
            THEN concat(
                    'Share its computing out: give it less of the data, or split its part; if it has as much as the others, look at its machine ',
                    '(other load, frequency, memory of another NUMA node).'
                )
        ELSE concat(
                'Let the others go on meanwhile: share these calls out (MPI_File_write_all, a file or range for each), do them in a thread of ',
                'their own or asynchronously (MPI_File_iwrite_at, io_uring), or put the file on faster storage; iotrail whatif run --io says what ',
                'that would bring.'
            )
    END AS advice
FROM found AS f
CROSS JOIN params AS p
CROSS JOIN effort AS e
WHERE f.unexplained_ns <= (1 - p.explained_share) * f.waited_ns
    AND f.cost_ns >= p.medium_share * e.wall_ns

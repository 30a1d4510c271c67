-- One slow thread: among the threads of a process that do I/O, one spends far more time in it than the
-- typical one, and the work that was split among them ends when it ends.
--
-- Compared are threads that do I/O side by side: from the first to the last operation, half of the shorter span lies
-- in that of the slowest thread. Those that have other tasks don't count: they do I/O for less than a tenth of the slowest
-- thread's time, or less than a fiftieth if it goes into the same call.
--
-- @param min_share DOUBLE 0.01: a smaller share of the working time is no finding
-- @param medium_share DOUBLE 0.05: share of the working time from which a finding is medium
-- @param high_share DOUBLE 0.2: share of the working time from which a finding is high
-- @param peers BIGINT 4: fewer processes or threads side by side are not compared
-- @param straggler_ratio DOUBLE 1.5: time of the slowest in medians of its peers from which it lags;
--     Drishti (imbalance_stragglers) takes 0.15 of the slowest, on shared files only
-- @requires activity, effort
WITH did AS (
    SELECT
        process,
        process_name,
        thread,
        CAST(sum(io_ns) AS BIGINT) AS io_ns,
        CAST(sum(CASE WHEN kind IN ('read', 'write') THEN bytes ELSE 0 END) AS BIGINT) AS bytes,
        CAST(sum(ops) AS BIGINT) AS ops,
        -- the call that takes most of its time
        max_by(call, concat(lpad(CAST(io_ns AS VARCHAR), 20, '0'), call)) AS call,
        min(start_ts) AS start_ts,
        max(end_ts) AS end_ts
    FROM (
        SELECT
            process, process_name, thread, call, kind,
            CAST(sum(io_ns) AS BIGINT) AS io_ns, CAST(sum(bytes) AS BIGINT) AS bytes, CAST(sum(ops) AS BIGINT) AS ops,
            min(start_ts) AS start_ts, max(end_ts) AS end_ts
        FROM activity
        GROUP BY process, process_name, thread, call, kind
    ) AS made
    GROUP BY process, process_name, thread
),

slowest AS (
    SELECT
        process,
        max_by(thread, concat(lpad(CAST(io_ns AS VARCHAR), 20, '0'), CAST(thread AS VARCHAR))) AS thread
    FROM did
    GROUP BY process
),

-- the file that takes most of each thread's time
held AS (
    SELECT
        process,
        thread,
        max_by(file, concat(lpad(CAST(io_ns AS VARCHAR), 20, '0'), path)) AS file,
        max_by(path, concat(lpad(CAST(io_ns AS VARCHAR), 20, '0'), path)) AS path
    FROM (
        SELECT process, thread, file, path, CAST(sum(io_ns) AS BIGINT) AS io_ns
        FROM activity
        GROUP BY process, thread, file, path
    ) AS used
    GROUP BY process, thread
),

found AS (
    SELECT
        m.process,
        m.process_name,
        m.thread,
        m.ops,
        m.bytes,
        m.start_ts,
        m.end_ts,
        m.io_ns AS slow_ns,
        count(*) AS threads,
        CAST(percentile_cont(0.5) WITHIN GROUP (ORDER BY o.io_ns) AS DOUBLE) AS median_ns,
        CAST(percentile_cont(0.5) WITHIN GROUP (ORDER BY o.ops) AS DOUBLE) AS median_ops,
        CAST(floor(m.io_ns - percentile_cont(0.5) WITHIN GROUP (ORDER BY o.io_ns)) AS BIGINT) AS cost_ns
    FROM slowest AS s
    INNER JOIN did AS m ON m.process = s.process AND m.thread = s.thread
    INNER JOIN did AS o ON o.process = m.process AND CASE WHEN o.call = m.call THEN 5e1 ELSE 1e1 END * o.io_ns >= m.io_ns
    WHERE 2e0 * (least(o.end_ts, m.end_ts) - greatest(o.start_ts, m.start_ts))
        >= least(o.end_ts - o.start_ts, m.end_ts - m.start_ts)
    GROUP BY m.process, m.process_name, m.thread, m.ops, m.bytes, m.start_ts, m.end_ts, m.io_ns
)

SELECT
    'slow_thread' AS finding,
    CASE
        WHEN f.cost_ns >= p.high_share * e.wall_ns THEN 'high'
        WHEN f.cost_ns >= p.medium_share * e.wall_ns THEN 'medium'
        ELSE 'low'
    END AS severity,
    concat(
        f.process_name, ': one of ', printf('%,d', f.threads), ' threads spends ',
        printf('%,.3f', CAST(f.slow_ns / 1e9 AS DECIMAL(18, 3))), ' s in I/O, the typical one ',
        printf('%,.3f', CAST(f.median_ns / 1e9 AS DECIMAL(18, 3))), ' s.'
    ) AS title,
    f.process_name AS program,
    f.process AS process,
    f.thread AS thread,
    h.file AS file,
    f.ops AS ops,
    f.bytes AS bytes,
    f.cost_ns AS cost_ns,
    f.start_ts AS start_ts,
    f.end_ts AS end_ts,
    concat(
        'It made ', printf('%,d', f.ops), ' calls, ',
        printf('%,.1f', CAST(f.slow_ns / NULLIF(f.ops, 0) / 1e3 AS DECIMAL(18, 1))),
        ' µs each (the typical one ', printf('%,.1f', CAST(f.median_ops AS DECIMAL(18, 1))),
        ' calls), and moved ', printf('%,.1f', CAST(f.bytes / 1048576e0 AS DECIMAL(18, 1))), ' MiB, most with ',
        h.path, '.'
    ) AS evidence,
    concat(
        'More calls than the others: cut the work into smaller pieces that threads fetch when they ',
        'are done (a queue, guided scheduling) instead of equal shares. As many but slower: its ',
        'files or its range lie on slower or busier storage; spread them.'
    ) AS advice
FROM found AS f
INNER JOIN held AS h ON h.process = f.process AND h.thread = f.thread
CROSS JOIN params AS p
CROSS JOIN effort AS e
WHERE f.threads >= p.peers
    AND f.slow_ns >= p.straggler_ratio * f.median_ns
    AND f.cost_ns >= p.min_share * e.wall_ns

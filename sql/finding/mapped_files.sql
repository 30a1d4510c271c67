-- I/O of mapped files that no call shows: a page fault reads from storage without a call, and dirty pages
-- are written by the kernel.
--
-- Reported if processes had many major faults (each read from storage), or, where the trail doesn't know
-- faults, if far more was mapped than the calls moved. The cost is the time in page faults that module `time_split` has
-- (`fault_ns`), if the threads counted at least half of the process's faults (`thread_time`); then less than `min_share`
-- of the working time is no finding. Without it the cost is what is left of the process's life when its calls, waits
-- and CPU time in the program are taken off: what the kernel took for the faults, and waiting for a CPU; null where
-- the recording doesn't know the CPU time, or where a process has several threads.
--
-- @param min_share DOUBLE 0.01: share of the working time below which a finding is none
-- @param medium_share DOUBLE 0.05: share of the working time from which a finding is medium
-- @param high_share DOUBLE 0.2: share of the working time from which a finding is high
-- @param mapped_bytes BIGINT 67108864 bytes: fewer bytes of mapped files are no finding
-- @param fault_times BIGINT 1000: fewer major page faults are no finding
-- @requires unseen, process, time_split, thread_time, file, activity, effort
WITH mapped AS (
    SELECT
        u.node,
        u.process,
        CAST(sum(u.amount) AS BIGINT) AS bytes,
        max_by(u.file, concat(lpad(CAST(u.amount AS VARCHAR), 20, '0'), coalesce(f.path, ''))) AS file,
        max_by(f.path, concat(lpad(CAST(u.amount AS VARCHAR), 20, '0'), coalesce(f.path, ''))) AS path
    FROM unseen AS u
    LEFT JOIN (SELECT node, file, max(path) AS path FROM file GROUP BY node, file) AS f ON f.node = u.node AND f.file = u.file
    WHERE u.kind = 'mapped_file'
    GROUP BY u.node, u.process
),

lived AS (
    SELECT
        t.node,
        t.process,
        count(*) AS threads,
        CAST(sum(t.life_ns - t.io_ns - t.sync_ns) AS BIGINT) AS rest_ns,
        CAST(sum(t.fault_ns) AS BIGINT) AS fault_ns,
        CAST(sum(c.faults) AS BIGINT) AS faults
    FROM time_split AS t
    LEFT JOIN (
        SELECT thread, CAST(sum(major_faults) AS BIGINT) AS faults
        FROM thread_time
        WHERE source = 'thread'
        GROUP BY thread
    ) AS c ON c.thread = t.thread
    GROUP BY t.node, t.process
),

lost AS (
    SELECT
        coalesce(p.name, 'unknown process') AS process_name,
        p.node,
        p.process,
        p.start_ts,
        p.end_ts,
        coalesce(p.major_faults, l.faults) AS faults,
        2 * l.faults >= coalesce(p.major_faults, l.faults) AS times_faults,
        CASE
            WHEN 2 * l.faults >= coalesce(p.major_faults, l.faults) THEN l.fault_ns
            WHEN l.threads = 1 THEN greatest(0, l.rest_ns - p.user_ns)
        END AS cost_ns
    FROM process AS p
    LEFT JOIN lived AS l ON l.node = p.node AND l.process = p.process
),

seen AS (
    SELECT CAST(coalesce(sum(bytes), 0) AS BIGINT) AS bytes FROM activity
),

found AS (
    SELECT
        p.process_name,
        CASE WHEN min(p.process) = max(p.process) THEN min(p.process) END AS process,
        CAST(sum(p.faults) AS BIGINT) AS faults,
        -- whether each process's cost is time that was spent in page faults
        min(CASE WHEN p.cost_ns IS NULL OR p.faults = 0 OR p.times_faults THEN 1 ELSE 0 END) = 1 AS times_faults,
        CAST(sum(coalesce(m.bytes, 0)) AS BIGINT) AS bytes,
        max_by(m.file, lpad(CAST(coalesce(m.bytes, 0) AS VARCHAR), 20, '0')) AS file,
        max_by(m.path, lpad(CAST(coalesce(m.bytes, 0) AS VARCHAR), 20, '0')) AS path,
        CAST(sum(p.cost_ns) AS BIGINT) AS cost_ns,
        min(p.start_ts) AS start_ts,
        max(coalesce(p.end_ts, p.start_ts)) AS end_ts,
        max(s.bytes) AS seen_bytes
    FROM lost AS p
    LEFT JOIN mapped AS m ON m.node = p.node AND m.process = p.process
    CROSS JOIN seen AS s
    GROUP BY p.process_name
)

SELECT
    'mapped_files' AS finding,
    CASE
        WHEN f.cost_ns >= p.high_share * e.work_ns THEN 'high'
        WHEN f.cost_ns >= p.medium_share * e.work_ns THEN 'medium'
        WHEN f.cost_ns IS NULL AND f.faults >= 10 * p.fault_times THEN 'medium'
        ELSE 'low'
    END AS severity,
    concat(
        f.process_name, ': mapped files of ', printf('%,.1f', CAST(f.bytes / 1048576e0 AS DECIMAL(18, 1))),
        ' MiB', CASE WHEN f.path IS NULL THEN '' ELSE concat(', most of it ', f.path, ',') END, ' cause I/O that no call shows',
        CASE WHEN f.faults IS NULL THEN '' ELSE concat(', with ', printf('%,d', f.faults), ' faults that read from storage') END,
        '.'
    ) AS title,
    f.process_name AS program,
    f.process AS process,
    CAST(NULL AS BIGINT) AS thread,
    f.file AS file,
    f.faults AS ops,
    f.bytes AS bytes,
    CASE WHEN f.faults IS NOT NULL THEN f.cost_ns END AS cost_ns,
    f.start_ts AS start_ts,
    f.end_ts AS end_ts,
    concat(
        'Mapped: ', printf('%,.1f', CAST(f.bytes / 1048576e0 AS DECIMAL(18, 1))),
        ' MiB; moved by calls that were seen, of all programs: ',
        printf('%,.1f', CAST(f.seen_bytes / 1048576e0 AS DECIMAL(18, 1))), ' MiB',
        CASE
            WHEN f.faults IS NULL OR f.cost_ns IS NULL THEN ''
            ELSE concat(
                    CASE
                        WHEN f.times_faults THEN '; waiting for storage in page faults: '
                        ELSE '; neither in calls nor on a CPU in the program: '
                    END,
                    printf('%,.3f', CAST(f.cost_ns / 1e9 AS DECIMAL(18, 3))), ' s'
                )
        END, '.'
    ) AS evidence,
    concat(
        'Record with --kernel to see the disk requests behind them. For fewer faults: ',
        'madvise(MADV_WILLNEED) or MAP_POPULATE before the pages are needed, MADV_RANDOM or ',
        'MADV_SEQUENTIAL for the pattern, huge pages; or read into a buffer of one’s own, where ',
        'errors and latency are visible.'
    ) AS advice
FROM found AS f
CROSS JOIN params AS p
CROSS JOIN effort AS e
WHERE (f.faults >= p.fault_times AND NOT coalesce(f.times_faults AND f.cost_ns < p.min_share * e.work_ns, FALSE))
    OR (f.faults IS NULL AND f.bytes >= p.mapped_bytes AND f.bytes >= f.seen_bytes)

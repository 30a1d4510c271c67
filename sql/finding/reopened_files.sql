-- The same file opened again and again by one process: each open walks the path, checks permissions and
-- allocates a descriptor; on NFS it asks the server (close-to-open consistency), on Lustre the metadata
-- server. The first open of each file is not counted as cost.
--
-- @param min_share DOUBLE 0.01: a smaller share of the working time is no finding
-- @param medium_share DOUBLE 0.05: share of the working time from which a finding is medium
-- @param high_share DOUBLE 0.2: share of the working time from which a finding is high
-- @param pattern_ops BIGINT 100: fewer occurrences of a pattern that is wrong by itself are no finding
-- @param reopen_times BIGINT 10: opens of one file by one process from which they count as repeated
-- @requires activity, effort
WITH reopened AS (
    SELECT
        process_name,
        process,
        file,
        path,
        CAST(sum(CASE WHEN call IN ('open', 'creat', 'fopen') THEN ops - failed ELSE 0 END) AS BIGINT) AS ops,
        CAST(sum(io_ns) AS BIGINT) AS cost_ns,
        min(start_ts) AS start_ts,
        max(end_ts) AS end_ts
    FROM activity
    WHERE call IN ('open', 'creat', 'fopen', 'close', 'fclose') AND file IS NOT NULL
    GROUP BY process_name, process, file, path
    HAVING sum(CASE WHEN call IN ('open', 'creat', 'fopen') THEN ops - failed ELSE 0 END) >= (SELECT reopen_times FROM params)
),

per_file AS (
    SELECT
        process_name,
        file,
        path,
        min(process) AS process_min,
        max(process) AS process_max,
        CAST(sum(ops) AS BIGINT) AS ops,
        CAST(floor(sum(1e0 * cost_ns * (ops - 1) / ops)) AS BIGINT) AS cost_ns,
        min(start_ts) AS start_ts,
        max(end_ts) AS end_ts
    FROM reopened
    GROUP BY process_name, file, path
),

found AS (
    SELECT
        process_name,
        CASE WHEN min(process_min) = max(process_max) THEN min(process_min) END AS process,
        CASE
            WHEN 2 * max(cost_ns) >= sum(cost_ns)
                THEN max_by(file, concat(lpad(CAST(cost_ns AS VARCHAR), 20, '0'), path))
        END AS file,
        CASE
            WHEN count(*) = 1 THEN max(path)
            ELSE concat(
                CAST(count(*) AS VARCHAR), ' files, most in ',
                max_by(path, concat(lpad(CAST(cost_ns AS VARCHAR), 20, '0'), path))
            )
        END AS place,
        count(*) AS files,
        CAST(sum(ops) AS BIGINT) AS ops,
        CAST(sum(cost_ns) AS BIGINT) AS cost_ns,
        min(start_ts) AS start_ts,
        max(end_ts) AS end_ts
    FROM per_file
    GROUP BY process_name
)

SELECT
    'reopened_files' AS finding,
    CASE
        WHEN f.cost_ns >= p.high_share * e.work_ns THEN 'high'
        WHEN f.cost_ns >= p.medium_share * e.work_ns THEN 'medium'
        ELSE 'low'
    END AS severity,
    concat(
        f.process_name, ': ', f.place, ' opened ', CAST(f.ops AS VARCHAR),
        ' times; opening and closing again takes ',
        CAST(CAST(round(1e2 * f.cost_ns / e.work_ns) AS BIGINT) AS VARCHAR), ' % of the working time.'
    ) AS title,
    f.process AS process,
    CAST(NULL AS BIGINT) AS thread,
    f.file AS file,
    f.ops AS ops,
    CAST(NULL AS BIGINT) AS bytes,
    f.cost_ns AS cost_ns,
    f.start_ts AS start_ts,
    f.end_ts AS end_ts,
    concat(
        CAST(f.ops AS VARCHAR), ' opens of ', CAST(f.files AS VARCHAR), ' files that one process opened ',
        CAST(p.reopen_times AS VARCHAR), ' times or more; ',
        CAST(CAST(f.cost_ns / 1e9 AS DECIMAL(18, 3)) AS VARCHAR), ' s in open and close after the first.'
    ) AS evidence,
    concat(
        'Open once and keep the descriptor: pread and pwrite let threads share it. Cache handles by ',
        'path (nginx: open_file_cache; Python: open outside the loop; shell: redirect the whole ',
        'loop, done >> file, instead of each command). Processes that need it one after the other: ',
        'pass the descriptor on.'
    ) AS advice
FROM found AS f
CROSS JOIN params AS p
CROSS JOIN effort AS e
WHERE f.ops >= p.pattern_ops
    AND f.cost_ns >= p.min_share * e.work_ns

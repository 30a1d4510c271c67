-- sync or syncfs: makes whole file systems durable, and so waits for the dirty data of every other program
-- too. The time it takes depends on the neighbours, not on the caller.
--
-- @param min_share DOUBLE 0.01: a smaller share of the working time is no finding
-- @param medium_share DOUBLE 0.05: share of the working time from which a finding is medium
-- @param high_share DOUBLE 0.2: share of the working time from which a finding is high
-- @requires activity, effort
WITH per_file AS (
    SELECT
        process_name,
        file,
        path,
        min(process) AS process_min,
        max(process) AS process_max,
        CAST(sum(ops) AS BIGINT) AS ops,
        CAST(sum(io_ns) AS BIGINT) AS cost_ns,
        min(start_ts) AS start_ts,
        max(end_ts) AS end_ts
    FROM activity
    WHERE call = 'sync'
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
    'system_sync' AS finding,
    CASE
        WHEN f.cost_ns >= p.high_share * e.work_ns THEN 'high'
        WHEN f.cost_ns >= p.medium_share * e.work_ns THEN 'medium'
        ELSE 'low'
    END AS severity,
    concat(
        f.process_name, ': ', CAST(f.ops AS VARCHAR), ' calls of sync for whole file systems take ',
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
        CAST(CAST(f.cost_ns / NULLIF(f.ops, 0) / 1e6 AS DECIMAL(18, 1)) AS VARCHAR), ' ms each, ',
        CAST(CAST(f.cost_ns / 1e9 AS DECIMAL(18, 3)) AS VARCHAR), ' s in all.'
    ) AS evidence,
    concat(
        'Flush what was written: fsync the files and the directory they were created in. Scripts: ',
        'sync FILE (coreutils, since 8.24) instead of sync; dpkg: --force-unsafe-io, or eatmydata ',
        'where the result may be lost.'
    ) AS advice
FROM found AS f
CROSS JOIN params AS p
CROSS JOIN effort AS e
WHERE f.ops > 0
    AND f.cost_ns >= p.min_share * e.work_ns

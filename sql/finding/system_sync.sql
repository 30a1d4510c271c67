-- sync or syncfs: makes whole file systems durable, and so waits for the dirty data of every other program
-- too. The time it takes depends on the neighbours, not on the caller.
--
-- @param min_share DOUBLE 0.01: a smaller share of the working time is no finding
-- @param medium_share DOUBLE 0.05: share of the working time from which a finding is medium
-- @param high_share DOUBLE 0.2: share of the working time from which a finding is high
-- @requires effort, program_pattern
SELECT
    'system_sync' AS finding,
    CASE
        WHEN f.cost_ns >= p.high_share * e.work_ns THEN 'high'
        WHEN f.cost_ns >= p.medium_share * e.work_ns THEN 'medium'
        ELSE 'low'
    END AS severity,
    concat(
        f.process_name, ': ', printf('%,d', f.ops), ' calls of sync for whole file systems take ',
        printf('%,d', CAST(round(1e2 * f.cost_ns / e.work_ns) AS BIGINT)), ' % of the working time.'
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
        printf('%,.1f', CAST(f.cost_ns / NULLIF(f.ops, 0) / 1e6 AS DECIMAL(18, 1))), ' ms each, ',
        printf('%,.3f', CAST(f.cost_ns / 1e9 AS DECIMAL(18, 3))), ' s in all.'
    ) AS evidence,
    concat(
        'Flush what was written: fsync the files and the directory they were created in. Scripts: ',
        'sync FILE (coreutils, since 8.24) instead of sync; dpkg: --force-unsafe-io, or eatmydata ',
        'where the result may be lost.'
    ) AS advice
FROM program_pattern AS f
CROSS JOIN params AS p
CROSS JOIN effort AS e
WHERE f.pattern = 'system_sync'
    AND f.cost_ns >= p.min_share * e.work_ns

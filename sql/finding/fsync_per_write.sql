-- A flush after (nearly) every small write: durability is bought piece by piece. N records cost N flushes,
-- where a group commit costs one for all that arrived meanwhile.
--
-- Counted are files with a flush for at least every second write, whose writes are small on average.
-- Writes through O_SYNC are `finding_synchronous_writes`.
--
-- @param min_share DOUBLE 0.01: a smaller share of the working time is no finding
-- @param medium_share DOUBLE 0.05: share of the working time from which a finding is medium
-- @param high_share DOUBLE 0.2: share of the working time from which a finding is high
-- @param small_bytes BIGINT 131072 bytes: a request of fewer bytes is small
-- @param pattern_ops BIGINT 100: fewer occurrences of a pattern that is wrong by itself are no finding
-- @requires activity, effort
WITH per_file AS (
    SELECT
        process_name,
        file,
        path,
        min(process) AS process_min,
        max(process) AS process_max,
        CAST(sum(CASE WHEN kind <> 'write' THEN ops ELSE 0 END) AS BIGINT) AS ops,
        CAST(sum(CASE WHEN kind = 'write' THEN ops ELSE 0 END) AS BIGINT) AS writes,
        CAST(sum(CASE WHEN kind = 'write' THEN bytes ELSE 0 END) AS BIGINT) AS bytes,
        CAST(sum(CASE WHEN kind <> 'write' THEN io_ns ELSE 0 END) AS BIGINT) AS cost_ns,
        min(start_ts) AS start_ts,
        max(end_ts) AS end_ts
    FROM activity
    WHERE kind = 'write' OR call IN ('fsync', 'fdatasync', 'sync_file_range', 'msync')
    GROUP BY process_name, file, path
    HAVING 2 * sum(CASE WHEN kind <> 'write' THEN ops ELSE 0 END)
        >= sum(CASE WHEN kind = 'write' THEN ops ELSE 0 END)
        AND sum(CASE WHEN kind = 'write' THEN ops ELSE 0 END) > 0
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
        CAST(sum(writes) AS BIGINT) AS writes,
        CAST(sum(bytes) AS BIGINT) AS bytes,
        CAST(sum(cost_ns) AS BIGINT) AS cost_ns,
        min(start_ts) AS start_ts,
        max(end_ts) AS end_ts
    FROM per_file
    GROUP BY process_name
)

SELECT
    'fsync_per_write' AS finding,
    CASE
        WHEN f.cost_ns >= p.high_share * e.work_ns THEN 'high'
        WHEN f.cost_ns >= p.medium_share * e.work_ns THEN 'medium'
        ELSE 'low'
    END AS severity,
    concat(
        f.process_name, ': ', CAST(f.ops AS VARCHAR), ' flushes for ', CAST(f.writes AS VARCHAR),
        ' writes of ', CAST(CAST(round(1e0 * f.bytes / NULLIF(f.writes, 0)) AS BIGINT) AS VARCHAR),
        ' bytes to ', f.place, ' take ', CAST(CAST(round(1e2 * f.cost_ns / e.work_ns) AS BIGINT) AS VARCHAR),
        ' % of the working time.'
    ) AS title,
    f.process AS process,
    CAST(NULL AS BIGINT) AS thread,
    f.file AS file,
    f.ops AS ops,
    f.bytes AS bytes,
    f.cost_ns AS cost_ns,
    f.start_ts AS start_ts,
    f.end_ts AS end_ts,
    concat(
        CAST(f.ops AS VARCHAR), ' flushes, one for each ',
        CAST(CAST(1e0 * f.writes / NULLIF(f.ops, 0) AS DECIMAL(18, 1)) AS VARCHAR), ' writes, ',
        CAST(CAST(f.cost_ns / NULLIF(f.ops, 0) / 1e3 AS DECIMAL(18, 1)) AS VARCHAR), ' µs each, ',
        CAST(CAST(f.cost_ns / 1e9 AS DECIMAL(18, 3)) AS VARCHAR), ' s in all, for ',
        CAST(CAST(f.bytes / 1048576e0 AS DECIMAL(18, 1)) AS VARCHAR), ' MiB.'
    ) AS evidence,
    concat(
        'Group commits: collect the records that arrive while a flush runs, write them together, ',
        'flush once (PostgreSQL does with commit_delay, MySQL with binlog_group_commit_sync_delay). ',
        'SQLite: one transaction for many inserts. If a record may be lost in a crash, flush by time ',
        '(every second) instead of by record.'
    ) AS advice
FROM found AS f
CROSS JOIN params AS p
CROSS JOIN effort AS e
WHERE f.writes >= p.pattern_ops
    AND f.bytes < p.small_bytes * f.writes
    AND f.cost_ns >= p.min_share * e.work_ns

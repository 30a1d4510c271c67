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
-- @requires effort, program_pattern
SELECT
    'fsync_per_write' AS finding,
    CASE
        WHEN f.cost_ns >= p.high_share * e.work_ns THEN 'high'
        WHEN f.cost_ns >= p.medium_share * e.work_ns THEN 'medium'
        ELSE 'low'
    END AS severity,
    concat(
        f.process_name, ': ', printf('%,d', f.ops), ' flushes for ', printf('%,d', f.all_ops),
        ' writes of ', printf('%,d', CAST(round(1e0 * f.bytes / NULLIF(f.all_ops, 0)) AS BIGINT)),
        ' bytes to ', f.place, ' take ', printf('%,d', CAST(round(1e2 * f.cost_ns / e.work_ns) AS BIGINT)),
        ' % of the working time.'
    ) AS title,
    f.process_name AS program,
    f.process AS process,
    CAST(NULL AS BIGINT) AS thread,
    f.file AS file,
    f.ops AS ops,
    f.bytes AS bytes,
    f.cost_ns AS cost_ns,
    f.start_ts AS start_ts,
    f.end_ts AS end_ts,
    concat(
        printf('%,d', f.ops), ' flushes, one for each ',
        printf('%,.1f', CAST(1e0 * f.all_ops / NULLIF(f.ops, 0) AS DECIMAL(18, 1))), ' writes, ',
        printf('%,.1f', CAST(f.cost_ns / NULLIF(f.ops, 0) / 1e3 AS DECIMAL(18, 1))), ' µs each, ',
        printf('%,.3f', CAST(f.cost_ns / 1e9 AS DECIMAL(18, 3))), ' s in all, for ',
        printf('%,.1f', CAST(f.bytes / 1048576e0 AS DECIMAL(18, 1))), ' MiB.'
    ) AS evidence,
    concat(
        'Group commits: collect the records that arrive while a flush runs, write them together, ',
        'flush once (PostgreSQL does with commit_delay, MySQL with binlog_group_commit_sync_delay). ',
        'SQLite: one transaction for many inserts. If a record may be lost in a crash, flush by time ',
        '(every second) instead of by record.'
    ) AS advice
FROM program_pattern AS f
CROSS JOIN params AS p
CROSS JOIN effort AS e
WHERE f.pattern = 'flush_per_write'
    AND f.all_ops >= p.pattern_ops
    AND f.bytes < p.small_bytes * f.all_ops
    AND f.cost_ns >= p.min_share * e.work_ns

-- Small writes through O_SYNC or O_DSYNC: each write waits until it is durable, as if a flush followed it
-- (open(2)). It costs what a flush costs, whatever the size.
--
-- Counted are files that a program opened with either flag and whose writes are small on average. A flush
-- after each write is `finding_fsync_per_write`.
--
-- @param min_share DOUBLE 0.01: a smaller share of the working time is no finding
-- @param medium_share DOUBLE 0.05: share of the working time from which a finding is medium
-- @param high_share DOUBLE 0.2: share of the working time from which a finding is high
-- @param small_bytes BIGINT 131072 bytes: a request of fewer bytes is small
-- @param pattern_ops BIGINT 100: fewer occurrences of a pattern that is wrong by itself are no finding
-- @requires effort, program_pattern
SELECT
    'synchronous_writes' AS finding,
    CASE
        WHEN f.cost_ns >= p.high_share * e.work_ns THEN 'high'
        WHEN f.cost_ns >= p.medium_share * e.work_ns THEN 'medium'
        ELSE 'low'
    END AS severity,
    concat(
        f.process_name, ': ', printf('%,d', f.ops), ' writes of ',
        printf('%,d', CAST(round(1e0 * f.bytes / NULLIF(f.ops, 0)) AS BIGINT)), ' bytes to ', f.place,
        ', each made durable (O_SYNC or O_DSYNC), take ',
        printf('%,d', CAST(round(1e2 * f.cost_ns / e.work_ns) AS BIGINT)), ' % of the working time.'
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
        printf('%,.1f', CAST(f.cost_ns / NULLIF(f.ops, 0) / 1e3 AS DECIMAL(18, 1))), ' µs each, ',
        printf('%,.3f', CAST(f.cost_ns / 1e9 AS DECIMAL(18, 3))), ' s in all, for ',
        printf('%,.1f', CAST(f.bytes / 1048576e0 AS DECIMAL(18, 1))), ' MiB.'
    ) AS evidence,
    concat(
        'Open without O_SYNC and call fdatasync at the points that must survive a crash, or gather ',
        'records into writes of 128 KiB or more. PostgreSQL: compare wal_sync_method=fdatasync with ',
        'open_datasync by pg_test_fsync. O_DSYNC is enough where O_SYNC is set: it leaves out times ',
        'and attributes.'
    ) AS advice
FROM program_pattern AS f
CROSS JOIN params AS p
CROSS JOIN effort AS e
WHERE f.pattern = 'synchronous'
    AND f.ops >= p.pattern_ops
    AND f.bytes < p.small_bytes * f.ops
    AND f.cost_ns >= p.min_share * e.work_ns

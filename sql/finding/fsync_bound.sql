-- Bound by flushes: the program waits for fsync, fdatasync or msync again and again, with little data each
-- time. A flush takes a disk a revolution or two (8 ms at 7,200/min), a consumer SSD milliseconds, a drive
-- with power-loss protection some 50 µs; the amount of data hardly matters. So it is their number that
-- costs.
--
-- Flushes with `flush_bytes` or more each are limited by bandwidth and no finding: 1 MiB takes a disk
-- about as long to write (10 ms at 100 MB/s) as the flush itself. SQLite, "Atomic Commit" and PRAGMA
-- synchronous; PostgreSQL, "Reliability and the Write-Ahead Log".
--
-- @param min_share DOUBLE 0.01: a smaller share of the working time is no finding
-- @param medium_share DOUBLE 0.05: share of the working time from which a finding is medium
-- @param high_share DOUBLE 0.2: share of the working time from which a finding is high
-- @param pattern_ops BIGINT 100: fewer occurrences of a pattern that is wrong by itself are no finding
-- @param flush_bytes BIGINT 1048576 bytes: flushes of this much data each are limited by bandwidth
-- @requires effort, program_pattern
SELECT
    'fsync_bound' AS finding,
    CASE
        WHEN f.cost_ns >= p.high_share * e.work_ns THEN 'high'
        WHEN f.cost_ns >= p.medium_share * e.work_ns THEN 'medium'
        ELSE 'low'
    END AS severity,
    concat(
        f.process_name, ': ', printf('%,d', f.ops), ' flushes of ', f.place, ', ',
        printf('%,d', CAST(round(1e0 * f.bytes / NULLIF(f.ops, 0)) AS BIGINT)), ' bytes each, take ',
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
        printf('%,d', f.ops), ' calls of fsync, fdatasync, sync_file_range or msync, ',
        printf('%,.1f', CAST(f.cost_ns / NULLIF(f.ops, 0) / 1e3 AS DECIMAL(18, 1))), ' µs each, ',
        printf('%,.3f', CAST(f.cost_ns / 1e9 AS DECIMAL(18, 3))), ' s in all, for ',
        printf('%,.1f', CAST(f.bytes / 1048576e0 AS DECIMAL(18, 1))), ' MiB in ', printf('%,d', f.all_ops),
        ' writes.'
    ) AS evidence,
    concat(
        'Flush once for many changes: one transaction for many statements (SQLite: BEGIN … COMMIT, ',
        'PRAGMA journal_mode=WAL with synchronous=NORMAL; PostgreSQL: commit_delay, ',
        'synchronous_commit=off for what may be lost, compare wal_sync_method with pg_test_fsync; ',
        'Redis: appendfsync everysec). Put the log on a drive with power-loss protection. fdatasync ',
        'instead of fsync on a preallocated file saves the journal’s commit.'
    ) AS advice
FROM program_pattern AS f
CROSS JOIN params AS p
CROSS JOIN effort AS e
WHERE f.pattern = 'flush'
    AND f.ops >= p.pattern_ops
    AND f.bytes < p.flush_bytes * f.ops
    AND f.cost_ns >= p.min_share * e.work_ns

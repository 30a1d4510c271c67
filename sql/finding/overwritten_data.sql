-- Written more than once: the bytes written to a file are several times the bytes that end up in it. The
-- same places are overwritten, or the whole file is rewritten for a small change. On flash this is wear as
-- well as time.
--
-- The union of all writes to a file is exact; the cost is the writing time in the share of the bytes that
-- are not in it. A circular log (a WAL that is recycled) is overwritten by design.
--
-- @param min_share DOUBLE 0.01: a smaller share of the working time is no finding
-- @param medium_share DOUBLE 0.05: share of the working time from which a finding is medium
-- @param high_share DOUBLE 0.2: share of the working time from which a finding is high
-- @param pattern_ops BIGINT 100: fewer occurrences of a pattern that is wrong by itself are no finding
-- @param overwrite_ratio DOUBLE 2: bytes written for each byte that ends up in the file, from which it is a
--     finding
-- @requires effort, program_pattern
SELECT
    'overwritten_data' AS finding,
    CASE
        WHEN f.cost_ns >= p.high_share * e.work_ns THEN 'high'
        WHEN f.cost_ns >= p.medium_share * e.work_ns THEN 'medium'
        ELSE 'low'
    END AS severity,
    concat(
        f.process_name, ': ', printf('%,.1f', CAST(f.bytes / 1048576e0 AS DECIMAL(18, 1))),
        ' MiB written for ', printf('%,.1f', CAST(f.touched_bytes / 1048576e0 AS DECIMAL(18, 1))),
        ' MiB of data in ', f.place, '; overwriting takes ',
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
        printf('%,d', f.ops), ' writes; ',
        printf('%,.1f', CAST(1e0 * f.bytes / NULLIF(f.touched_bytes, 0) AS DECIMAL(18, 1))),
        ' bytes written for each byte of the file; overwriting took ',
        printf('%,.3f', CAST(f.cost_ns / 1e9 AS DECIMAL(18, 3))), ' s.'
    ) AS evidence,
    concat(
        'Change only what changed (pwrite of the record instead of the whole file), gather changes ',
        'in memory and write a block once, or append and compact later. Databases: longer checkpoint ',
        'intervals (PostgreSQL: checkpoint_timeout, max_wal_size; SQLite: PRAGMA ',
        'wal_autocheckpoint). Logs and counters: write at intervals, not at each change.'
    ) AS advice
FROM program_pattern AS f
CROSS JOIN params AS p
CROSS JOIN effort AS e
WHERE f.pattern = 'overwritten'
    AND f.bytes >= p.overwrite_ratio * f.touched_bytes
    AND f.ops >= p.pattern_ops
    AND f.cost_ns >= p.min_share * e.work_ns

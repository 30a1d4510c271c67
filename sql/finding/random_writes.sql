-- Writes at random places: write-back can't merge them into long runs, a disk moves its head for each, an
-- SSD has to collect garbage behind them (write amplification inside the device). Drishti: P13.
--
-- A write that neither begins where the one before (same thread, same file) ended nor repeats its step
-- counts as random. Only those whose time matters are reported: random access to cached data costs
-- microseconds.
--
-- @param min_share DOUBLE 0.01: a smaller share of the working time is no finding
-- @param medium_share DOUBLE 0.05: share of the working time from which a finding is medium
-- @param high_share DOUBLE 0.2: share of the working time from which a finding is high
-- @param min_ops BIGINT 1000: fewer calls are no finding (Drishti, small_requests_absolute and
--     random_operations_absolute)
-- @param random_ratio DOUBLE 0.4: share of jumps that makes a pattern random; Drishti (random_operations)
--     takes 0.2 of backward steps, and half of random steps are backward
-- @requires effort, program_pattern
SELECT
    'random_writes' AS finding,
    CASE
        WHEN f.cost_ns >= p.high_share * e.work_ns THEN 'high'
        WHEN f.cost_ns >= p.medium_share * e.work_ns THEN 'medium'
        ELSE 'low'
    END AS severity,
    concat(
        f.process_name, ': ', printf('%,d', f.ops), ' writes at random places of ', f.place, ' take ',
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
        printf('%,d', f.ops), ' of ', printf('%,d', f.all_ops), ' writes (',
        printf('%,d', CAST(round(1e2 * f.ops / NULLIF(f.all_ops, 0)) AS BIGINT)), ' %) jump irregularly: ',
        printf('%,d', CAST(round(1e0 * f.bytes / NULLIF(f.ops, 0)) AS BIGINT)), ' bytes and ',
        printf('%,.1f', CAST(f.cost_ns / NULLIF(f.ops, 0) / 1e3 AS DECIMAL(18, 1))), ' µs each, ',
        printf('%,.1f', CAST(f.bytes / 1048576e0 AS DECIMAL(18, 1))), ' MiB and ',
        printf('%,.3f', CAST(f.cost_ns / 1e9 AS DECIMAL(18, 3))), ' s in all.'
    ) AS evidence,
    concat(
        'Collect changes and write them in order of offset; a log-structured layout (append, then ',
        'merge: LSM tree, SQLite PRAGMA journal_mode=WAL); let write-back merge by not forcing each ',
        'one out (no O_SYNC; PostgreSQL: longer checkpoint_timeout and larger max_wal_size).'
    ) AS advice
FROM program_pattern AS f
CROSS JOIN params AS p
CROSS JOIN effort AS e
WHERE f.pattern = 'random_writes'
    AND f.ops >= p.min_ops
    AND f.ops >= p.random_ratio * f.all_ops
    AND f.cost_ns >= p.min_share * e.work_ns

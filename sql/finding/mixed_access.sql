-- Reads and writes of one file take turns: each switch ends a run that read-ahead or write-back had
-- recognised, a disk moves its head between the two places, and file systems with locks (NFS, Lustre,
-- GPFS) give back a read lock for a write lock and the other way round.
--
-- Reads that are written back to the same place are `finding_read_modify_write` and don't count here.
--
-- @param min_share DOUBLE 0.01: a smaller share of the working time is no finding
-- @param medium_share DOUBLE 0.05: share of the working time from which a finding is medium
-- @param high_share DOUBLE 0.2: share of the working time from which a finding is high
-- @param min_ops BIGINT 1000: fewer calls are no finding (Drishti, small_requests_absolute and
--     random_operations_absolute)
-- @param switch_ratio DOUBLE 0.2: share of accesses that follow one of the other kind from which reads and
--     writes count as mixed
-- @requires effort, program_pattern
SELECT
    'mixed_access' AS finding,
    CASE
        WHEN f.cost_ns >= p.high_share * e.work_ns THEN 'high'
        WHEN f.cost_ns >= p.medium_share * e.work_ns THEN 'medium'
        ELSE 'low'
    END AS severity,
    concat(
        f.process_name, ': reads and writes alternate on ', f.place, ', ', printf('%,d', f.ops),
        ' times in ', printf('%,d', f.all_ops), ' accesses that take ',
        printf('%,d', CAST(round(1e2 * f.cost_ns / e.work_ns) AS BIGINT)), ' % of the working time.'
    ) AS title,
    f.process_name AS program,
    f.process AS process,
    CAST(NULL AS BIGINT) AS thread,
    f.file AS file,
    f.all_ops AS ops,
    f.bytes AS bytes,
    f.cost_ns AS cost_ns,
    f.start_ts AS start_ts,
    f.end_ts AS end_ts,
    concat(
        printf('%,d', f.part_ops), ' reads and ', printf('%,d', f.all_ops - f.part_ops), ' writes, ',
        printf('%,d', f.ops), ' switches between them, ',
        printf('%,.1f', CAST(f.bytes / 1048576e0 AS DECIMAL(18, 1))), ' MiB and ',
        printf('%,.3f', CAST(f.cost_ns / 1e9 AS DECIMAL(18, 3))), ' s in all, ',
        printf('%,.1f', CAST(f.cost_ns / NULLIF(f.all_ops, 0) / 1e3 AS DECIMAL(18, 1))), ' µs each.'
    ) AS evidence,
    concat(
        'Separate the phases: read a large piece, work on it, write a large piece; or separate the ',
        'files (input, output; index, data; a write-ahead log beside the table).'
    ) AS advice
FROM program_pattern AS f
CROSS JOIN params AS p
CROSS JOIN effort AS e
WHERE f.pattern = 'mixed'
    AND f.ops >= p.switch_ratio * f.all_ops
    AND f.all_ops >= p.min_ops
    AND f.cost_ns >= p.min_share * e.work_ns

-- Reading backwards: each read begins before the one before. Read-ahead follows a reader forwards only, so
-- each read waits for the storage though the order of the reads was known.
--
-- Random reads step back half of the time; here at least `backward_ratio` of a program's reads do. A file that
-- is cached costs no more backwards than forwards, so only those whose time matters are reported.
--
-- @param min_share DOUBLE 0.01: a smaller share of the working time is no finding
-- @param medium_share DOUBLE 0.05: share of the working time from which a finding is medium
-- @param high_share DOUBLE 0.2: share of the working time from which a finding is high
-- @param min_ops BIGINT 1000: fewer calls are no finding (Drishti, small_requests_absolute and
--     random_operations_absolute)
-- @param backward_ratio DOUBLE 0.9: share of reads that step back from which a file is read backwards
-- @requires effort, program_pattern
SELECT
    'backward_reads' AS finding,
    CASE
        WHEN f.cost_ns >= p.high_share * e.work_ns THEN 'high'
        WHEN f.cost_ns >= p.medium_share * e.work_ns THEN 'medium'
        ELSE 'low'
    END AS severity,
    concat(
        f.process_name, ': ', printf('%,d', f.ops), ' reads of ', f.place, ' go backwards and take ',
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
        printf('%,d', f.ops), ' of ', printf('%,d', f.all_ops), ' reads (',
        printf('%,d', CAST(round(1e2 * f.ops / NULLIF(f.all_ops, 0)) AS BIGINT)),
        ' %) begin before the one before: ',
        printf('%,d', CAST(round(1e0 * f.bytes / NULLIF(f.ops, 0)) AS BIGINT)), ' bytes and ',
        printf('%,.1f', CAST(f.cost_ns / NULLIF(f.ops, 0) / 1e3 AS DECIMAL(18, 1))), ' µs each, ',
        printf('%,.3f', CAST(f.cost_ns / 1e9 AS DECIMAL(18, 3))), ' s in all.'
    ) AS evidence,
    concat(
        'Read large pieces (1 MiB and more) from the end and go backwards within each in memory; or read ',
        'forwards and turn the order round; posix_fadvise(POSIX_FADV_WILLNEED) for the piece before the one ',
        'that is being used. An index of the lines or records makes the backward walk unnecessary.'
    ) AS advice
FROM program_pattern AS f
CROSS JOIN params AS p
CROSS JOIN effort AS e
WHERE f.pattern = 'backward_reads'
    AND f.ops >= p.min_ops
    AND f.ops >= p.backward_ratio * f.all_ops
    AND f.cost_ns >= p.min_share * e.work_ns

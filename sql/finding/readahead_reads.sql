-- Small reads in order that read-ahead serves well: worth knowing, hardly worth changing. The kernel sees
-- the sequence and reads ahead (128 KiB by default, doubling window: Linux, mm/readahead.c), so that each
-- small read is a copy from memory; what remains is the price of the system calls.
--
-- The counterpart of `finding_small_reads`: at least `consecutive_ratio` of the reads follow each other,
-- and they cost less than `medium_share` of the working time.
--
-- @param min_share DOUBLE 0.01: a smaller share of the working time is no finding
-- @param medium_share DOUBLE 0.05: share of the working time from which a finding is medium
-- @param min_ops BIGINT 1000: fewer calls are no finding (Drishti, small_requests_absolute and
--     random_operations_absolute)
-- @param small_ratio DOUBLE 0.1: share of small requests from which they are a finding (Drishti,
--     small_requests)
-- @param consecutive_ratio DOUBLE 0.9: share of consecutive accesses from which a file is read or written
--     in order
-- @requires effort, program_pattern
SELECT
    'readahead_reads' AS finding,
    'low' AS severity,
    concat(
        f.process_name, ': ', printf('%,d', f.ops), ' small reads in order, ',
        printf('%,d', CAST(round(1e0 * f.bytes / NULLIF(f.ops, 0)) AS BIGINT)), ' bytes on average, from ',
        f.place, ' take only ', printf('%,d', CAST(round(1e2 * f.cost_ns / e.work_ns) AS BIGINT)),
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
        printf('%,d', CAST(round(1e2 * f.consecutive_share) AS BIGINT)),
        ' % of the reads follow the one before, ',
        printf('%,.1f', CAST(f.cost_ns / NULLIF(f.ops, 0) / 1e3 AS DECIMAL(18, 1))), ' µs each, ',
        printf('%,.1f', CAST(f.bytes / 1048576e0 AS DECIMAL(18, 1))), ' MiB and ',
        printf('%,.3f', CAST(f.cost_ns / 1e9 AS DECIMAL(18, 3))),
        ' s in all: read-ahead has the data in memory when it is asked for.'
    ) AS evidence,
    concat(
        'Nothing needs to be done. A buffer of 128 KiB or more would save most of the system calls; ',
        'posix_fadvise(POSIX_FADV_SEQUENTIAL) doubles the read-ahead window.'
    ) AS advice
FROM program_pattern AS f
CROSS JOIN params AS p
CROSS JOIN effort AS e
WHERE f.pattern = 'small_reads'
    AND f.ops >= p.min_ops
    AND f.ops >= p.small_ratio * f.all_ops
    AND f.consecutive_share >= p.consecutive_ratio
    AND f.cost_ns < p.medium_share * e.work_ns
    AND f.cost_ns >= p.min_share * e.work_ns

-- A seek for each read or write: lseek only sets a number in the kernel, but it is a system call for each
-- access, and it makes the descriptor useless for a second thread.
--
-- @param min_share DOUBLE 0.01: a smaller share of the working time is no finding
-- @param medium_share DOUBLE 0.05: share of the working time from which a finding is medium
-- @param high_share DOUBLE 0.2: share of the working time from which a finding is high
-- @param min_ops BIGINT 1000: fewer calls are no finding (Drishti, small_requests_absolute and
--     random_operations_absolute)
-- @requires effort, program_pattern
SELECT
    'seek_per_access' AS finding,
    CASE
        WHEN f.cost_ns >= p.high_share * e.work_ns THEN 'high'
        WHEN f.cost_ns >= p.medium_share * e.work_ns THEN 'medium'
        ELSE 'low'
    END AS severity,
    concat(
        f.process_name, ': ', printf('%,d', f.ops), ' seeks for ', printf('%,d', f.all_ops),
        ' reads and writes of ', f.place, ' take ',
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
        printf('%,.1f', CAST(f.cost_ns / NULLIF(f.ops, 0) / 1e3 AS DECIMAL(18, 1))), ' µs each, ',
        printf('%,.3f', CAST(f.cost_ns / 1e9 AS DECIMAL(18, 3))), ' s in all; ',
        printf('%,d', CAST(round(1e0 * 1e2 * f.ops / NULLIF(f.all_ops, 0)) AS BIGINT)),
        ' seeks for 100 accesses.'
    ) AS evidence,
    concat(
        'pread and pwrite (os.pread in Python, read_at in Rust, FileChannel.read(buffer, position) ',
        'in Java) take the offset as an argument: one call instead of two, and threads can share the ',
        'descriptor. With stdio, fseek throws the buffer away: read ahead in the program or use ', 'pread.'
    ) AS advice
FROM program_pattern AS f
CROSS JOIN params AS p
CROSS JOIN effort AS e
WHERE f.pattern = 'seek'
    AND f.ops >= p.min_ops
    AND 2 * f.ops >= f.all_ops
    AND f.cost_ns >= p.min_share * e.work_ns

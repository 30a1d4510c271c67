-- fflush after each small piece: a stream's buffer that is emptied before it is full saves nothing. Often
-- std::endl in C++, flush=True in Python's print, or autoflush in Perl, inside a loop.
--
-- @param min_share DOUBLE 0.01: a smaller share of the working time is no finding
-- @param medium_share DOUBLE 0.05: share of the working time from which a finding is medium
-- @param high_share DOUBLE 0.2: share of the working time from which a finding is high
-- @param min_ops BIGINT 1000: fewer calls are no finding (Drishti, small_requests_absolute and
--     random_operations_absolute)
-- @param tiny_bytes BIGINT 4096 bytes: requests of fewer bytes on average are tiny: a page, and the buffer
--     of a stdio stream in glibc (st_blksize, setbuf(3))
-- @requires effort, program_pattern
SELECT
    'stdio_flush' AS finding,
    CASE
        WHEN f.cost_ns >= p.high_share * e.work_ns THEN 'high'
        WHEN f.cost_ns >= p.medium_share * e.work_ns THEN 'medium'
        ELSE 'low'
    END AS severity,
    concat(
        f.process_name, ': ', printf('%,d', f.ops), ' times fflush, ',
        printf('%,d', CAST(round(1e0 * f.bytes / NULLIF(f.ops, 0)) AS BIGINT)), ' bytes each, to ',
        f.place, ' takes ', printf('%,d', CAST(round(1e2 * f.cost_ns / e.work_ns) AS BIGINT)),
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
        printf('%,.1f', CAST(f.cost_ns / NULLIF(f.ops, 0) / 1e3 AS DECIMAL(18, 1))), ' µs each, ',
        printf('%,.3f', CAST(f.cost_ns / 1e9 AS DECIMAL(18, 3))), ' s in all, for ',
        printf('%,.1f', CAST(f.bytes / 1048576e0 AS DECIMAL(18, 1))), ' MiB.'
    ) AS evidence,
    concat(
        'Flush at the points where somebody waits for the output: a newline instead of std::endl, no ',
        'flush=True or -u in Python, $| = 0 in Perl, stdbuf -oL or -o1M for a program that can’t be ',
        'changed.'
    ) AS advice
FROM program_pattern AS f
CROSS JOIN params AS p
CROSS JOIN effort AS e
WHERE f.pattern = 'stdio_flush'
    AND f.ops >= p.min_ops
    AND f.bytes < p.tiny_bytes * f.ops
    AND f.cost_ns >= p.min_share * e.work_ns

-- Random access through stdio: (nearly) every read of a stream's buffer begins elsewhere than the one before ended.
-- glibc throws the buffer away when it seeks out of it and reads a whole one again (4096 bytes on most file systems),
-- of which the program takes a few bytes.
--
-- Counted are files half of whose reads jump and fill a stream's buffer. The cost is that of the jumps, and of
-- fseek where it doesn't read itself.
--
-- @param min_share DOUBLE 0.01: a smaller share of the working time is no finding
-- @param medium_share DOUBLE 0.05: share of the working time from which a finding is medium
-- @param high_share DOUBLE 0.2: share of the working time from which a finding is high
-- @param min_ops BIGINT 1000: fewer calls are no finding (Drishti, small_requests_absolute and
--     random_operations_absolute)
-- @requires effort, program_pattern
SELECT
    'random_stdio' AS finding,
    CASE
        WHEN f.cost_ns >= p.high_share * e.work_ns THEN 'high'
        WHEN f.cost_ns >= p.medium_share * e.work_ns THEN 'medium'
        ELSE 'low'
    END AS severity,
    concat(
        f.process_name, ': ', printf('%,d', f.ops), ' of ', printf('%,d', f.all_ops),
        ' reads through stdio jump in ', f.place, ' and take ',
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
        'Each fills the buffer of the stream again: ', printf('%,.1f', CAST(f.bytes / 1048576e0 AS DECIMAL(18, 1))),
        ' MiB, ', printf('%,d', CAST(round(1e0 * f.bytes / NULLIF(f.ops, 0)) AS BIGINT)), ' bytes and ',
        printf('%,.1f', CAST(f.cost_ns / NULLIF(f.ops, 0) / 1e3 AS DECIMAL(18, 1))), ' µs for each jump, ',
        printf('%,.3f', CAST(f.cost_ns / 1e9 AS DECIMAL(18, 3))), ' s in all.'
    ) AS evidence,
    concat(
        'Use pread with the descriptor (fileno(stream)): it reads only what is asked, without a seek; or map ',
        'the file; or sort the requests and read forwards. If it must be a stream: setvbuf(stream, NULL, ',
        '_IOFBF, SIZE OF A RECORD) makes each read small.'
    ) AS advice
FROM program_pattern AS f
CROSS JOIN params AS p
CROSS JOIN effort AS e
WHERE f.pattern = 'random_stdio'
    AND f.ops >= p.min_ops
    AND f.cost_ns >= p.min_share * e.work_ns

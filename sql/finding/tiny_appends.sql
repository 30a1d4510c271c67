-- Many tiny writes one after the other: a log, a journal or a text output that is written line by line.
-- Each write copies a few bytes but pays the whole system call, and several of them dirty the same page.
-- The work disappears with a buffer, because the data lies in order already.
--
-- Tiny is less than a page on average; in order means `consecutive_ratio` of the writes begin where the
-- one before ended. Writes of stdio streams are `finding_stdio_buffer` and `finding_stdio_flush`.
--
-- @param min_share DOUBLE 0.01: a smaller share of the working time is no finding
-- @param medium_share DOUBLE 0.05: share of the working time from which a finding is medium
-- @param high_share DOUBLE 0.2: share of the working time from which a finding is high
-- @param min_ops BIGINT 1000: fewer calls are no finding (Drishti, small_requests_absolute and
--     random_operations_absolute)
-- @param consecutive_ratio DOUBLE 0.9: share of consecutive accesses from which a file is read or written
--     in order
-- @param tiny_bytes BIGINT 4096 bytes: requests of fewer bytes on average are tiny: a page, and the buffer
--     of a stdio stream in glibc (st_blksize, setbuf(3))
-- @requires effort, program_pattern
SELECT
    'tiny_appends' AS finding,
    CASE
        WHEN f.cost_ns >= p.high_share * e.work_ns THEN 'high'
        WHEN f.cost_ns >= p.medium_share * e.work_ns THEN 'medium'
        ELSE 'low'
    END AS severity,
    concat(
        f.process_name, ': ', printf('%,d', f.ops), ' writes in a row of ',
        printf('%,d', CAST(round(1e0 * f.bytes / NULLIF(f.ops, 0)) AS BIGINT)), ' bytes to ', f.place,
        ' take ', printf('%,d', CAST(round(1e2 * f.cost_ns / e.work_ns) AS BIGINT)),
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
        ' % of the writes begin where the one before ended; ',
        printf('%,.1f', CAST(f.bytes / 1048576e0 AS DECIMAL(18, 1))), ' MiB in all, ',
        printf('%,.1f', CAST(f.cost_ns / NULLIF(f.ops, 0) / 1e3 AS DECIMAL(18, 1))), ' µs each, ',
        printf('%,.3f', CAST(f.cost_ns / 1e9 AS DECIMAL(18, 3))), ' s together: ',
        printf('%,d', CAST(round(1e0 * f.bytes / 1048576) AS BIGINT)),
        ' writes of 1 MiB would carry the same.'
    ) AS evidence,
    concat(
        'Buffer the output and write 64 KiB or more at once: a stdio stream without fflush after ',
        'each line (setvbuf with _IOFBF), buffering= in Python’s open, BufWriter in Rust, an ',
        'asynchronous appender for log frameworks; drop O_APPEND writes per line in favour of one ',
        'per batch.'
    ) AS advice
FROM program_pattern AS f
CROSS JOIN params AS p
CROSS JOIN effort AS e
WHERE f.pattern = 'small_writes'
    AND f.ops >= p.min_ops
    AND f.bytes < p.tiny_bytes * f.ops
    AND f.consecutive_share >= p.consecutive_ratio
    AND f.cost_ns >= p.min_share * e.work_ns

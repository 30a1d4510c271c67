-- stdio with its small buffer: fread and fwrite move a page at a time (glibc takes st_blksize, 4096 on
-- most file systems), so that each MiB costs 256 system calls. Drishti: S01 reports stdio as such; here it
-- is reported where its buffer costs time.
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
    'stdio_buffer' AS finding,
    CASE
        WHEN f.cost_ns >= p.high_share * e.work_ns THEN 'high'
        WHEN f.cost_ns >= p.medium_share * e.work_ns THEN 'medium'
        ELSE 'low'
    END AS severity,
    concat(
        f.process_name, ': stdio moves ', f.place, ' in ', printf('%,d', f.ops), ' pieces of ',
        printf('%,d', CAST(round(1e0 * f.bytes / NULLIF(f.ops, 0)) AS BIGINT)), ' bytes, which take ',
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
        printf('%,d', f.all_ops), ' calls of fread, fwrite and the like became ', printf('%,d', f.ops),
        ' system calls, ', printf('%,.1f', CAST(f.cost_ns / NULLIF(f.ops, 0) / 1e3 AS DECIMAL(18, 1))),
        ' µs each, ', printf('%,.3f', CAST(f.cost_ns / 1e9 AS DECIMAL(18, 3))), ' s in all, for ',
        printf('%,.1f', CAST(f.bytes / 1048576e0 AS DECIMAL(18, 1))), ' MiB.'
    ) AS evidence,
    concat(
        'Give the stream a larger buffer right after fopen: setvbuf(stream, NULL, _IOFBF, 1 << 20); ',
        'C++: stream.rdbuf()->pubsetbuf(buffer, size) before open; or read and write large pieces ',
        'directly. Output that need not appear line by line should not be line buffered.'
    ) AS advice
FROM program_pattern AS f
CROSS JOIN params AS p
CROSS JOIN effort AS e
WHERE f.pattern = 'stdio'
    AND f.ops >= p.min_ops
    AND f.bytes <= p.tiny_bytes * f.ops
    AND f.cost_ns >= p.min_share * e.work_ns

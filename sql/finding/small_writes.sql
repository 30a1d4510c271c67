-- Many small writes: a program hands over its data in requests too small for what each one costs. Each
-- pays a system call and the locks of file and page cache; with O_SYNC, O_DIRECT, a network or a parallel
-- file system each is an I/O of its own.
--
-- Tiny writes at the end of a file are `finding_tiny_appends`, those of stdio streams
-- `finding_stdio_buffer`. Drishti: P06, with its 10 % and 1,000 requests; the size is explained at module
-- `activity`.
--
-- @param min_share DOUBLE 0.01: a smaller share of the working time is no finding
-- @param medium_share DOUBLE 0.05: share of the working time from which a finding is medium
-- @param high_share DOUBLE 0.2: share of the working time from which a finding is high
-- @param min_ops BIGINT 1000: fewer calls are no finding (Drishti, small_requests_absolute and
--     random_operations_absolute)
-- @param small_bytes BIGINT 131072 bytes: a request of fewer bytes is small
-- @param small_ratio DOUBLE 0.1: share of small requests from which they are a finding (Drishti,
--     small_requests)
-- @param consecutive_ratio DOUBLE 0.9: share of consecutive accesses from which a file is read or written
--     in order
-- @param tiny_bytes BIGINT 4096 bytes: requests of fewer bytes on average are tiny: a page, and the buffer
--     of a stdio stream in glibc (st_blksize, setbuf(3))
-- @requires effort, program_pattern
SELECT
    'small_writes' AS finding,
    CASE
        WHEN f.cost_ns >= p.high_share * e.work_ns THEN 'high'
        WHEN f.cost_ns >= p.medium_share * e.work_ns THEN 'medium'
        ELSE 'low'
    END AS severity,
    concat(
        f.process_name, ': ', printf('%,d', f.ops), ' small writes, ',
        printf('%,d', CAST(round(1e0 * f.bytes / NULLIF(f.ops, 0)) AS BIGINT)), ' bytes on average, to ',
        f.place, ' take ', printf('%,d', CAST(round(1e2 * f.cost_ns / e.work_ns) AS BIGINT)),
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
        printf('%,d', f.ops), ' of ', printf('%,d', f.all_ops), ' writes moved fewer than ',
        printf('%,d', p.small_bytes), ' bytes: ',
        printf('%,.1f', CAST(f.bytes / 1048576e0 AS DECIMAL(18, 1))), ' MiB in all, ',
        printf('%,.1f', CAST(f.cost_ns / NULLIF(f.ops, 0) / 1e3 AS DECIMAL(18, 1))), ' µs each, ',
        printf('%,.3f', CAST(f.cost_ns / 1e9 AS DECIMAL(18, 3))), ' s together; ',
        printf('%,d', CAST(round(1e2 * f.consecutive_share) AS BIGINT)),
        ' % of the writes follow the one before.'
    ) AS evidence,
    CASE
        WHEN f.consecutive_share >= 0.5 THEN concat(
                'Gather the data and write 1 MiB or more at once: a larger buffer (setvbuf, buffering= in ',
                'Python, BufWriter::with_capacity in Rust), or writev for pieces that lie apart in memory.'
            )
        ELSE concat(
                'Sort and merge neighbouring blocks before writing (pwritev); many rows in one transaction ',
                '(SQLite: BEGIN … COMMIT around the inserts, PRAGMA journal_mode=WAL; PostgreSQL: COPY or ',
                'multi-row INSERT). With MPI: MPI_File_write_all, which merges the ranks’ requests.'
            )
    END AS advice
FROM program_pattern AS f
CROSS JOIN params AS p
CROSS JOIN effort AS e
WHERE f.pattern = 'small_writes'
    AND f.ops >= p.min_ops
    AND f.ops >= p.small_ratio * f.all_ops
    AND NOT (f.consecutive_share >= p.consecutive_ratio AND f.bytes < p.tiny_bytes * f.ops)
    AND f.cost_ns >= p.min_share * e.work_ns

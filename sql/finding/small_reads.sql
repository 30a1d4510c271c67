-- Many small reads: a program fetches its data in requests too small for what each one costs. Each request
-- pays a system call, the file system's locks and, if it reaches the device, a whole I/O: a read of 4 KiB
-- takes an SSD or a network file system nearly as long as one of 128 KiB.
--
-- Small reads that follow each other and cost little are `finding_readahead_reads`; reads of stdio streams
-- are `finding_stdio_buffer`. Drishti: P05, with its 10 % and 1,000 requests; the size is explained at
-- module `activity`.
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
-- @requires effort, program_pattern
SELECT
    'small_reads' AS finding,
    CASE
        WHEN f.cost_ns >= p.high_share * e.work_ns THEN 'high'
        WHEN f.cost_ns >= p.medium_share * e.work_ns THEN 'medium'
        ELSE 'low'
    END AS severity,
    concat(
        f.process_name, ': ', printf('%,d', f.ops), ' small reads, ',
        printf('%,d', CAST(round(1e0 * f.bytes / NULLIF(f.ops, 0)) AS BIGINT)), ' bytes on average, from ',
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
        printf('%,d', f.ops), ' of ', printf('%,d', f.all_ops), ' reads moved fewer than ',
        printf('%,d', p.small_bytes), ' bytes: ',
        printf('%,.1f', CAST(f.bytes / 1048576e0 AS DECIMAL(18, 1))), ' MiB in all, ',
        printf('%,.1f', CAST(f.cost_ns / NULLIF(f.ops, 0) / 1e3 AS DECIMAL(18, 1))), ' µs each, ',
        printf('%,.3f', CAST(f.cost_ns / 1e9 AS DECIMAL(18, 3))), ' s together; ',
        printf('%,d', CAST(round(1e2 * f.consecutive_share) AS BIGINT)),
        ' % of the reads follow the one before.'
    ) AS evidence,
    CASE
        WHEN f.consecutive_share >= 0.5 THEN concat(
                'Read the file in order with a buffer of 1 MiB or more: setvbuf(stream, NULL, _IOFBF, 1 << ',
                '20), open(path, buffering=1 << 20) in Python, BufReader::with_capacity in Rust.'
            )
        ELSE concat(
                'Read what is needed together with one preadv or one larger pread, keep hot blocks in memory ',
                '(a larger buffer pool: shared_buffers in PostgreSQL, PRAGMA cache_size in SQLite), or ',
                'overlap the requests with io_uring or threads. With MPI: MPI_File_read_all, which merges ',
                'the ranks’ requests.'
            )
    END AS advice
FROM program_pattern AS f
CROSS JOIN params AS p
CROSS JOIN effort AS e
WHERE f.pattern = 'small_reads'
    AND f.ops >= p.min_ops
    AND f.ops >= p.small_ratio * f.all_ops
    AND NOT (f.consecutive_share >= p.consecutive_ratio AND f.cost_ns < p.medium_share * e.work_ns)
    AND f.cost_ns >= p.min_share * e.work_ns

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
-- @requires activity, step, effort
WITH per_file AS (
    SELECT
        process_name,
        file,
        path,
        min(process) AS process_min,
        max(process) AS process_max,
        CAST(sum(ops) AS BIGINT) AS all_ops,
        CAST(sum(small_ops) AS BIGINT) AS ops,
        CAST(sum(small_bytes) AS BIGINT) AS bytes,
        CAST(sum(small_ns) AS BIGINT) AS cost_ns,
        min(start_ts) AS start_ts,
        max(end_ts) AS end_ts
    FROM activity
    WHERE kind = 'read' AND call NOT IN ('fread', 'fwrite')
    GROUP BY process_name, file, path
),

summed AS (
    SELECT
        process_name,
        CASE WHEN min(process_min) = max(process_max) THEN min(process_min) END AS process,
        CASE
            WHEN 2 * max(cost_ns) >= sum(cost_ns)
                THEN max_by(file, concat(lpad(CAST(cost_ns AS VARCHAR), 20, '0'), path))
        END AS file,
        CASE
            WHEN count(*) = 1 THEN max(path)
            ELSE concat(
                CAST(count(*) AS VARCHAR), ' files, most in ',
                max_by(path, concat(lpad(CAST(cost_ns AS VARCHAR), 20, '0'), path))
            )
        END AS place,
        count(*) AS files,
        CAST(sum(all_ops) AS BIGINT) AS all_ops,
        CAST(sum(ops) AS BIGINT) AS ops,
        CAST(sum(bytes) AS BIGINT) AS bytes,
        CAST(sum(cost_ns) AS BIGINT) AS cost_ns,
        min(start_ts) AS start_ts,
        max(end_ts) AS end_ts
    FROM per_file
    GROUP BY process_name
),

ordered AS (
    SELECT process_name, CAST(sum(consecutive_ops) AS DOUBLE) / NULLIF(sum(ops), 0) AS consecutive
    FROM step
    WHERE kind = 'read'
    GROUP BY process_name
),

found AS (
    SELECT s.*, coalesce(o.consecutive, 0) AS consecutive
    FROM summed AS s
    LEFT JOIN ordered AS o ON o.process_name = s.process_name
)

SELECT
    'small_reads' AS finding,
    CASE
        WHEN f.cost_ns >= p.high_share * e.work_ns THEN 'high'
        WHEN f.cost_ns >= p.medium_share * e.work_ns THEN 'medium'
        ELSE 'low'
    END AS severity,
    concat(
        f.process_name, ': ', CAST(f.ops AS VARCHAR), ' small reads, ',
        CAST(CAST(round(1e0 * f.bytes / NULLIF(f.ops, 0)) AS BIGINT) AS VARCHAR), ' bytes on average, from ',
        f.place, ' take ', CAST(CAST(round(1e2 * f.cost_ns / e.work_ns) AS BIGINT) AS VARCHAR),
        ' % of the working time.'
    ) AS title,
    f.process AS process,
    CAST(NULL AS BIGINT) AS thread,
    f.file AS file,
    f.ops AS ops,
    f.bytes AS bytes,
    f.cost_ns AS cost_ns,
    f.start_ts AS start_ts,
    f.end_ts AS end_ts,
    concat(
        CAST(f.ops AS VARCHAR), ' of ', CAST(f.all_ops AS VARCHAR), ' reads moved fewer than ',
        CAST(p.small_bytes AS VARCHAR), ' bytes: ',
        CAST(CAST(f.bytes / 1048576e0 AS DECIMAL(18, 1)) AS VARCHAR), ' MiB in all, ',
        CAST(CAST(f.cost_ns / NULLIF(f.ops, 0) / 1e3 AS DECIMAL(18, 1)) AS VARCHAR), ' µs each, ',
        CAST(CAST(f.cost_ns / 1e9 AS DECIMAL(18, 3)) AS VARCHAR), ' s together; ',
        CAST(CAST(round(1e2 * f.consecutive) AS BIGINT) AS VARCHAR),
        ' % of the reads follow the one before.'
    ) AS evidence,
    CASE
        WHEN f.consecutive >= 0.5 THEN concat(
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
FROM found AS f
CROSS JOIN params AS p
CROSS JOIN effort AS e
WHERE f.ops >= p.min_ops
    AND f.ops >= p.small_ratio * f.all_ops
    AND NOT (f.consecutive >= p.consecutive_ratio AND f.cost_ns < p.medium_share * e.work_ns)
    AND f.cost_ns >= p.min_share * e.work_ns

-- Small requests through O_DIRECT: nothing caches, merges or reads ahead, so each request is an I/O of the
-- device and its latency is the program's. O_DIRECT pays with large requests or with many in flight; off
-- the device's blocks it fails (EINVAL) or falls back to the cache (open(2), NOTES).
--
-- @param min_share DOUBLE 0.01: a smaller share of the working time is no finding
-- @param medium_share DOUBLE 0.05: share of the working time from which a finding is medium
-- @param high_share DOUBLE 0.2: share of the working time from which a finding is high
-- @param small_bytes BIGINT 131072 bytes: a request of fewer bytes is small
-- @param block_bytes BIGINT 4096 bytes: block of the file system, for alignment
-- @param pattern_ops BIGINT 100: fewer occurrences of a pattern that is wrong by itself are no finding
-- @requires effort, program_pattern
SELECT
    'small_direct' AS finding,
    CASE
        WHEN f.cost_ns >= p.high_share * e.work_ns THEN 'high'
        WHEN f.cost_ns >= p.medium_share * e.work_ns THEN 'medium'
        ELSE 'low'
    END AS severity,
    concat(
        f.process_name, ': ', printf('%,d', f.ops), ' direct requests of ',
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
        printf('%,d', f.ops), ' of ', printf('%,d', f.all_ops),
        ' requests through O_DIRECT move fewer than ', printf('%,d', p.small_bytes), ' bytes: ',
        printf('%,.1f', CAST(f.cost_ns / NULLIF(f.ops, 0) / 1e3 AS DECIMAL(18, 1))), ' µs each, ',
        printf('%,.3f', CAST(f.cost_ns / 1e9 AS DECIMAL(18, 3))), ' s in all, ',
        printf('%,.1f', CAST(f.bytes / 1048576e0 AS DECIMAL(18, 1))), ' MiB; ', printf('%,d', f.part_ops),
        ' are off the blocks of ', printf('%,d', p.block_bytes), ' bytes.'
    ) AS evidence,
    concat(
        'Ask for 128 KiB or more at once, or keep many requests in flight (io_uring, libaio, more ',
        'threads); align offset, length and memory to the logical block (posix_memalign, statx with ',
        'STATX_DIOALIGN). Without a cache of its own a program is better off with buffered I/O and ',
        'posix_fadvise(POSIX_FADV_DONTNEED). MySQL: innodb_flush_method=O_DIRECT needs a large ',
        'innodb_buffer_pool_size.'
    ) AS advice
FROM program_pattern AS f
CROSS JOIN params AS p
CROSS JOIN effort AS e
WHERE f.pattern = 'direct'
    AND f.ops >= p.pattern_ops
    AND 2 * f.ops >= f.all_ops
    AND f.cost_ns >= p.min_share * e.work_ns

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
-- @requires activity, effort
WITH per_file AS (
    SELECT
        process_name,
        file,
        path,
        min(process) AS process_min,
        max(process) AS process_max,
        CAST(sum(CASE WHEN kind IN ('read', 'write') THEN ops ELSE 0 END) AS BIGINT) AS all_ops,
        CAST(sum(small_ops) AS BIGINT) AS ops,
        CAST(sum(small_bytes) AS BIGINT) AS bytes,
        CAST(sum(unaligned_ops) AS BIGINT) AS unaligned,
        CAST(sum(small_ns) AS BIGINT) AS cost_ns,
        min(start_ts) AS start_ts,
        max(end_ts) AS end_ts
    FROM activity
    WHERE kind IN ('read', 'write') OR call = 'open'
    GROUP BY process_name, file, path
    HAVING sum(direct_opens) > 0
),

found AS (
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
        CAST(sum(unaligned) AS BIGINT) AS unaligned,
        CAST(sum(cost_ns) AS BIGINT) AS cost_ns,
        min(start_ts) AS start_ts,
        max(end_ts) AS end_ts
    FROM per_file
    GROUP BY process_name
)

SELECT
    'small_direct' AS finding,
    CASE
        WHEN f.cost_ns >= p.high_share * e.work_ns THEN 'high'
        WHEN f.cost_ns >= p.medium_share * e.work_ns THEN 'medium'
        ELSE 'low'
    END AS severity,
    concat(
        f.process_name, ': ', CAST(f.ops AS VARCHAR), ' direct requests of ',
        CAST(CAST(round(1e0 * f.bytes / NULLIF(f.ops, 0)) AS BIGINT) AS VARCHAR), ' bytes to ', f.place,
        ' take ', CAST(CAST(round(1e2 * f.cost_ns / e.work_ns) AS BIGINT) AS VARCHAR),
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
        CAST(f.ops AS VARCHAR), ' of ', CAST(f.all_ops AS VARCHAR),
        ' requests through O_DIRECT move fewer than ', CAST(p.small_bytes AS VARCHAR), ' bytes: ',
        CAST(CAST(f.cost_ns / NULLIF(f.ops, 0) / 1e3 AS DECIMAL(18, 1)) AS VARCHAR), ' µs each, ',
        CAST(CAST(f.cost_ns / 1e9 AS DECIMAL(18, 3)) AS VARCHAR), ' s in all, ',
        CAST(CAST(f.bytes / 1048576e0 AS DECIMAL(18, 1)) AS VARCHAR), ' MiB; ', CAST(f.unaligned AS VARCHAR),
        ' are off the blocks of ', CAST(p.block_bytes AS VARCHAR), ' bytes.'
    ) AS evidence,
    concat(
        'Ask for 128 KiB or more at once, or keep many requests in flight (io_uring, libaio, more ',
        'threads); align offset, length and memory to the logical block (posix_memalign, statx with ',
        'STATX_DIOALIGN). Without a cache of its own a program is better off with buffered I/O and ',
        'posix_fadvise(POSIX_FADV_DONTNEED). MySQL: innodb_flush_method=O_DIRECT needs a large ',
        'innodb_buffer_pool_size.'
    ) AS advice
FROM found AS f
CROSS JOIN params AS p
CROSS JOIN effort AS e
WHERE f.ops >= p.pattern_ops
    AND 2 * f.ops >= f.all_ops
    AND f.cost_ns >= p.min_share * e.work_ns

-- Writes that jump to places which are not at a block's boundary: the file system has to read the rest of
-- the first and last block before it can change them (if they aren't cached), and a parallel file system
-- locks blocks that a neighbour writes too. Writes that continue where the last one ended don't count,
-- since the block they share is in memory.
--
-- Drishti: P08, with its 10 %; `block_bytes` is 4096 on ext4, xfs and flash; set 1048576 for Lustre.
--
-- @param min_share DOUBLE 0.01: a smaller share of the working time is no finding
-- @param medium_share DOUBLE 0.05: share of the working time from which a finding is medium
-- @param high_share DOUBLE 0.2: share of the working time from which a finding is high
-- @param min_ops BIGINT 1000: fewer calls are no finding (Drishti, small_requests_absolute and
--     random_operations_absolute)
-- @param block_bytes BIGINT 4096 bytes: block of the file system, for alignment
-- @param unaligned_ratio DOUBLE 0.1: share of unaligned jumps from which they are a finding (Drishti,
--     misaligned_requests)
-- @requires effort, program_pattern
SELECT
    'unaligned_writes' AS finding,
    CASE
        WHEN f.cost_ns >= p.high_share * e.work_ns THEN 'high'
        WHEN f.cost_ns >= p.medium_share * e.work_ns THEN 'medium'
        ELSE 'low'
    END AS severity,
    concat(
        f.process_name, ': ', printf('%,d', f.ops), ' writes to ', f.place,
        ' jump to places off a block boundary and take ',
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
        printf('%,d', f.ops), ' of ', printf('%,d', f.all_ops), ' writes, ',
        printf('%,d', CAST(round(1e0 * f.bytes / NULLIF(f.ops, 0)) AS BIGINT)),
        ' bytes on average, start or end inside a block of ', printf('%,d', p.block_bytes),
        ' bytes: they touch blocks of ', printf('%,.1f', CAST(f.touched_bytes / 1048576e0 AS DECIMAL(18, 1))),
        ' MiB for ', printf('%,.1f', CAST(f.bytes / 1048576e0 AS DECIMAL(18, 1))), ' MiB of data, ',
        printf('%,.1f', CAST(f.cost_ns / NULLIF(f.ops, 0) / 1e3 AS DECIMAL(18, 1))), ' µs each, ',
        printf('%,.3f', CAST(f.cost_ns / 1e9 AS DECIMAL(18, 3))), ' s in all.'
    ) AS evidence,
    concat(
        'Make records whole blocks and begin them at a boundary: pad the header, or collect records ',
        'until a block is full (HDF5: H5Pset_alignment; SQLite: PRAGMA page_size=4096 or more; ',
        'PostgreSQL: keep full_page_writes, a file system with 4 or 8 KiB blocks).'
    ) AS advice
FROM program_pattern AS f
CROSS JOIN params AS p
CROSS JOIN effort AS e
WHERE f.pattern = 'unaligned_writes'
    AND f.ops >= p.min_ops
    AND f.ops >= p.unaligned_ratio * f.all_ops
    AND f.cost_ns >= p.min_share * e.work_ns

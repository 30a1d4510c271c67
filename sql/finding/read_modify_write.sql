-- Read, change, write back: a piece is read and at once written to the same place, because the program (or
-- a library below it) changes less than the unit it stores. Each change costs a read that must finish
-- before the write can begin.
--
-- Typical of records smaller than a block, of compressed or checksummed chunks, of RAID-like layers in
-- user space, and of data sieving for writes in ROMIO. Counted are writes right after a read of the same
-- place that is at least as long.
--
-- @param min_share DOUBLE 0.01: a smaller share of the working time is no finding
-- @param medium_share DOUBLE 0.05: share of the working time from which a finding is medium
-- @param high_share DOUBLE 0.2: share of the working time from which a finding is high
-- @param pattern_ops BIGINT 100: fewer occurrences of a pattern that is wrong by itself are no finding
-- @requires effort, program_pattern
SELECT
    'read_modify_write' AS finding,
    CASE
        WHEN f.cost_ns >= p.high_share * e.work_ns THEN 'high'
        WHEN f.cost_ns >= p.medium_share * e.work_ns THEN 'medium'
        ELSE 'low'
    END AS severity,
    concat(
        f.process_name, ': ', printf('%,d', f.ops), ' times a piece of ', f.place,
        ' is read, changed and written back, which takes ',
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
        printf('%,d', f.ops), ' of ', printf('%,d', f.all_ops),
        ' writes go to where the read just before began: ',
        printf('%,.1f', CAST(f.cost_ns / NULLIF(f.ops, 0) / 1e3 AS DECIMAL(18, 1))), ' µs for each pair, ',
        printf('%,.3f', CAST(f.cost_ns / 1e9 AS DECIMAL(18, 3))), ' s in all, ',
        printf('%,.1f', CAST(f.bytes / 1048576e0 AS DECIMAL(18, 1))), ' MiB written.'
    ) AS evidence,
    concat(
        'Write whole units so that nothing has to be read first: align records to blocks, buffer a ',
        'block in memory until it is full, keep it cached between changes. MPI: ',
        'romio_ds_write=disable for interleaved writes, or MPI_File_write_all. HDF5: a chunk cache ',
        '(H5Pset_chunk_cache) that holds the chunks in work.'
    ) AS advice
FROM program_pattern AS f
CROSS JOIN params AS p
CROSS JOIN effort AS e
WHERE f.pattern = 'modified'
    AND f.ops >= p.pattern_ops AND 2 * f.ops >= f.all_ops
    AND f.cost_ns >= p.min_share * e.work_ns

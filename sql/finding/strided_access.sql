-- Strided access: reads or writes that step over a file in equal jumps, as a column of a row-major array
-- or a rank's share of interleaved records. The data between is skipped, so read-ahead and write-back move
-- bytes nobody asked for, and each request stays small.
--
-- Darshan counts the same as POSIX_STRIDE1_COUNT; Thakur, Gropp and Lusk, "Data sieving and collective I/O
-- in ROMIO" (Frontiers 1999), is the remedy.
--
-- @param min_share DOUBLE 0.01: a smaller share of the working time is no finding
-- @param medium_share DOUBLE 0.05: share of the working time from which a finding is medium
-- @param high_share DOUBLE 0.2: share of the working time from which a finding is high
-- @param min_ops BIGINT 1000: fewer calls are no finding (Drishti, small_requests_absolute and
--     random_operations_absolute)
-- @param strided_ratio DOUBLE 0.5: share of strided accesses that makes a pattern strided
-- @requires effort, program_pattern
SELECT
    'strided_access' AS finding,
    CASE
        WHEN f.cost_ns >= p.high_share * e.work_ns THEN 'high'
        WHEN f.cost_ns >= p.medium_share * e.work_ns THEN 'medium'
        ELSE 'low'
    END AS severity,
    concat(
        f.process_name, ': ', printf('%,d', f.ops), ' accesses step through ', f.place,
        ' in equal jumps and take ', printf('%,d', CAST(round(1e2 * f.cost_ns / e.work_ns) AS BIGINT)),
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
        ' reads and writes keep the distance of the step before: ',
        printf('%,d', CAST(round(1e0 * f.bytes / NULLIF(f.ops, 0)) AS BIGINT)), ' bytes and ',
        printf('%,.1f', CAST(f.cost_ns / NULLIF(f.ops, 0) / 1e3 AS DECIMAL(18, 1))), ' µs each, ',
        printf('%,.1f', CAST(f.bytes / 1048576e0 AS DECIMAL(18, 1))), ' MiB and ',
        printf('%,.3f', CAST(f.cost_ns / 1e9 AS DECIMAL(18, 3))), ' s in all.'
    ) AS evidence,
    concat(
        'Read whole ranges and pick in memory (data sieving), or store what is read together side by ',
        'side (chunked HDF5 or Zarr, a columnar format such as Parquet, the transposed array). With ',
        'MPI: describe the pattern by MPI_Type_create_subarray and MPI_File_set_view and use ',
        'MPI_File_read_all or MPI_File_write_all.'
    ) AS advice
FROM program_pattern AS f
CROSS JOIN params AS p
CROSS JOIN effort AS e
WHERE f.pattern = 'strided'
    AND f.ops >= p.min_ops
    AND f.ops >= p.strided_ratio * f.all_ops
    AND f.cost_ns >= p.min_share * e.work_ns

-- One process does most of the I/O: of several that run side by side, one moves as many bytes as all
-- others together. The others' links, caches and cores idle meanwhile; often rank 0 reads or writes for
-- all and sends the data on.
--
-- Without ranks the processes may have different tasks (a checkpointer beside workers), so the finding is
-- low then. Drishti: P18, P21, P22.
--
-- @param min_share DOUBLE 0.01: a smaller share of the working time is no finding
-- @param medium_share DOUBLE 0.05: share of the working time from which a finding is medium
-- @param high_share DOUBLE 0.2: share of the working time from which a finding is high
-- @param peers BIGINT 4: fewer processes or threads side by side are not compared
-- @param imbalance_ratio DOUBLE 0.5: share of the bytes of all peers that one of them moves (Drishti,
--     imbalance_size, takes 0.3 between the largest and the smallest)
-- @requires effort, leading_process
SELECT
    'one_process' AS finding,
    CASE
        WHEN f.rank IS NULL THEN 'low'
        WHEN f.io_ns >= p.high_share * e.wall_ns THEN 'high'
        WHEN f.io_ns >= p.medium_share * e.wall_ns THEN 'medium'
        ELSE 'low'
    END AS severity,
    concat(
        f.process_name, ': ',
        CASE WHEN f.rank IS NULL THEN 'one process' ELSE concat('rank ', CAST(f.rank AS VARCHAR)) END,
        ' of ', printf('%,d', f.peers), ' moves ',
        printf('%,d', CAST(round(1e2 * f.bytes / NULLIF(f.total, 0)) AS BIGINT)), ' % of the bytes.'
    ) AS title,
    f.process_name AS program,
    f.process AS process,
    CAST(NULL AS BIGINT) AS thread,
    CAST(NULL AS BIGINT) AS file,
    f.ops AS ops,
    f.bytes AS bytes,
    f.io_ns AS cost_ns,
    f.start_ts AS start_ts,
    f.end_ts AS end_ts,
    concat(
        printf('%,.1f', CAST(f.bytes / 1048576e0 AS DECIMAL(18, 1))), ' MiB of ',
        printf('%,.1f', CAST(f.total / 1048576e0 AS DECIMAL(18, 1))), ' MiB in ', printf('%,d', f.ops),
        ' reads and writes that take it ', printf('%,.3f', CAST(f.io_ns / 1e9 AS DECIMAL(18, 3))),
        ' s of ', printf('%,.3f', CAST(e.wall_ns / 1e9 AS DECIMAL(18, 3))), ' s.'
    ) AS evidence,
    CASE
        WHEN f.rank IS NULL THEN concat(
                'If moving data is its task (a checkpointer, a log writer, a backup), leave it. Otherwise let all ',
                'take part: hand each process files or ranges to read and write itself, not data, and split one ',
                'large scan, load or dump (PostgreSQL: max_parallel_workers_per_gather, pg_restore --jobs).'
            )
        ELSE concat(
                'Let all take part: MPI_File_read_all and MPI_File_write_all with a file view for each rank; ',
                'parallel HDF5 (H5Pset_fapl_mpio) or NetCDF (nc_open_par); one reader per node and MPI_Bcast ',
                'within the node for data that all need.'
            )
    END AS advice
FROM leading_process AS f
CROSS JOIN params AS p
CROSS JOIN effort AS e
WHERE f.measure = 'bytes'
    AND f.peers >= p.peers
    AND f.bytes > 0
    AND f.bytes >= p.imbalance_ratio * f.total
    AND f.io_ns >= p.min_share * e.wall_ns

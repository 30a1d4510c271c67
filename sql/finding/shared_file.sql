-- Many processes write one file at a time: writes to the same file exclude each other (the inode's lock on
-- ext4 and xfs, range locks on NFS, Lustre and GPFS, where neighbours in one block take it from each
-- other). Small writes make it worse. Drishti: P15, P16.
--
-- Writers count if their writing overlaps in time; a file that passes from one to the next is none.
--
-- @param min_share DOUBLE 0.01: a smaller share of the working time is no finding
-- @param medium_share DOUBLE 0.05: share of the working time from which a finding is medium
-- @param high_share DOUBLE 0.2: share of the working time from which a finding is high
-- @param peers BIGINT 4: fewer processes or threads side by side are not compared
-- @requires activity, effort
WITH writers AS (
    SELECT
        file,
        path,
        process_name,
        process,
        CAST(sum(ops) AS BIGINT) AS ops,
        CAST(sum(bytes) AS BIGINT) AS bytes,
        CAST(sum(io_ns) AS BIGINT) AS io_ns,
        min(start_ts) AS start_ts,
        max(end_ts) AS end_ts
    FROM activity
    WHERE kind = 'write' AND file IS NOT NULL AND process IS NOT NULL
    GROUP BY file, path, process_name, process
),

found AS (
    SELECT
        file,
        path,
        CASE WHEN min(process_name) = max(process_name) THEN min(process_name) ELSE concat(min(process_name), ' and others') END
            AS process_name,
        count(*) AS writers,
        1e0 * sum(end_ts - start_ts) / NULLIF(max(end_ts) - min(start_ts), 0) AS side_by_side,
        CAST(sum(ops) AS BIGINT) AS ops,
        CAST(sum(bytes) AS BIGINT) AS bytes,
        CAST(sum(io_ns) AS BIGINT) AS cost_ns,
        min(start_ts) AS start_ts,
        max(end_ts) AS end_ts
    FROM writers
    GROUP BY file, path
)

SELECT
    'shared_file' AS finding,
    CASE
        WHEN f.cost_ns >= p.high_share * e.work_ns THEN 'high'
        WHEN f.cost_ns >= p.medium_share * e.work_ns THEN 'medium'
        ELSE 'low'
    END AS severity,
    concat(
        f.process_name, ': ', printf('%,d', f.writers), ' processes write ', f.path,
        ' at a time; their writes take ',
        printf('%,d', CAST(round(1e2 * f.cost_ns / e.work_ns) AS BIGINT)), ' % of the working time.'
    ) AS title,
    f.process_name AS program,
    CAST(NULL AS BIGINT) AS process,
    CAST(NULL AS BIGINT) AS thread,
    f.file AS file,
    f.ops AS ops,
    f.bytes AS bytes,
    f.cost_ns AS cost_ns,
    f.start_ts AS start_ts,
    f.end_ts AS end_ts,
    concat(
        printf('%,d', f.ops), ' writes of ',
        printf('%,d', CAST(round(1e0 * f.bytes / NULLIF(f.ops, 0)) AS BIGINT)), ' bytes, ',
        printf('%,.1f', CAST(f.cost_ns / NULLIF(f.ops, 0) / 1e3 AS DECIMAL(18, 1))), ' µs each, ',
        printf('%,.3f', CAST(f.cost_ns / 1e9 AS DECIMAL(18, 3))), ' s in all, ',
        printf('%,.1f', CAST(f.bytes / 1048576e0 AS DECIMAL(18, 1))), ' MiB; on average ',
        printf('%,.1f', CAST(f.side_by_side AS DECIMAL(18, 1))), ' processes were writing it.'
    ) AS evidence,
    concat(
        'One file for each writer, merged later, or collective writes through a few of them ',
        '(MPI_File_write_all; romio_cb_write=enable, cb_nodes). If it must be one file: large writes ',
        'aligned to the stripe or block, so that no block has two writers (Lustre: lfs setstripe -c ',
        '-1 -S 4M). Logs: a collector (journald, syslog) instead of many appenders.'
    ) AS advice
FROM found AS f
CROSS JOIN params AS p
CROSS JOIN effort AS e
WHERE f.writers >= p.peers
    AND 2 * f.side_by_side >= p.peers
    AND f.cost_ns >= p.min_share * e.work_ns

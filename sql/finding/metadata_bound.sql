-- More time for names than for data: opening, closing, asking for attributes, listing, renaming and
-- removing take most of the program's I/O time. Locally these are locks and journal commits, on NFS,
-- Lustre or GPFS round trips to one metadata server that all clients share.
--
-- Drishti: P17, which reports more than 30 s per rank; a share of the time fits short runs too. Its parts
-- have findings of their own: `reopened_files`, `repeated_stat`, `missing_files`, `small_files`,
-- `slow_metadata`.
--
-- @param min_share DOUBLE 0.01: a smaller share of the working time is no finding
-- @param medium_share DOUBLE 0.05: share of the working time from which a finding is medium
-- @param high_share DOUBLE 0.2: share of the working time from which a finding is high
-- @param min_ops BIGINT 1000: fewer calls are no finding (Drishti, small_requests_absolute and
--     random_operations_absolute)
-- @requires activity, effort
WITH per_file AS (
    SELECT
        process_name,
        file,
        path,
        min(process) AS process_min,
        max(process) AS process_max,
        CAST(sum(CASE WHEN kind = 'meta' THEN ops ELSE 0 END) AS BIGINT) AS ops,
        CAST(sum(CASE WHEN kind = 'meta' THEN io_ns ELSE 0 END) AS BIGINT) AS cost_ns,
        CAST(sum(io_ns) AS BIGINT) AS all_ns,
        min(start_ts) AS start_ts,
        max(end_ts) AS end_ts
    FROM activity
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
        CAST(sum(ops) AS BIGINT) AS ops,
        CAST(sum(cost_ns) AS BIGINT) AS cost_ns,
        CAST(sum(all_ns) AS BIGINT) AS all_ns,
        min(start_ts) AS start_ts,
        max(end_ts) AS end_ts
    FROM per_file
    GROUP BY process_name
),

calls AS (
    SELECT process_name, call, CAST(sum(io_ns) AS BIGINT) AS io_ns
    FROM activity
    WHERE kind = 'meta'
    GROUP BY process_name, call
),

worst AS (
    SELECT process_name, max_by(call, concat(lpad(CAST(io_ns AS VARCHAR), 20, '0'), call)) AS call, max(io_ns) AS io_ns
    FROM calls
    GROUP BY process_name
),

found AS (
    SELECT s.*, w.call, w.io_ns AS call_ns
    FROM summed AS s
    INNER JOIN worst AS w ON w.process_name = s.process_name
)

SELECT
    'metadata_bound' AS finding,
    CASE
        WHEN f.cost_ns >= p.high_share * e.work_ns THEN 'high'
        WHEN f.cost_ns >= p.medium_share * e.work_ns THEN 'medium'
        ELSE 'low'
    END AS severity,
    concat(
        f.process_name, ': ', CAST(f.ops AS VARCHAR), ' calls for names and attributes take ',
        CAST(CAST(round(1e2 * f.cost_ns / NULLIF(f.all_ns, 0)) AS BIGINT) AS VARCHAR),
        ' % of its I/O time and ', CAST(CAST(round(1e2 * f.cost_ns / e.work_ns) AS BIGINT) AS VARCHAR),
        ' % of the working time.'
    ) AS title,
    f.process AS process,
    CAST(NULL AS BIGINT) AS thread,
    f.file AS file,
    f.ops AS ops,
    CAST(NULL AS BIGINT) AS bytes,
    f.cost_ns AS cost_ns,
    f.start_ts AS start_ts,
    f.end_ts AS end_ts,
    concat(
        CAST(CAST(f.cost_ns / 1e9 AS DECIMAL(18, 3)) AS VARCHAR), ' s of ',
        CAST(CAST(f.all_ns / 1e9 AS DECIMAL(18, 3)) AS VARCHAR), ' s in calls on files; most of it in ',
        f.call, ' (', CAST(CAST(f.call_ns / 1e9 AS DECIMAL(18, 3)) AS VARCHAR), ' s); in ', f.place, '.'
    ) AS evidence,
    concat(
        'Fewer, larger files (tar, zip, SQLite, HDF5, one file per writer instead of per record), ',
        'descriptors kept open, directories of at most some thousand entries, attributes asked once. ',
        'HDF5: H5Pset_coll_metadata_write and H5Pset_all_coll_metadata_ops, a metadata cache. Unpack ',
        'trees of small files to node-local storage. Mount with noatime.'
    ) AS advice
FROM found AS f
CROSS JOIN params AS p
CROSS JOIN effort AS e
WHERE f.ops >= p.min_ops
    AND 2 * f.cost_ns >= f.all_ns
    AND f.cost_ns >= p.min_share * e.work_ns

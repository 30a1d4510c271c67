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
-- @requires activity, effort, program_pattern
WITH calls AS (
    SELECT process_name, kind, call, CAST(sum(io_ns) AS BIGINT) AS io_ns
    FROM activity
    GROUP BY process_name, kind, call
),

worst AS (
    SELECT
        process_name,
        CAST(sum(io_ns) AS BIGINT) AS all_ns,
        max_by(call, concat(lpad(CAST(io_ns AS VARCHAR), 20, '0'), call)) FILTER (WHERE kind = 'meta') AS call,
        max(io_ns) FILTER (WHERE kind = 'meta') AS call_ns
    FROM calls
    GROUP BY process_name
)

SELECT
    'metadata_bound' AS finding,
    CASE
        WHEN f.cost_ns >= p.high_share * e.work_ns THEN 'high'
        WHEN f.cost_ns >= p.medium_share * e.work_ns THEN 'medium'
        ELSE 'low'
    END AS severity,
    concat(
        f.process_name, ': ', printf('%,d', f.ops), ' calls for names and attributes take ',
        printf('%,d', CAST(round(1e2 * f.cost_ns / NULLIF(w.all_ns, 0)) AS BIGINT)),
        ' % of its I/O time and ', printf('%,d', CAST(round(1e2 * f.cost_ns / e.work_ns) AS BIGINT)),
        ' % of the working time.'
    ) AS title,
    f.process_name AS program,
    f.process AS process,
    CAST(NULL AS BIGINT) AS thread,
    f.file AS file,
    f.ops AS ops,
    CAST(NULL AS BIGINT) AS bytes,
    f.cost_ns AS cost_ns,
    f.start_ts AS start_ts,
    f.end_ts AS end_ts,
    concat(
        printf('%,.3f', CAST(f.cost_ns / 1e9 AS DECIMAL(18, 3))), ' s of ',
        printf('%,.3f', CAST(w.all_ns / 1e9 AS DECIMAL(18, 3))), ' s in calls on files; most of it in ',
        w.call, ' (', printf('%,.3f', CAST(w.call_ns / 1e9 AS DECIMAL(18, 3))), ' s); in ', f.place, '.'
    ) AS evidence,
    concat(
        'Fewer, larger files (tar, zip, SQLite, HDF5, one file per writer instead of per record), ',
        'descriptors kept open, directories of at most some thousand entries, attributes asked once. ',
        'HDF5: H5Pset_coll_metadata_write and H5Pset_all_coll_metadata_ops, a metadata cache. Unpack ',
        'trees of small files to node-local storage. Mount with noatime.'
    ) AS advice
FROM program_pattern AS f
INNER JOIN worst AS w ON w.process_name = f.process_name
CROSS JOIN params AS p
CROSS JOIN effort AS e
WHERE f.pattern = 'metadata'
    AND f.ops >= p.min_ops
    AND 2e0 * f.cost_ns >= w.all_ns
    AND f.cost_ns >= p.min_share * e.work_ns

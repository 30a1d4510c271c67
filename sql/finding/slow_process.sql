-- One process lags: among processes of the same program that run side by side (ranks of an MPI job,
-- workers), one spends far more time in I/O than the typical one. In a parallel program all others wait
-- for it at the next barrier, so its excess is everybody's.
--
-- Compared with the median, which one or two slow ones don't move. The cost is the excess, weighed against
-- the recording's duration. Drishti: P19.
--
-- @param min_share DOUBLE 0.01: a smaller share of the working time is no finding
-- @param medium_share DOUBLE 0.05: share of the working time from which a finding is medium
-- @param high_share DOUBLE 0.2: share of the working time from which a finding is high
-- @param peers BIGINT 4: fewer processes or threads side by side are not compared
-- @param straggler_ratio DOUBLE 1.5: time of the slowest in medians of its peers from which it lags;
--     Drishti (imbalance_stragglers) takes 0.15 of the slowest, on shared files only
-- @requires effort, leading_process
WITH found AS (
    SELECT *, CAST(floor(io_ns - median) AS BIGINT) AS cost_ns
    FROM leading_process
    WHERE measure = 'io_ns'
)

SELECT
    'slow_process' AS finding,
    CASE
        WHEN f.cost_ns >= p.high_share * e.wall_ns THEN 'high'
        WHEN f.cost_ns >= p.medium_share * e.wall_ns THEN 'medium'
        ELSE 'low'
    END AS severity,
    concat(
        f.process_name, ': ',
        CASE WHEN f.rank IS NULL THEN 'one process' ELSE concat('rank ', CAST(f.rank AS VARCHAR)) END,
        ' of ', printf('%,d', f.peers), ' spends ',
        printf('%,.3f', CAST(f.io_ns / 1e9 AS DECIMAL(18, 3))), ' s in I/O, the typical one ',
        printf('%,.3f', CAST(f.median / 1e9 AS DECIMAL(18, 3))), ' s.'
    ) AS title,
    f.process_name AS program,
    f.process AS process,
    CAST(NULL AS BIGINT) AS thread,
    CAST(NULL AS BIGINT) AS file,
    f.ops AS ops,
    f.bytes AS bytes,
    f.cost_ns AS cost_ns,
    f.start_ts AS start_ts,
    f.end_ts AS end_ts,
    concat(
        printf('%,d', f.peers), ' processes ran side by side; this one moved ',
        printf('%,.1f', CAST(f.bytes / 1048576e0 AS DECIMAL(18, 1))), ' MiB in ', printf('%,d', f.ops),
        ' reads and writes, ', printf('%,.1f', CAST(f.io_ns / NULLIF(f.ops, 0) / 1e3 AS DECIMAL(18, 1))),
        ' µs of I/O time for each.'
    ) AS evidence,
    concat(
        'If it moves more than the others, share the work out (finding_one_process); if it moves the ',
        'same more slowly, look at its node, its mount, its part of the file (one slow OST or OSD) ',
        'and at what else runs there. MPI: cb_nodes and cb_config_list decide which ranks do the I/O ',
        'of collective calls.'
    ) AS advice
FROM found AS f
CROSS JOIN params AS p
CROSS JOIN effort AS e
WHERE f.peers >= p.peers
    AND f.io_ns >= p.straggler_ratio * f.median
    AND f.cost_ns >= p.min_share * e.wall_ns

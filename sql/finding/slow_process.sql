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
-- @requires activity, process, effort
WITH did AS (
    SELECT
        node,
        process,
        CAST(sum(io_ns) AS BIGINT) AS io_ns,
        CAST(sum(CASE WHEN kind IN ('read', 'write') THEN bytes ELSE 0 END) AS BIGINT) AS bytes,
        CAST(sum(CASE WHEN kind IN ('read', 'write') THEN ops ELSE 0 END) AS BIGINT) AS ops
    FROM activity
    GROUP BY node, process
),

lives AS (
    SELECT
        p.name,
        p.process,
        p.rank,
        p.start_ts,
        coalesce(p.end_ts, e.end_ts) AS end_ts,
        coalesce(d.io_ns, 0) AS io_ns,
        coalesce(d.bytes, 0) AS bytes,
        coalesce(d.ops, 0) AS ops
    FROM process AS p
    LEFT JOIN did AS d ON d.node = p.node AND d.process = p.process
    CROSS JOIN effort AS e
),

leader AS (
    SELECT name, max_by(process, concat(lpad(CAST(io_ns AS VARCHAR), 20, '0'), CAST(process AS VARCHAR))) AS process
    FROM lives
    GROUP BY name
),

-- Peers are processes of the same name that lived through at least half of the leader's life.
compared AS (
    SELECT
        m.name,
        m.process AS leader,
        m.rank AS leader_rank,
        m.io_ns AS leader_ns,
        m.bytes AS leader_bytes,
        m.ops AS leader_ops,
        m.start_ts AS leader_start,
        m.end_ts AS leader_end,
        o.process,
        o.io_ns,
        o.bytes
    FROM leader AS l
    INNER JOIN lives AS m ON m.name = l.name AND m.process = l.process
    INNER JOIN lives AS o ON o.name = l.name
    WHERE 2 * (least(o.end_ts, m.end_ts) - greatest(o.start_ts, m.start_ts)) >= m.end_ts - m.start_ts
),

found AS (
    SELECT
        name AS process_name,
        leader AS process,
        leader_rank,
        leader_ns,
        leader_bytes AS bytes,
        leader_ops AS ops,
        leader_start AS start_ts,
        leader_end AS end_ts,
        count(*) AS peers,
        CAST(percentile_cont(0.5) WITHIN GROUP (ORDER BY io_ns) AS DOUBLE) AS median_ns,
        CAST(floor(leader_ns - percentile_cont(0.5) WITHIN GROUP (ORDER BY io_ns)) AS BIGINT) AS cost_ns
    FROM compared
    GROUP BY name, leader, leader_rank, leader_ns, leader_bytes, leader_ops, leader_start, leader_end
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
        CASE WHEN f.leader_rank IS NULL THEN 'one process' ELSE concat('rank ', CAST(f.leader_rank AS VARCHAR)) END,
        ' of ', CAST(f.peers AS VARCHAR), ' spends ',
        CAST(CAST(f.leader_ns / 1e9 AS DECIMAL(18, 3)) AS VARCHAR), ' s in I/O, the typical one ',
        CAST(CAST(f.median_ns / 1e9 AS DECIMAL(18, 3)) AS VARCHAR), ' s.'
    ) AS title,
    f.process AS process,
    CAST(NULL AS BIGINT) AS thread,
    CAST(NULL AS BIGINT) AS file,
    f.ops AS ops,
    f.bytes AS bytes,
    f.cost_ns AS cost_ns,
    f.start_ts AS start_ts,
    f.end_ts AS end_ts,
    concat(
        CAST(f.peers AS VARCHAR), ' processes ran side by side; this one moved ',
        CAST(CAST(f.bytes / 1048576e0 AS DECIMAL(18, 1)) AS VARCHAR), ' MiB in ', CAST(f.ops AS VARCHAR),
        ' reads and writes, ', CAST(CAST(f.leader_ns / NULLIF(f.ops, 0) / 1e3 AS DECIMAL(18, 1)) AS VARCHAR),
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
    AND f.leader_ns >= p.straggler_ratio * f.median_ns
    AND f.cost_ns >= p.min_share * e.wall_ns

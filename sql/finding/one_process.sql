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
    SELECT name, max_by(process, concat(lpad(CAST(bytes AS VARCHAR), 20, '0'), CAST(process AS VARCHAR))) AS process
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
        CAST(sum(bytes) AS BIGINT) AS all_bytes,
        leader_ns AS cost_ns
    FROM compared
    GROUP BY name, leader, leader_rank, leader_ns, leader_bytes, leader_ops, leader_start, leader_end
)

SELECT
    'one_process' AS finding,
    CASE
        WHEN f.leader_rank IS NULL THEN 'low'
        WHEN f.cost_ns >= p.high_share * e.wall_ns THEN 'high'
        WHEN f.cost_ns >= p.medium_share * e.wall_ns THEN 'medium'
        ELSE 'low'
    END AS severity,
    concat(
        f.process_name, ': ',
        CASE WHEN f.leader_rank IS NULL THEN 'one process' ELSE concat('rank ', CAST(f.leader_rank AS VARCHAR)) END,
        ' of ', CAST(f.peers AS VARCHAR), ' moves ',
        CAST(CAST(round(1e2 * f.bytes / NULLIF(f.all_bytes, 0)) AS BIGINT) AS VARCHAR), ' % of the bytes.'
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
        CAST(CAST(f.bytes / 1048576e0 AS DECIMAL(18, 1)) AS VARCHAR), ' MiB of ',
        CAST(CAST(f.all_bytes / 1048576e0 AS DECIMAL(18, 1)) AS VARCHAR), ' MiB in ', CAST(f.ops AS VARCHAR),
        ' reads and writes that take it ', CAST(CAST(f.cost_ns / 1e9 AS DECIMAL(18, 3)) AS VARCHAR),
        ' s of ', CAST(CAST(e.wall_ns / 1e9 AS DECIMAL(18, 3)) AS VARCHAR), ' s.'
    ) AS evidence,
    concat(
        'Let all take part: MPI_File_read_all and MPI_File_write_all with a file view for each rank; ',
        'parallel HDF5 (H5Pset_fapl_mpio) or NetCDF (nc_open_par); one reader per node and MPI_Bcast ',
        'within the node for data that all need. Worker pools: hand out files or ranges, not data.'
    ) AS advice
FROM found AS f
CROSS JOIN params AS p
CROSS JOIN effort AS e
WHERE f.peers >= p.peers
    AND f.bytes > 0
    AND f.bytes >= p.imbalance_ratio * f.all_bytes
    AND f.cost_ns >= p.min_share * e.wall_ns

-- Written more than once: the bytes written to a file are several times the bytes that end up in it. The
-- same places are overwritten, or the whole file is rewritten for a small change. On flash this is wear as
-- well as time.
--
-- The union of all writes to a file is exact; the cost is the writing time in the share of the bytes that
-- are not in it. A circular log (a WAL that is recycled) is overwritten by design.
--
-- @param min_share DOUBLE 0.01: a smaller share of the working time is no finding
-- @param medium_share DOUBLE 0.05: share of the working time from which a finding is medium
-- @param high_share DOUBLE 0.2: share of the working time from which a finding is high
-- @param pattern_ops BIGINT 100: fewer occurrences of a pattern that is wrong by itself are no finding
-- @param overwrite_ratio DOUBLE 2: bytes written for each byte that ends up in the file, from which it is a
--     finding
-- @requires footprint, step, effort
WITH named AS (
    -- The different bytes of a file, put down to its writers by their share of the bytes written.
    SELECT
        s.process_name,
        s.process,
        s.file,
        s.path,
        s.ops,
        s.bytes,
        CAST(floor(1e0 * d.distinct_bytes * s.bytes / d.bytes) AS BIGINT) AS new_bytes,
        CAST(floor(s.io_ns * (1 - 1e0 * d.distinct_bytes / d.bytes)) AS BIGINT) AS cost_ns,
        s.start_ts,
        s.end_ts
    FROM step AS s
    INNER JOIN footprint AS d ON d.node = s.node AND d.file = s.file AND d.kind = s.kind
    WHERE s.kind = 'write'
),

per_file AS (
    SELECT
        process_name,
        file,
        path,
        min(process) AS process_min,
        max(process) AS process_max,
        CAST(sum(ops) AS BIGINT) AS ops,
        CAST(sum(bytes) AS BIGINT) AS bytes,
        CAST(sum(new_bytes) AS BIGINT) AS new_bytes,
        CAST(sum(cost_ns) AS BIGINT) AS cost_ns,
        min(start_ts) AS start_ts,
        max(end_ts) AS end_ts
    FROM named
    GROUP BY process_name, file, path
    HAVING sum(bytes) >= (SELECT overwrite_ratio FROM params) * sum(new_bytes)
),

found AS (
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
        CAST(sum(bytes) AS BIGINT) AS bytes,
        CAST(sum(new_bytes) AS BIGINT) AS new_bytes,
        CAST(sum(cost_ns) AS BIGINT) AS cost_ns,
        min(start_ts) AS start_ts,
        max(end_ts) AS end_ts
    FROM per_file
    GROUP BY process_name
)

SELECT
    'overwritten_data' AS finding,
    CASE
        WHEN f.cost_ns >= p.high_share * e.work_ns THEN 'high'
        WHEN f.cost_ns >= p.medium_share * e.work_ns THEN 'medium'
        ELSE 'low'
    END AS severity,
    concat(
        f.process_name, ': ', CAST(CAST(f.bytes / 1048576e0 AS DECIMAL(18, 1)) AS VARCHAR),
        ' MiB written for ', CAST(CAST(f.new_bytes / 1048576e0 AS DECIMAL(18, 1)) AS VARCHAR),
        ' MiB of data in ', f.place, '; overwriting takes ',
        CAST(CAST(round(1e2 * f.cost_ns / e.work_ns) AS BIGINT) AS VARCHAR), ' % of the working time.'
    ) AS title,
    f.process AS process,
    CAST(NULL AS BIGINT) AS thread,
    f.file AS file,
    f.ops AS ops,
    f.bytes AS bytes,
    f.cost_ns AS cost_ns,
    f.start_ts AS start_ts,
    f.end_ts AS end_ts,
    concat(
        CAST(f.ops AS VARCHAR), ' writes; ',
        CAST(CAST(1e0 * f.bytes / NULLIF(f.new_bytes, 0) AS DECIMAL(18, 1)) AS VARCHAR),
        ' bytes written for each byte of the file; overwriting took ',
        CAST(CAST(f.cost_ns / 1e9 AS DECIMAL(18, 3)) AS VARCHAR), ' s.'
    ) AS evidence,
    concat(
        'Change only what changed (pwrite of the record instead of the whole file), gather changes ',
        'in memory and write a block once, or append and compact later. Databases: longer checkpoint ',
        'intervals (PostgreSQL: checkpoint_timeout, max_wal_size; SQLite: PRAGMA ',
        'wal_autocheckpoint). Logs and counters: write at intervals, not at each change.'
    ) AS advice
FROM found AS f
CROSS JOIN params AS p
CROSS JOIN effort AS e
WHERE f.ops >= p.pattern_ops
    AND f.cost_ns >= p.min_share * e.work_ns

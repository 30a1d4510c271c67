-- Written more than once: the bytes written to a file are several times the bytes that end up in it. The
-- same places are overwritten, or the whole file is rewritten for a small change. On flash this is wear as
-- well as time.
--
-- New is what lies beyond everything written before at a lower or the same offset, so the union of all
-- writes is exact. The cost is the share of each write that was not new. A circular log (a WAL that is
-- recycled) is overwritten by design.
--
-- @param min_share DOUBLE 0.01: a smaller share of the working time is no finding
-- @param medium_share DOUBLE 0.05: share of the working time from which a finding is medium
-- @param high_share DOUBLE 0.2: share of the working time from which a finding is high
-- @param pattern_ops BIGINT 100: fewer occurrences of a pattern that is wrong by itself are no finding
-- @param overwrite_ratio DOUBLE 2: bytes written for each byte that ends up in the file, from which it is a finding
-- @requires file_op, call, thread, process, file, effort
WITH written AS (
    SELECT
        o.node,
        o.thread,
        o.file,
        o.ts,
        o.dur,
        o.pos,
        o.pos + o.result AS reached,
        max(o.pos + o.result) OVER (
            PARTITION BY o.node, o.file ORDER BY o.pos NULLS LAST, o.ts NULLS LAST
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS covered
    FROM file_op AS o
    SEMI JOIN call AS c ON c.call = o.call AND c.kind = 'write'
    WHERE o.pos IS NOT NULL AND o.result > 0
),

summed AS (
    SELECT
        node,
        thread,
        file,
        count(*) AS ops,
        CAST(sum(reached - pos) AS BIGINT) AS bytes,
        CAST(sum(greatest(0, reached - greatest(pos, coalesce(covered, 0)))) AS BIGINT) AS new_bytes,
        CAST(sum(floor(1e0 * coalesce(dur, 0) * least(reached - pos, greatest(0, coalesce(covered, 0) - pos))
            / (reached - pos))) AS BIGINT) AS cost_ns,
        min(ts) AS start_ts,
        max(ts + coalesce(dur, 0)) AS end_ts
    FROM written
    GROUP BY node, thread, file
),

named AS (
    SELECT s.*, t.process, coalesce(p.name, 'unknown process') AS process_name,
        coalesce(f.path, '(unknown file)') AS path
    FROM summed AS s
    LEFT JOIN thread AS t ON t.node = s.node AND t.thread = s.thread
    LEFT JOIN process AS p ON p.node = t.node AND p.process = t.process
    LEFT JOIN file AS f ON f.node = s.node AND f.file = s.file
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
        CASE WHEN 2 * max(cost_ns) >= sum(cost_ns) THEN max_by(file, cost_ns) END AS file,
        CASE
            WHEN count(*) = 1 THEN max(path)
            ELSE concat(CAST(count(*) AS VARCHAR), ' files, most in ', max_by(path, cost_ns))
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

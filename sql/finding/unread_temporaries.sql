-- Temporary files nobody reads: created, written and removed within the recording, and never read, mapped,
-- renamed or run in between. The data was written for nothing, or for the case that memory ran short
-- (spilled sorts) or that the program crashed (journals).
--
-- SQLite's rollback journal is of this kind: written for each transaction, read only after a crash.
--
-- @param min_share DOUBLE 0.01: a smaller share of the working time is no finding
-- @param medium_share DOUBLE 0.05: share of the working time from which a finding is medium
-- @param high_share DOUBLE 0.2: share of the working time from which a finding is high
-- @param temp_bytes BIGINT 1048576 bytes: less data written to temporary files is no finding
-- @requires activity, process, effort
WITH gone AS (
    SELECT a.node, a.file
    FROM activity AS a
    ANTI JOIN process AS r ON r.exe = a.path
    GROUP BY a.node, a.file
    HAVING sum(a.creates) > 0
        AND sum(CASE WHEN a.call = 'unlink' THEN a.ops - a.failed ELSE 0 END) > 0
        AND sum(CASE WHEN a.kind = 'write' THEN a.bytes ELSE 0 END) > 0
        AND sum(CASE WHEN a.kind IN ('read', 'map') OR a.call IN ('rename', 'link') THEN a.ops ELSE 0 END) = 0
),

acted AS (
    SELECT a.*
    FROM activity AS a
    SEMI JOIN gone AS g ON g.node = a.node AND g.file = a.file
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
        CAST(sum(CASE WHEN kind = 'flush' THEN io_ns ELSE 0 END) AS BIGINT) AS flush_ns,
        CAST(sum(io_ns) AS BIGINT) AS cost_ns,
        min(start_ts) AS start_ts,
        max(end_ts) AS end_ts
    FROM acted
    GROUP BY process_name, file, path
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
        CAST(sum(flush_ns) AS BIGINT) AS flush_ns,
        CAST(sum(cost_ns) AS BIGINT) AS cost_ns,
        min(start_ts) AS start_ts,
        max(end_ts) AS end_ts
    FROM per_file
    GROUP BY process_name
)

SELECT
    'unread_temporaries' AS finding,
    CASE
        WHEN f.cost_ns >= p.high_share * e.work_ns THEN 'high'
        WHEN f.cost_ns >= p.medium_share * e.work_ns THEN 'medium'
        ELSE 'low'
    END AS severity,
    concat(
        f.process_name, ': ', CAST(CAST(f.bytes / 1048576e0 AS DECIMAL(18, 1)) AS VARCHAR),
        ' MiB written to temporary files that nobody read (', f.place, ') take ',
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
        CAST(f.ops AS VARCHAR),
        ' calls on files that were created, written and removed and never read, mapped or renamed: ',
        CAST(CAST(f.cost_ns / 1e9 AS DECIMAL(18, 3)) AS VARCHAR), ' s in all, of which ',
        CAST(CAST(f.flush_ns / 1e9 AS DECIMAL(18, 3)) AS VARCHAR), ' s in flushes.'
    ) AS evidence,
    concat(
        'Keep the data in memory or on tmpfs ($TMPDIR, PRAGMA temp_store=MEMORY), give sorts and ',
        'joins more memory (PostgreSQL: work_mem, log_temp_files shows them), open with O_TMPFILE ',
        'where a name isn’t needed. SQLite: PRAGMA journal_mode=WAL instead of a rollback journal ',
        '(or TRUNCATE, PERSIST to spare the removal). Compilers: -pipe.'
    ) AS advice
FROM found AS f
CROSS JOIN params AS p
CROSS JOIN effort AS e
WHERE f.bytes >= p.temp_bytes
    AND f.cost_ns >= p.min_share * e.work_ns

-- A slow file system: large reads or writes move few bytes a second there, and far more on another file system of
-- the same recording. A throttled volume, a loaded server, a disk that repeats, a FUSE program that does much.
--
-- Compared are reads and writes of `large_bytes` or more on average per mount, which bandwidth and not the number of
-- calls limits; reads with reads, writes with writes, and copies (copy_file_range, sendfile) with both, since a write
-- into the page cache is faster than any read of a device. Without another mount to compare with there is no finding.
--
-- @param min_share DOUBLE 0.01: a smaller share of the working time is no finding
-- @param medium_share DOUBLE 0.05: share of the working time from which a finding is medium
-- @param high_share DOUBLE 0.2: share of the working time from which a finding is high
-- @param large_bytes BIGINT 32768 bytes: reads or writes of this much on average are limited by bandwidth
-- @param mount_bytes BIGINT 1048576 bytes: less moved on a mount says nothing of its bandwidth
-- @param slow_bytes_per_s BIGINT 52428800 bytes/s: a mount that moves more is not slow (a disk moves 100 MB/s and more)
-- @param mount_ratio DOUBLE 5: bandwidth of the fastest mount over that of a slow one
-- @requires activity, mount_file, effort
WITH moved AS (
    SELECT
        m.node,
        m.point,
        m.type,
        CASE WHEN a.call IN ('copy_file_range', 'sendfile', 'splice') THEN 'copy' ELSE a.kind END AS kind,
        CASE WHEN min(a.process_name) = max(a.process_name) THEN min(a.process_name) END AS process_name,
        CASE WHEN min(a.process) = max(a.process) THEN min(a.process) END AS process,
        CASE WHEN min(a.file) = max(a.file) THEN min(a.file) END AS file,
        max_by(a.path, concat(lpad(CAST(a.io_ns AS VARCHAR), 20, '0'), a.path)) AS path,
        CAST(sum(a.ops) AS BIGINT) AS ops,
        CAST(sum(a.bytes) AS BIGINT) AS bytes,
        CAST(sum(a.io_ns) AS BIGINT) AS io_ns,
        1e9 * sum(a.bytes) / NULLIF(sum(a.io_ns), 0) AS bytes_per_s,
        min(a.start_ts) AS start_ts,
        max(a.end_ts) AS end_ts
    FROM activity AS a
    INNER JOIN mount_file AS m ON m.node = a.node AND m.file = a.file
    CROSS JOIN params AS p
    WHERE a.kind IN ('read', 'write') AND coalesce(m.type NOT IN ('devtmpfs', 'proc', 'sysfs', 'cgroup2', 'devpts'), TRUE)
    GROUP BY
        m.node, m.point, m.type, CASE WHEN a.call IN ('copy_file_range', 'sendfile', 'splice') THEN 'copy' ELSE a.kind END
    HAVING sum(a.bytes) >= max(p.mount_bytes) AND sum(a.bytes) >= max(p.large_bytes) * sum(a.ops)
),

found AS (
    SELECT
        s.node, s.point, s.type, s.kind, s.process_name, s.process, s.file, s.path, s.ops, s.bytes, s.io_ns AS cost_ns,
        s.bytes_per_s, s.start_ts, s.end_ts,
        max(o.bytes_per_s) AS best_bytes_per_s,
        max_by(o.point, concat(lpad(CAST(CAST(o.bytes_per_s AS BIGINT) AS VARCHAR), 20, '0'), o.point)) AS best_point
    FROM moved AS s
    INNER JOIN moved AS o
        ON o.node = s.node AND o.point <> s.point AND (o.kind = s.kind OR o.kind = 'copy' OR s.kind = 'copy')
    GROUP BY
        s.node, s.point, s.type, s.kind, s.process_name, s.process, s.file, s.path, s.ops, s.bytes, s.io_ns, s.bytes_per_s,
        s.start_ts, s.end_ts
)

SELECT
    'slow_mount' AS finding,
    CASE
        WHEN f.cost_ns >= p.high_share * e.work_ns THEN 'high'
        WHEN f.cost_ns >= p.medium_share * e.work_ns THEN 'medium'
        ELSE 'low'
    END AS severity,
    concat(
        coalesce(f.process_name, 'several programs'), ': ', CASE f.kind WHEN 'read' THEN 'reads from ' WHEN 'write' THEN 'writes to ' ELSE 'copies of files of ' END,
        f.point, CASE WHEN f.type IS NULL THEN '' ELSE concat(' (', f.type, ')') END, ' move ',
        printf('%,.1f', CAST(f.bytes_per_s / 1e6 AS DECIMAL(18, 1))), ' MB/s, ', f.best_point, ' moves ',
        printf('%,.1f', CAST(f.best_bytes_per_s / 1e6 AS DECIMAL(18, 1))), ' MB/s.'
    ) AS title,
    f.process_name AS program,
    f.process AS process,
    CAST(NULL AS BIGINT) AS thread,
    f.file AS file,
    f.ops AS ops,
    f.bytes AS bytes,
    f.cost_ns AS cost_ns,
    f.start_ts AS start_ts,
    f.end_ts AS end_ts,
    concat(
        printf('%,d', f.ops), ' calls move ', printf('%,.1f', CAST(f.bytes / 1048576e0 AS DECIMAL(18, 1))), ' MiB in ',
        printf('%,.3f', CAST(f.cost_ns / 1e9 AS DECIMAL(18, 3))), ' s, ',
        printf('%,.1f', CAST(f.cost_ns / NULLIF(f.ops, 0) / 1e6 AS DECIMAL(18, 1))), ' ms each, most with ', f.path, '.'
    ) AS evidence,
    concat(
        'Look at what limits this file system: a limit of the volume or container (io.max, the cloud’s MB/s and ',
        'IOPS), the server or network behind it, its load (iostat -x), the mount’s options (rsize, wsize, sync). ',
        'Copy what is read often to faster storage once; read ahead (posix_fadvise, several readers) where the ',
        'latency and not the bandwidth is high.'
    ) AS advice
FROM found AS f
CROSS JOIN params AS p
CROSS JOIN effort AS e
WHERE f.bytes_per_s <= p.slow_bytes_per_s
    AND f.best_bytes_per_s >= p.mount_ratio * f.bytes_per_s
    AND f.cost_ns >= p.min_share * e.work_ns

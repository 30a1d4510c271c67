-- Reads, writes or flushes that fail for good: a defective device (EIO), a full one (ENOSPC, EDQUOT,
-- EFBIG), a lost server (ESTALE, ETIMEDOUT, EREMOTEIO). After a failed fsync the kernel has dropped the
-- dirty pages: a later fsync succeeds though the data is lost (PostgreSQL, "fsync errors", 2018). One is
-- enough for high.
--
-- Not errors are EAGAIN, EINTR and EBADF or EINVAL of a program's own mistake.
--
-- @requires file_op, call, thread, process, file, effort
WITH failed AS (
    SELECT o.node, o.thread, o.file, o.call, o.errno, o.ts, coalesce(o.dur, 0) AS dur
    FROM file_op AS o
    SEMI JOIN call AS c ON c.call = o.call 
        AND (c.kind IN ('read', 'write', 'flush') OR c.call IN ('truncate', 'fallocate', 'close'))
    WHERE o.errno IN (5, 27, 28, 30, 61, 110, 116, 121, 122)
),

named AS (
    SELECT
        a.*,
        t.process,
        coalesce(p.name, 'unknown process') AS process_name,
        coalesce(f.path, '(unknown file)') AS path,
        CASE a.errno
            WHEN 5 THEN 'EIO (input/output error)'
            WHEN 27 THEN 'EFBIG (file too large)'
            WHEN 28 THEN 'ENOSPC (no space left)'
            WHEN 30 THEN 'EROFS (read-only file system)'
            WHEN 61 THEN 'ENODATA (no data available)'
            WHEN 110 THEN 'ETIMEDOUT (timed out)'
            WHEN 116 THEN 'ESTALE (stale handle)'
            WHEN 121 THEN 'EREMOTEIO (remote I/O error)'
            ELSE 'EDQUOT (quota exceeded)'
        END AS reason
    FROM failed AS a
    LEFT JOIN thread AS t ON t.node = a.node AND t.thread = a.thread
    LEFT JOIN process AS p ON p.node = t.node AND p.process = t.process
    LEFT JOIN file AS f ON f.node = a.node AND f.file = a.file
),

found AS (
    SELECT
        process_name,
        call,
        errno,
        reason,
        CASE WHEN min(process) = max(process) THEN min(process) END AS process,
        CASE WHEN min(file) = max(file) THEN min(file) END AS file,
        CASE WHEN min(path) = max(path) THEN min(path) ELSE concat(min(path), ' and others') END AS place,
        count(*) AS ops,
        CAST(sum(dur) AS BIGINT) AS cost_ns,
        min(ts) AS start_ts,
        max(ts + dur) AS end_ts
    FROM named
    GROUP BY process_name, call, errno, reason
)

SELECT
    'io_errors' AS finding,
    'high' AS severity,
    concat(
        f.process_name, ': ', printf('%,d', f.ops), ' times ', f.call, ' on ', f.place, ' fails with ',
        f.reason, '.'
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
        'The first fails ', printf('%,.3f', CAST((f.start_ts - e.start_ts) / 1e9 AS DECIMAL(18, 3))),
        ' s after the start, the last returns ',
        printf('%,.3f', CAST((f.end_ts - e.start_ts) / 1e9 AS DECIMAL(18, 3))), ' s after it.'
    ) AS evidence,
    CASE
        WHEN f.errno IN (27, 28, 122) THEN concat(
                'Free space, raise the quota or the file size limit (df, quota -s, ulimit -f); reserve space ',
                'ahead with posix_fallocate, so that the program fails at the start and not in the middle.'
            )
        WHEN f.errno IN (5, 61, 121) THEN concat(
                'Look at dmesg and smartctl -a, copy what can be read (ddrescue), replace the device. Treat ',
                'a failed fsync as lost data: write it again from the start, don’t call fsync again.'
            )
        ELSE concat(
                'Look at the server and the network (dmesg, mount options hard and timeo), open the file ',
                'again, and repeat what wasn’t acknowledged.'
            )
    END AS advice
FROM found AS f
CROSS JOIN params AS p
CROSS JOIN effort AS e
WHERE f.ops > 0

-- Opens that fail for another reason than a missing file: no permission, too many open files, no space, a
-- stale handle. The program may go on without its data or try again and again.
--
-- A lock file that exists already (EEXIST with O_EXCL) is no failure; missing files are
-- `finding_missing_files`. With EMFILE or ENFILE (too many open files) the finding is high, whatever its
-- cost.
--
-- @param medium_share DOUBLE 0.05: share of the working time from which a finding is medium
-- @param high_share DOUBLE 0.2: share of the working time from which a finding is high
-- @param failed_times BIGINT 10: fewer failed opens are no finding
-- @requires file_op, thread, process, file, effort
WITH failed AS (
    SELECT o.node, o.thread, o.file, o.errno, o.ts, coalesce(o.dur, 0) AS dur
    FROM file_op AS o
    WHERE o.errno NOT IN (0, 2, 17, 20) AND o.call IN ('open', 'creat', 'fopen', 'opendir', 'mkstemp')
),

named AS (
    SELECT
        a.*,
        t.process,
        coalesce(p.name, 'unknown process') AS process_name,
        coalesce(f.path, '(unknown file)') AS path,
        CASE a.errno
            WHEN 1 THEN 'EPERM (not permitted)'
            WHEN 13 THEN 'EACCES (no permission)'
            WHEN 21 THEN 'EISDIR (a directory)'
            WHEN 23 THEN 'ENFILE (too many open files in the system)'
            WHEN 24 THEN 'EMFILE (too many open files)'
            WHEN 28 THEN 'ENOSPC (no space left)'
            WHEN 30 THEN 'EROFS (read-only file system)'
            WHEN 40 THEN 'ELOOP (too many symbolic links)'
            WHEN 116 THEN 'ESTALE (stale handle)'
            ELSE concat('error ', CAST(a.errno AS VARCHAR))
        END AS reason
    FROM failed AS a
    LEFT JOIN thread AS t ON t.node = a.node AND t.thread = a.thread
    LEFT JOIN process AS p ON p.node = t.node AND p.process = t.process
    LEFT JOIN file AS f ON f.node = a.node AND f.file = a.file
    -- How a shell asks whether it has a terminal.
    WHERE f.path IS NULL OR f.path <> '/dev/tty'
),

found AS (
    SELECT
        process_name,
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
    GROUP BY process_name, errno, reason
)

SELECT
    'failed_opens' AS finding,
    CASE
        WHEN f.errno IN (23, 24) OR f.cost_ns >= p.high_share * e.work_ns THEN 'high'
        WHEN f.cost_ns >= p.medium_share * e.work_ns THEN 'medium'
        ELSE 'low'
    END AS severity,
    concat(
        f.process_name, ': ', printf('%,d', f.ops), ' opens of ', f.place, ' fail with ', f.reason, '.'
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
        printf('%,d', f.ops), ' failed opens take ',
        printf('%,.1f', CAST(f.cost_ns / 1e6 AS DECIMAL(18, 1))), ' ms.'
    ) AS evidence,
    CASE
        WHEN f.errno IN (23, 24) THEN concat(
                'Raise the limit (ulimit -n, LimitNOFILE= in systemd, fs.file-max) and look for descriptors ',
                'that are never closed (finding_descriptor_leak).'
            )
        WHEN f.errno IN (1, 13) THEN concat(
                'Run as a user who may read the files, correct mode and owner (namei -l PATH shows where it ',
                'stops), or stop trying.'
            )
        WHEN f.errno = 28 THEN 'Free space or inodes (df, df -i), raise the quota.'
        WHEN f.errno = 116 THEN 'The file was replaced on the server: open by path again, replace by rename on the same client.'
        ELSE 'Find who asks for it, and handle the error once instead of trying again.'
    END AS advice
FROM found AS f
CROSS JOIN params AS p
CROSS JOIN effort AS e
WHERE f.ops >= p.failed_times OR f.errno IN (23, 24)

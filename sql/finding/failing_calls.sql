-- A call that fails again and again: the program asks for what it was refused before, and ignores the answer.
--
-- Missing files are `finding_missing_files`, opens `finding_failed_opens`, data that can't be moved
-- `finding_io_errors`, locks that are tried `finding_file_lock`. A row is about one program and call.
--
-- @param min_share DOUBLE 0.01: a smaller share of the working time is no finding
-- @param medium_share DOUBLE 0.05: share of the working time from which a finding is medium
-- @param high_share DOUBLE 0.2: share of the working time from which a finding is high
-- @param min_ops BIGINT 1000: fewer calls are no finding (Drishti, small_requests_absolute and
--     random_operations_absolute)
-- @requires file_op, thread, process, file, activity, effort
WITH failed AS (
    SELECT
        o.node, o.thread, o.file, o.call, o.errno, count(*) AS ops, CAST(coalesce(sum(o.dur), 0) AS BIGINT) AS cost_ns,
        min(o.ts) AS start_ts, max(o.ts + coalesce(o.dur, 0)) AS end_ts
    FROM file_op AS o
    WHERE o.errno <> 0
        AND o.call NOT IN ('open', 'creat', 'fopen', 'opendir', 'mkstemp')
        AND NOT (o.call IN ('stat', 'access', 'readlink') AND o.errno IN (2, 20))
        AND NOT (o.call = 'fcntl' AND o.errno IN (11, 13))
        AND o.errno NOT IN (4, 5, 11, 27, 28, 115, 122)
    GROUP BY o.node, o.thread, o.file, o.call, o.errno
),

per_file AS (
    SELECT
        coalesce(p.name, 'unknown process') AS process_name,
        a.call,
        a.errno,
        a.file,
        coalesce(f.path, '(unknown file)') AS path,
        min(t.process) AS process_min,
        max(t.process) AS process_max,
        CAST(sum(a.ops) AS BIGINT) AS ops,
        CAST(sum(a.cost_ns) AS BIGINT) AS cost_ns,
        min(a.start_ts) AS start_ts,
        max(a.end_ts) AS end_ts
    FROM failed AS a
    LEFT JOIN thread AS t ON t.node = a.node AND t.thread = a.thread
    LEFT JOIN process AS p ON p.node = t.node AND p.process = t.process
    LEFT JOIN file AS f ON f.node = a.node AND f.file = a.file
    GROUP BY coalesce(p.name, 'unknown process'), a.call, a.errno, a.file, coalesce(f.path, '(unknown file)')
),

found AS (
    SELECT
        process_name,
        call,
        max_by(errno, concat(lpad(CAST(ops AS VARCHAR), 20, '0'), path)) AS errno,
        CASE WHEN min(process_min) = max(process_max) THEN min(process_min) END AS process,
        CASE WHEN 2 * max(ops) >= sum(ops) THEN max_by(file, concat(lpad(CAST(ops AS VARCHAR), 20, '0'), path)) END AS file,
        CASE
            WHEN count(DISTINCT path) = 1 THEN max(path)
            ELSE concat(
                printf('%,d', count(DISTINCT path)), ' files, most on ',
                max_by(path, concat(lpad(CAST(ops AS VARCHAR), 20, '0'), path))
            )
        END AS place,
        CAST(sum(ops) AS BIGINT) AS ops,
        CAST(sum(cost_ns) AS BIGINT) AS cost_ns,
        min(start_ts) AS start_ts,
        max(end_ts) AS end_ts
    FROM per_file
    GROUP BY process_name, call
),

called AS (
    SELECT process_name, call, CAST(sum(ops) AS BIGINT) AS ops FROM activity GROUP BY process_name, call
)

SELECT
    'failing_calls' AS finding,
    CASE
        WHEN f.cost_ns >= p.high_share * e.work_ns THEN 'high'
        WHEN f.cost_ns >= p.medium_share * e.work_ns THEN 'medium'
        ELSE 'low'
    END AS severity,
    concat(
        f.process_name, ': ', printf('%,d', f.ops), ' calls of ', f.call, ' fail, on ', f.place, '; they take ',
        printf('%,d', CAST(round(1e2 * f.cost_ns / e.work_ns) AS BIGINT)), ' % of the working time.'
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
        printf('%,d', f.ops), ' of ', printf('%,d', c.ops), ' calls of ', f.call, ' fail, most with ',
        CASE f.errno
            WHEN 1 THEN 'EPERM (not permitted)'
            WHEN 2 THEN 'ENOENT (no such file)'
            WHEN 9 THEN 'EBADF (no such descriptor)'
            WHEN 13 THEN 'EACCES (no permission)'
            WHEN 17 THEN 'EEXIST (exists already)'
            WHEN 20 THEN 'ENOTDIR (not a directory)'
            WHEN 21 THEN 'EISDIR (a directory)'
            WHEN 22 THEN 'EINVAL (invalid argument)'
            WHEN 25 THEN 'ENOTTY (not for this file)'
            WHEN 39 THEN 'ENOTEMPTY (directory not empty)'
            WHEN 61 THEN 'ENODATA (no such attribute)'
            WHEN 95 THEN 'EOPNOTSUPP (not supported here)'
            ELSE concat('error ', CAST(f.errno AS VARCHAR))
        END, '; ',
        printf('%,.1f', CAST(f.cost_ns / NULLIF(f.ops, 0) / 1e3 AS DECIMAL(18, 1))), ' µs each, ',
        printf('%,.3f', CAST(f.cost_ns / 1e9 AS DECIMAL(18, 3))), ' s in all.'
    ) AS evidence,
    concat(
        'Ask once and remember the answer: if the first call says that an attribute, a permission or a feature is ',
        'not there, don’t ask again for each file or step. Otherwise handle the error; a loop that ignores it ',
        'hides that its work is not done.'
    ) AS advice
FROM found AS f
INNER JOIN called AS c ON c.process_name = f.process_name AND c.call = f.call
CROSS JOIN params AS p
CROSS JOIN effort AS e
WHERE f.ops >= p.min_ops
    AND 2 * f.ops >= c.ops
    AND f.cost_ns >= p.min_share * e.work_ns

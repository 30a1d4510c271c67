-- Descriptors that are never closed: at the limit (RLIMIT_NOFILE, often 1024) every open fails with
-- EMFILE, and files that were removed keep their space. A row is about one process; its files are counted
-- only where it opened more than it closed, and not at all if it closes in bulk (close_range, closefrom).
--
-- @param leak_descriptors BIGINT 256: descriptors left open by one process; a quarter of the usual soft
--     limit of 1024 (getrlimit(2), RLIMIT_NOFILE)
-- @requires activity, effort, file_op, thread
WITH bulk AS (
    SELECT DISTINCT node, process FROM activity WHERE call = 'close_range'
),

per_file AS (
    SELECT
        a.node,
        a.process,
        a.process_name,
        a.path,
        CAST(sum(CASE WHEN a.call IN ('close', 'fclose', 'closedir') THEN 0 ELSE a.ops - a.failed END) AS BIGINT)
            AS opens,
        CAST(sum(CASE WHEN a.call IN ('close', 'fclose', 'closedir') THEN -a.ops ELSE a.ops - a.failed END) AS BIGINT)
            AS left_open,
        min(a.start_ts) AS start_ts,
        max(a.end_ts) AS end_ts
    FROM activity AS a
    ANTI JOIN bulk AS b ON b.node = a.node AND b.process = a.process
    WHERE a.call IN ('open', 'creat', 'fopen', 'mkstemp', 'opendir', 'dup', 'close', 'fclose', 'closedir')
        AND a.file IS NOT NULL
    GROUP BY a.node, a.process, a.process_name, a.path
    HAVING sum(CASE WHEN a.call IN ('close', 'fclose', 'closedir') THEN -a.ops ELSE a.ops - a.failed END) > 0
),

-- A number that is given out twice was free in between: dup2 over it closes it too, without a call of close.
numbers AS (
    SELECT
        t.process,
        count(DISTINCT CASE WHEN o.call IN ('fopen', 'opendir') THEN o.fd ELSE o.result END) AS given
    FROM file_op AS o
    INNER JOIN thread AS t ON t.node = o.node AND t.thread = o.thread
    WHERE o.call IN ('open', 'creat', 'fopen', 'mkstemp', 'opendir', 'dup') AND o.errno = 0
    GROUP BY t.process
),

summed AS (
    SELECT
        process,
        process_name,
        count(*) AS files,
        max_by(path, concat(lpad(CAST(left_open AS VARCHAR), 20, '0'), path)) AS top_path,
        max(left_open) AS top_left,
        CAST(sum(opens) AS BIGINT) AS ops,
        CAST(sum(left_open) AS BIGINT) AS left_open,
        min(start_ts) AS start_ts,
        max(end_ts) AS end_ts
    FROM per_file
    GROUP BY process, process_name
),

found AS (
    SELECT
        s.process, s.process_name, s.files, s.top_path, s.top_left, s.ops, s.start_ts, s.end_ts,
        least(s.left_open, n.given) AS left_open
    FROM summed AS s
    INNER JOIN numbers AS n ON n.process = s.process
)

SELECT
    'descriptor_leak' AS finding,
    CASE WHEN f.left_open >= 3 * p.leak_descriptors THEN 'high' ELSE 'medium' END AS severity,
    concat(
        f.process_name, ': ', printf('%,d', f.left_open), ' descriptors opened and never closed.'
    ) AS title,
    f.process_name AS program,
    f.process AS process,
    CAST(NULL AS BIGINT) AS thread,
    CAST(NULL AS BIGINT) AS file,
    f.ops AS ops,
    CAST(NULL AS BIGINT) AS bytes,
    CAST(NULL AS BIGINT) AS cost_ns,
    f.start_ts AS start_ts,
    f.end_ts AS end_ts,
    concat(
        printf('%,d', f.ops), ' opens of ', printf('%,d', f.files), ' files, ',
        printf('%,d', f.left_open), ' more than closes; most of them, ', printf('%,d', f.top_left),
        ', of ', f.top_path, '.'
    ) AS evidence,
    concat(
        'Close where the file was opened: with open(…) in Python, try-with-resources in Java, defer ',
        'in Go, a guard object in C++ and Rust, every error path in C. ls -l /proc/PID/fd shows what ',
        'is open now; ulimit -n (LimitNOFILE= in systemd) raises the limit if the files are needed.'
    ) AS advice
FROM found AS f
CROSS JOIN params AS p
CROSS JOIN effort AS e
WHERE f.left_open >= p.leak_descriptors

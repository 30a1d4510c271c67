-- Searching where nothing is: most look-ups (open, stat, access, readlink, opendir) fail because the file
-- doesn't exist. A search path tried entry by entry: PATH, PYTHONPATH, LD_LIBRARY_PATH, include paths,
-- locales. On a network file system each miss is a round trip, which negative caching saves only for a
-- while.
--
-- @param min_share DOUBLE 0.01: a smaller share of the working time is no finding
-- @param medium_share DOUBLE 0.05: share of the working time from which a finding is medium
-- @param high_share DOUBLE 0.2: share of the working time from which a finding is high
-- @param pattern_ops BIGINT 100: fewer occurrences of a pattern that is wrong by itself are no finding
-- @requires activity, effort
WITH looked AS (
    SELECT
        process_name,
        process,
        CAST(NULL AS BIGINT) AS file,
        regexp_replace(path, '/[^/]*$', '/') AS path,
        ops,
        missing,
        missing_ns,
        start_ts,
        end_ts
    FROM activity
    WHERE call IN ('open', 'fopen', 'stat', 'access', 'readlink', 'opendir')
),

per_file AS (
    SELECT
        process_name,
        file,
        path,
        min(process) AS process_min,
        max(process) AS process_max,
        CAST(sum(missing) AS BIGINT) AS ops,
        CAST(sum(ops) AS BIGINT) AS lookups,
        CAST(sum(missing_ns) AS BIGINT) AS cost_ns,
        min(start_ts) AS start_ts,
        max(end_ts) AS end_ts
    FROM looked
    GROUP BY process_name, file, path
),

found AS (
    SELECT
        process_name,
        CASE WHEN min(process_min) = max(process_max) THEN min(process_min) END AS process,
        CAST(NULL AS BIGINT) AS file,
        CASE
            WHEN count(*) = 1 THEN max(path)
            ELSE concat(
                printf('%,d', count(*)), ' directories, most in ',
                max_by(path, concat(lpad(CAST(cost_ns AS VARCHAR), 20, '0'), path))
            )
        END AS place,
        count(*) AS files,
        CAST(sum(ops) AS BIGINT) AS ops,
        CAST(sum(lookups) AS BIGINT) AS lookups,
        CAST(sum(cost_ns) AS BIGINT) AS cost_ns,
        min(start_ts) AS start_ts,
        max(end_ts) AS end_ts
    FROM per_file
    GROUP BY process_name
)

SELECT
    'missing_files' AS finding,
    CASE
        WHEN f.cost_ns >= p.high_share * e.work_ns THEN 'high'
        WHEN f.cost_ns >= p.medium_share * e.work_ns THEN 'medium'
        ELSE 'low'
    END AS severity,
    concat(
        f.process_name, ': ', printf('%,d', f.ops), ' of ', printf('%,d', f.lookups),
        ' look-ups find no file, in ', f.place, '; they take ',
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
        printf('%,d', f.ops),
        ' calls of open, stat, access, readlink or opendir returned ENOENT or ENOTDIR, ',
        printf('%,.1f', CAST(f.cost_ns / NULLIF(f.ops, 0) / 1e3 AS DECIMAL(18, 1))), ' µs each, ',
        printf('%,.3f', CAST(f.cost_ns / 1e9 AS DECIMAL(18, 3))), ' s in all.'
    ) AS evidence,
    concat(
        'Shorten the search: put the directory that has the files first, drop those that don’t ',
        'exist, give full paths. Python: fewer sys.path entries, a zip or frozen modules, ',
        'PYTHONDONTWRITEBYTECODE off; loaders: -rpath instead of a long LD_LIBRARY_PATH, ldconfig; ',
        'compilers: precompiled headers, fewer -I; shells: hash. MPI: copy the software to ',
        'node-local storage (Spindle, container image).'
    ) AS advice
FROM found AS f
CROSS JOIN params AS p
CROSS JOIN effort AS e
WHERE f.ops >= p.pattern_ops
    AND 2 * f.ops >= f.lookups
    AND f.cost_ns >= p.min_share * e.work_ns

-- The attributes of the same file read over and over by one process: stat, fstat or access whose answer
-- was known. Locally a microsecond each, on NFS a round trip whenever the attribute cache (acregmin, 3 s)
-- is over, on Lustre a call to metadata and object servers.
--
-- @param min_share DOUBLE 0.01: a smaller share of the working time is no finding
-- @param medium_share DOUBLE 0.05: share of the working time from which a finding is medium
-- @param high_share DOUBLE 0.2: share of the working time from which a finding is high
-- @param min_ops BIGINT 1000: fewer calls are no finding (Drishti, small_requests_absolute and
--     random_operations_absolute)
-- @param stat_times BIGINT 10: questions for the attributes of one file by one process from which they
--     count as repeated
-- @requires effort, program_pattern
SELECT
    'repeated_stat' AS finding,
    CASE
        WHEN f.cost_ns >= p.high_share * e.work_ns THEN 'high'
        WHEN f.cost_ns >= p.medium_share * e.work_ns THEN 'medium'
        ELSE 'low'
    END AS severity,
    concat(
        f.process_name, ': attributes of ', f.place, ' read ', printf('%,d', f.ops),
        ' times, which takes ', printf('%,d', CAST(round(1e2 * f.cost_ns / e.work_ns) AS BIGINT)),
        ' % of the working time.'
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
        printf('%,d', f.ops), ' successful calls of stat, fstat or access on ', printf('%,d', f.files),
        ' files that one process asked ', printf('%,d', p.stat_times), ' times or more; ',
        printf('%,.1f', CAST(f.cost_ns / NULLIF(f.ops, 0) / 1e3 AS DECIMAL(18, 1))), ' µs each, ',
        printf('%,.3f', CAST(f.cost_ns / 1e9 AS DECIMAL(18, 3))), ' s in all.'
    ) AS evidence,
    concat(
        'Keep the answer, or watch for changes with inotify. Open and handle the error instead of ',
        'asking with access first. Web servers: cache (nginx: open_file_cache; PHP: ',
        'opcache.revalidate_freq, realpath_cache_size). TZ=:/etc/localtime stops glibc’s stat for ',
        'each localtime. NFS: a longer actimeo=.'
    ) AS advice
FROM program_pattern AS f
CROSS JOIN params AS p
CROSS JOIN effort AS e
WHERE f.pattern = 'stat'
    AND f.ops >= p.min_ops
    AND f.cost_ns >= p.min_share * e.work_ns

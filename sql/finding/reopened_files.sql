-- The same file opened again and again by one process: each open walks the path, checks permissions and
-- allocates a descriptor; on NFS it asks the server (close-to-open consistency), on Lustre the metadata
-- server. The first open of each file is not counted as cost.
--
-- @param min_share DOUBLE 0.01: a smaller share of the working time is no finding
-- @param medium_share DOUBLE 0.05: share of the working time from which a finding is medium
-- @param high_share DOUBLE 0.2: share of the working time from which a finding is high
-- @param pattern_ops BIGINT 100: fewer occurrences of a pattern that is wrong by itself are no finding
-- @param reopen_times BIGINT 10: opens of one file by one process from which they count as repeated
-- @requires effort, program_pattern
SELECT
    'reopened_files' AS finding,
    CASE
        WHEN f.cost_ns >= p.high_share * e.work_ns THEN 'high'
        WHEN f.cost_ns >= p.medium_share * e.work_ns THEN 'medium'
        ELSE 'low'
    END AS severity,
    concat(
        f.process_name, ': ', f.place, ' opened ', printf('%,d', f.ops),
        ' times; opening and closing again takes ',
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
        printf('%,d', f.ops), ' opens of ', printf('%,d', f.files), ' files that one process opened ',
        printf('%,d', p.reopen_times), ' times or more; ',
        printf('%,.3f', CAST(f.cost_ns / 1e9 AS DECIMAL(18, 3))), ' s in open and close after the first.'
    ) AS evidence,
    concat(
        'Open once and keep the descriptor: pread and pwrite let threads share it. Cache handles by ',
        'path (nginx: open_file_cache; Python: open outside the loop; shell: redirect the whole ',
        'loop, done >> file, instead of each command). Processes that need it one after the other: ',
        'pass the descriptor on.'
    ) AS advice
FROM program_pattern AS f
CROSS JOIN params AS p
CROSS JOIN effort AS e
WHERE f.pattern = 'reopened'
    AND f.ops >= p.pattern_ops
    AND f.cost_ns >= p.min_share * e.work_ns

-- A file emptied and written anew, again and again: O_TRUNC frees its blocks and the write allocates
-- others. A crash in between leaves an empty or half a file, and a reader may see one; ext4 and xfs
-- therefore force the data out when a truncated file is closed (ext4(5), auto_da_alloc), which makes close
-- slow.
--
-- Reported even where it costs little, since it puts the data at risk. A file that is renamed after it was
-- written is the safe way and no finding.
--
-- @param medium_share DOUBLE 0.05: share of the working time from which a finding is medium
-- @param high_share DOUBLE 0.2: share of the working time from which a finding is high
-- @param rewrite_times BIGINT 10: truncating opens of one file from which it counts as rewritten
-- @requires effort, program_pattern
SELECT
    'rewritten_in_place' AS finding,
    CASE
        WHEN f.cost_ns >= p.high_share * e.work_ns THEN 'high'
        WHEN f.cost_ns >= p.medium_share * e.work_ns THEN 'medium'
        ELSE 'low'
    END AS severity,
    concat(
        f.process_name, ': ', f.place, ' emptied and written anew ', printf('%,d', f.ops), ' times, ',
        printf('%,d', CAST(round(1e0 * f.bytes / NULLIF(f.ops, 0)) AS BIGINT)),
        ' bytes each, which takes ', printf('%,d', CAST(round(1e2 * f.cost_ns / e.work_ns) AS BIGINT)),
        ' % of the working time.'
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
        printf('%,d', f.ops), ' opens with O_TRUNC, ',
        printf('%,.1f', CAST(f.bytes / 1048576e0 AS DECIMAL(18, 1))),
        ' MiB written; open, write and close take ',
        printf('%,.3f', CAST(f.cost_ns / 1e9 AS DECIMAL(18, 3))), ' s.'
    ) AS evidence,
    concat(
        'Write a temporary file in the same directory, fsync it, rename it over the old one: readers ',
        'see the old or the new content, a crash leaves one of them. Write only if the content ',
        'changed, and less often. State that changes in places belongs in a database (SQLite) or an ',
        'append-only log.'
    ) AS advice
FROM program_pattern AS f
CROSS JOIN params AS p
CROSS JOIN effort AS e
WHERE f.pattern = 'rewritten'
    AND f.ops >= p.rewrite_times

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
-- @requires effort, program_pattern
SELECT
    'unread_temporaries' AS finding,
    CASE
        WHEN f.cost_ns >= p.high_share * e.work_ns THEN 'high'
        WHEN f.cost_ns >= p.medium_share * e.work_ns THEN 'medium'
        ELSE 'low'
    END AS severity,
    concat(
        f.process_name, ': ', printf('%,.1f', CAST(f.bytes / 1048576e0 AS DECIMAL(18, 1))),
        ' MiB written to temporary files that nobody read (', f.place, ') take ',
        printf('%,d', CAST(round(1e2 * f.cost_ns / e.work_ns) AS BIGINT)), ' % of the working time.'
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
        printf('%,d', f.ops),
        ' calls on files that were created, written and removed and never read, mapped or renamed: ',
        printf('%,.3f', CAST(f.cost_ns / 1e9 AS DECIMAL(18, 3))), ' s in all, of which ',
        printf('%,.3f', CAST(f.part_ns / 1e9 AS DECIMAL(18, 3))), ' s in flushes.'
    ) AS evidence,
    concat(
        'Keep the data in memory or on tmpfs ($TMPDIR, PRAGMA temp_store=MEMORY), give sorts and ',
        'joins more memory (PostgreSQL: work_mem, log_temp_files shows them), open with O_TMPFILE ',
        'where a name isn’t needed. SQLite: PRAGMA journal_mode=WAL instead of a rollback journal ',
        '(or TRUNCATE, PERSIST to spare the removal). Compilers: -pipe.'
    ) AS advice
FROM program_pattern AS f
CROSS JOIN params AS p
CROSS JOIN effort AS e
WHERE f.pattern = 'temporary'
    AND f.bytes >= p.temp_bytes
    AND f.cost_ns >= p.min_share * e.work_ns

-- I/O of mapped files that no call shows: a page fault reads from storage without a call, and dirty pages
-- are written by the kernel. The time is in what looks like computing.
--
-- Reported if processes had many major faults (each read from storage), or, where the trail doesn't know
-- faults, if far more was mapped than the calls moved.
--
-- @param mapped_bytes BIGINT 67108864 bytes: fewer bytes of mapped files are no finding
-- @param fault_times BIGINT 1000: fewer major page faults are no finding
-- @requires unseen, process, activity, effort
WITH mapped AS (
    SELECT process, CAST(sum(amount) AS BIGINT) AS bytes
    FROM unseen
    WHERE kind = 'mapped_file'
    GROUP BY process
),

seen AS (
    SELECT CAST(coalesce(sum(bytes), 0) AS BIGINT) AS bytes FROM activity
),

found AS (
    SELECT
        coalesce(p.name, 'unknown process') AS process_name,
        CASE WHEN min(p.process) = max(p.process) THEN min(p.process) END AS process,
        CAST(sum(p.major_faults) AS BIGINT) AS faults,
        CAST(sum(coalesce(m.bytes, 0)) AS BIGINT) AS bytes,
        min(p.start_ts) AS start_ts,
        max(coalesce(p.end_ts, p.start_ts)) AS end_ts,
        max(s.bytes) AS seen_bytes
    FROM process AS p
    LEFT JOIN mapped AS m ON m.process = p.process
    CROSS JOIN seen AS s
    GROUP BY coalesce(p.name, 'unknown process')
)

SELECT
    'mapped_files' AS finding,
    CASE WHEN f.faults >= 10 * p.fault_times THEN 'medium' ELSE 'low' END AS severity,
    concat(
        f.process_name, ': mapped files of ', printf('%,.1f', CAST(f.bytes / 1048576e0 AS DECIMAL(18, 1))),
        ' MiB cause I/O that no call shows',
        CASE WHEN f.faults IS NULL THEN '' ELSE concat(', with ', printf('%,d', f.faults), ' faults that read from storage') END,
        '.'
    ) AS title,
    f.process AS process,
    CAST(NULL AS BIGINT) AS thread,
    CAST(NULL AS BIGINT) AS file,
    CAST(NULL AS BIGINT) AS ops,
    f.bytes AS bytes,
    CAST(NULL AS BIGINT) AS cost_ns,
    f.start_ts AS start_ts,
    f.end_ts AS end_ts,
    concat(
        'Mapped: ', printf('%,.1f', CAST(f.bytes / 1048576e0 AS DECIMAL(18, 1))),
        ' MiB; moved by calls that were seen, of all programs: ',
        printf('%,.1f', CAST(f.seen_bytes / 1048576e0 AS DECIMAL(18, 1))), ' MiB.'
    ) AS evidence,
    concat(
        'Record with --kernel to see page faults and write-back. For fewer faults: ',
        'madvise(MADV_WILLNEED) or MAP_POPULATE before the pages are needed, MADV_RANDOM or ',
        'MADV_SEQUENTIAL for the pattern, huge pages; or read into a buffer of one’s own, where ',
        'errors and latency are visible.'
    ) AS advice
FROM found AS f
CROSS JOIN params AS p
CROSS JOIN effort AS e
WHERE f.faults >= p.fault_times
    OR (f.faults IS NULL AND f.bytes >= p.mapped_bytes AND f.bytes >= f.seen_bytes)

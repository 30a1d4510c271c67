-- Slow open, close or stat: a look-up in the kernel's caches takes microseconds; `slow_ns` and more on
-- average means a network round trip, a cold disk, a metadata server under load, or data written back in
-- close (NFS flushes there; so do ext4 and xfs for replaced files). A few slow ones (less than `slow_share`) among fast
-- ones on the same mount are none: they were held up, by a disk or CPUs that others kept busy.
--
-- @param min_share DOUBLE 0.01: a smaller share of the working time is no finding
-- @param medium_share DOUBLE 0.05: share of the working time from which a finding is medium
-- @param high_share DOUBLE 0.2: share of the working time from which a finding is high
-- @param slow_ns BIGINT 1000000 ns: a call for names and attributes that takes this long on average is slow
-- @param slow_times BIGINT 10: fewer slow calls are no finding
-- @requires effort, program_pattern
SELECT
    'slow_metadata' AS finding,
    CASE
        WHEN f.cost_ns >= p.high_share * e.work_ns THEN 'high'
        WHEN f.cost_ns >= p.medium_share * e.work_ns THEN 'medium'
        ELSE 'low'
    END AS severity,
    concat(
        f.process_name, ': ', printf('%,d', f.ops), ' calls for names and attributes of ', f.place,
        ' take ', printf('%,.1f', CAST(f.cost_ns / NULLIF(f.ops, 0) / 1e6 AS DECIMAL(18, 1))), ' ms each, ',
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
        printf('%,.3f', CAST(f.cost_ns / 1e9 AS DECIMAL(18, 3))), ' s in all, of which close took ',
        printf('%,.3f', CAST(f.part_ns / 1e9 AS DECIMAL(18, 3))), ' s.'
    ) AS evidence,
    concat(
        'Look at what is below: nfsiostat or mountstats for round trips, the metadata server’s load, ',
        'a directory with very many entries (ext4: dir_index). If close is slow, the data is written ',
        'there: write earlier (sync_file_range, fdatasync in a second thread) or close in another ',
        'thread. NFS: noatime, nconnect=, longer actimeo=.'
    ) AS advice
FROM program_pattern AS f
CROSS JOIN params AS p
CROSS JOIN effort AS e
WHERE f.pattern = 'slow_metadata'
    AND f.cost_ns >= p.slow_ns * f.ops
    AND f.ops >= p.slow_times
    AND f.cost_ns >= p.min_share * e.work_ns

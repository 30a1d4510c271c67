-- Short reads or writes that are asked for again: a call moved less than it was asked, and the next one
-- asks for the rest. On a regular file that is rare: a full device or quota, a signal, a FUSE or network
-- file system that cuts requests (max_read, rsize, wsize), or a request above 2,147,479,552 bytes
-- (read(2)).
--
-- The last read of a file comes short and is followed by none, so it doesn't count.
--
-- @param min_share DOUBLE 0.01: a smaller share of the working time is no finding
-- @param medium_share DOUBLE 0.05: share of the working time from which a finding is medium
-- @param high_share DOUBLE 0.2: share of the working time from which a finding is high
-- @param pattern_ops BIGINT 100: fewer occurrences of a pattern that is wrong by itself are no finding
-- @requires effort, program_pattern
SELECT
    'short_transfers' AS finding,
    CASE
        WHEN f.cost_ns >= p.high_share * e.work_ns THEN 'high'
        WHEN f.cost_ns >= p.medium_share * e.work_ns THEN 'medium'
        ELSE 'low'
    END AS severity,
    concat(
        f.process_name, ': ', printf('%,d', f.ops), ' reads or writes of ', f.place,
        ' came back short and were asked for again, which takes ',
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
        printf('%,d', f.ops), ' of ', printf('%,d', f.all_ops),
        ' calls ask for the rest of the call before; ',
        printf('%,.1f', CAST(f.cost_ns / NULLIF(f.ops, 0) / 1e3 AS DECIMAL(18, 1))), ' µs each, ',
        printf('%,.3f', CAST(f.cost_ns / 1e9 AS DECIMAL(18, 3))), ' s in all.'
    ) AS evidence,
    concat(
        'Raise the transfer size of the file system below (NFS: rsize= and wsize=, up to 1 MiB; ',
        'FUSE: max_read, max_write and big_writes), ask for no more than it carries at once, and ',
        'check free space and quota if writes come short.'
    ) AS advice
FROM program_pattern AS f
CROSS JOIN params AS p
CROSS JOIN effort AS e
WHERE f.pattern = 'retried'
    AND f.ops >= p.pattern_ops
    AND f.cost_ns >= p.min_share * e.work_ns

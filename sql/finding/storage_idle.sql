-- Storage is not the problem: calls on files take hardly any of the working time. What else the report
-- shows about I/O can be put right, but the program won't be faster for it.
--
-- I/O that no call shows (mapped files) looks like computing: see `finding_mapped_files`. A trace of requests
-- doesn't show what programs did between them, so it has no such finding. A note, always low.
--
-- @param min_ops BIGINT 1000: fewer calls are no finding (Drishti, small_requests_absolute and
--     random_operations_absolute)
-- @param idle_share DOUBLE 0.05: share of the working time that file calls take, up to which storage is not
--     the problem
-- @requires activity, effort, unseen
WITH found AS (
    SELECT
        CAST(sum(ops) AS BIGINT) AS ops,
        CAST(coalesce(sum(CASE WHEN kind IN ('read', 'write') THEN bytes ELSE 0 END), 0) AS BIGINT) AS bytes,
        CAST(coalesce(sum(io_ns), 0) AS BIGINT) AS cost_ns
    FROM activity
)

SELECT
    'storage_idle' AS finding,
    'low' AS severity,
    concat(
        'Storage is not the problem: calls on files take ',
        printf('%,d', CAST(round(1e2 * f.cost_ns / e.work_ns) AS BIGINT)),
        ' % of the working time, the rest is computing.'
    ) AS title,
    CAST(NULL AS BIGINT) AS process,
    CAST(NULL AS BIGINT) AS thread,
    CAST(NULL AS BIGINT) AS file,
    f.ops AS ops,
    f.bytes AS bytes,
    f.cost_ns AS cost_ns,
    e.start_ts AS start_ts,
    e.end_ts AS end_ts,
    concat(
        printf('%,d', e.threads), ' threads worked ',
        printf('%,.3f', CAST(e.work_ns / 1e9 AS DECIMAL(18, 3))), ' s, ',
        printf('%,.3f', CAST(f.cost_ns / 1e9 AS DECIMAL(18, 3))), ' s of it in ', printf('%,d', f.ops),
        ' calls on files that moved ', printf('%,.1f', CAST(f.bytes / 1048576e0 AS DECIMAL(18, 1))),
        ' MiB; they waited ', printf('%,.3f', CAST(e.wait_ns / 1e9 AS DECIMAL(18, 3))),
        ' s for other things.'
    ) AS evidence,
    'Look at the computing with a profiler (perf record -g, py-spy, a flame graph).' AS advice
FROM found AS f
CROSS JOIN params AS p
CROSS JOIN effort AS e
CROSS JOIN (SELECT count(*) AS kinds FROM unseen WHERE kind = 'between_requests') AS u
WHERE u.kinds = 0
    AND f.ops >= p.min_ops
    AND f.cost_ns <= p.idle_share * e.work_ns
    AND 2 * e.work_ns >= e.wall_ns

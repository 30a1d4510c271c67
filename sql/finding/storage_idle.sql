-- Storage is not the problem: calls on files and page faults take hardly any of the working time, and the rest was
-- spent on CPUs or waiting for one. What else the report shows about I/O can be put right, but the program won't be
-- faster for it.
--
-- Only where that is known: the threads' CPU time was recorded, and what they did in no call is known for nearly all
-- of it. A note, always low.
--
-- @param idle_share DOUBLE 0.05: share of the working time that file calls take, up to which storage is not
--     the problem
-- @param known_share DOUBLE 0.1: share of working and unknown time together that may be unknown
-- @param cpu_share DOUBLE 0.2: share of the working time on a CPU or waiting for one from which a program computes
-- @param cpu_ns BIGINT 100000000 ns: less CPU time is nothing to look at
-- @requires activity, effort, unseen
WITH found AS (
    SELECT
        CAST(coalesce(sum(ops), 0) AS BIGINT) AS ops,
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
        ' % of the working time, computing ',
        printf('%,d', CAST(round(1e2 * (e.compute_ns + e.queued_ns) / e.work_ns) AS BIGINT)), ' %.'
    ) AS title,
    CAST(NULL AS VARCHAR) AS program,
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
        ' MiB; they were on a CPU ', printf('%,.3f', CAST(e.compute_ns / 1e9 AS DECIMAL(18, 3))),
        ' s, waited for one ', printf('%,.3f', CAST(e.queued_ns / 1e9 AS DECIMAL(18, 3))),
        ' s, for page faults ', printf('%,.3f', CAST(e.fault_ns / 1e9 AS DECIMAL(18, 3))),
        ' s, and ', printf('%,.3f', CAST(e.wait_ns / 1e9 AS DECIMAL(18, 3))),
        ' s for other things.'
    ) AS evidence,
    'Look at the computing with a profiler (perf record -g, py-spy, a flame graph).' AS advice
FROM found AS f
CROSS JOIN params AS p
CROSS JOIN effort AS e
CROSS JOIN (
    SELECT count(*) AS kinds
    FROM unseen
    WHERE kind IN ('between_requests', 'static_program', 'setuid_program', 'foreign_program', 'preload_removed',
        'io_uring_setup', 'io_uring_enter', 'native_aio', 'dropped')
) AS u
WHERE u.kinds = 0
    AND e.compute_ns >= p.cpu_ns
    AND e.compute_ns + e.queued_ns >= p.cpu_share * e.work_ns
    AND f.cost_ns + e.fault_ns <= p.idle_share * e.work_ns
    AND e.unknown_ns <= p.known_share * (e.work_ns + e.unknown_ns)
    AND 2e0 * e.work_ns >= e.wall_ns

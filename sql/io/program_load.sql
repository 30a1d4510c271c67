-- CPU time of the recorded programs, and bytes they sent and received through sockets: one row a machine. What
-- `iotrail model fit` keeps beside requests, from the first to the end of the last. Of a stretch of time that is only partly between
-- `load_from_ns` and `load_until_ns`, its CPU time has that share; a call counts where it begins.
--
-- @param load_from_ns BIGINT -9223372036854775807 ns: what was before isn't counted in program_load
-- @param load_until_ns BIGINT 9223372036854775807 ns: what was after isn't counted in program_load
-- @requires cpu_slice, thread_time, sync_op, unseen
-- @order node
-- @dimension node
-- @column node VARCHAR: machine
-- @column cpu_ns BIGINT ns: CPU time, by the kernel's scheduler where `record --kernel=cpu` ran and lost nothing, else by the
--     threads' own clocks; null unknown
-- @column sent BIGINT bytes: bytes sent; null where no waits were recorded, and where calls say how many messages they moved
-- @column received BIGINT bytes: bytes received; null as sent
WITH kernel AS (
    SELECT c.node, SUM(GREATEST(LEAST(c.ts + c.dur, p.load_until_ns) - GREATEST(c.ts, p.load_from_ns), 0)) AS cpu_ns
    FROM cpu_slice AS c
    CROSS JOIN params AS p
    ANTI JOIN unseen AS u ON u.node = c.node AND u.kind = 'kernel_dropped'
    WHERE c.kind = 'kernel'
    GROUP BY c.node
),

stretch AS (
    SELECT
        t.node,
        t.thread,
        t.source,
        CAST(t.cpu_ns AS DOUBLE) * GREATEST(LEAST(t.ts + t.dur, p.load_until_ns) - GREATEST(t.ts, p.load_from_ns), 0) / NULLIF(t.dur, 0)
            AS cpu_ns
    FROM thread_time AS t
    CROSS JOIN params AS p
),

by_thread AS (
    SELECT
        node,
        COALESCE(SUM(cpu_ns) FILTER (WHERE source = 'thread'), SUM(cpu_ns) FILTER (WHERE source = 'scheduler')) AS cpu_ns
    FROM stretch
    GROUP BY node, thread
),

clock AS (
    SELECT node, SUM(cpu_ns) AS cpu_ns
    FROM by_thread
    GROUP BY node
),

network AS (
    SELECT
        s.node,
        COALESCE(SUM(s.result) FILTER (WHERE s.is_moved AND (s.call LIKE 'send%' OR s.call LIKE '%write%')), 0) AS sent,
        COALESCE(SUM(s.result) FILTER (WHERE s.is_moved AND (s.call LIKE 'recv%' OR s.call LIKE '%read%')), 0) AS received,
        COUNT(*) FILTER (WHERE s.call IN ('sendmmsg', 'recvmmsg')) AS uncounted
    FROM (
        SELECT
            o.node,
            o.call,
            o.result,
            o.kind = 'socket' AND o.result > 0 AND o.ts BETWEEN p.load_from_ns AND p.load_until_ns AS is_moved
        FROM sync_op AS o
        CROSS JOIN params AS p
    ) AS s
    GROUP BY s.node
),

machine AS (
    SELECT node FROM kernel
    UNION
    SELECT node FROM clock
    UNION
    SELECT node FROM network
)

SELECT
    m.node,
    CAST(COALESCE(k.cpu_ns, c.cpu_ns) AS BIGINT) AS cpu_ns,
    CAST(CASE WHEN n.uncounted = 0 THEN n.sent END AS BIGINT) AS sent,
    CAST(CASE WHEN n.uncounted = 0 THEN n.received END AS BIGINT) AS received
FROM machine AS m
LEFT JOIN kernel AS k ON k.node = m.node
LEFT JOIN clock AS c ON c.node = m.node
LEFT JOIN network AS n ON n.node = m.node

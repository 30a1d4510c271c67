-- CPU time of the recorded programs, and bytes they sent and received through sockets: one row a machine. What
-- `iotrail model fit` keeps beside requests.
--
-- @requires cpu_slice, thread_time, sync_op, unseen
-- @order node
-- @dimension node
-- @column node VARCHAR: machine
-- @column cpu_ns BIGINT ns: CPU time, by the kernel's scheduler where `record --kernel=cpu` ran and lost nothing, else by the
--     threads' own clocks; null unknown
-- @column sent BIGINT bytes: bytes sent; null where no waits were recorded, and where calls say how many messages they moved
-- @column received BIGINT bytes: bytes received; null as sent
WITH kernel AS (
    SELECT c.node, SUM(c.dur) AS cpu_ns
    FROM cpu_slice AS c
    ANTI JOIN unseen AS u ON u.node = c.node AND u.kind = 'kernel_dropped'
    WHERE c.kind = 'kernel'
    GROUP BY c.node
),

by_thread AS (
    SELECT
        node,
        COALESCE(SUM(cpu_ns) FILTER (WHERE source = 'thread'), SUM(cpu_ns) FILTER (WHERE source = 'scheduler')) AS cpu_ns
    FROM thread_time
    GROUP BY node, thread
),

clock AS (
    SELECT node, SUM(cpu_ns) AS cpu_ns
    FROM by_thread
    GROUP BY node
),

network AS (
    SELECT
        node,
        COALESCE(SUM(result) FILTER (WHERE kind = 'socket' AND result > 0 AND (call LIKE 'send%' OR call LIKE '%write%')), 0) AS sent,
        COALESCE(SUM(result) FILTER (WHERE kind = 'socket' AND result > 0 AND (call LIKE 'recv%' OR call LIKE '%read%')), 0) AS received,
        COUNT(*) FILTER (WHERE call IN ('sendmmsg', 'recvmmsg')) AS uncounted
    FROM sync_op
    GROUP BY node
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

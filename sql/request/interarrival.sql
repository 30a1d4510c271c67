-- Arrivals at points of the system, one row each, with the time since the one before: requests where they enter,
-- messages where they are sent, requests of disks where they are queued (Stardust, SIGMETRICS 2006, figure 12).
-- Of a disk's requests those merged into another aren't in it: the disk never sees them.
-- Where a sample was collected, times between arrivals are those within one of its seconds.
--
-- @requires disk_request, network_transmit, request, service_op
-- @order level, node, place, ts
-- @dimension level, node, place
-- @measure n = count(*); mean_gap_ns = sum(gap_ns) / NULLIF(count(gap_ns), 0)
-- @column ts BIGINT ns: when, on the clock of its node
-- @column level VARCHAR: request, message or disk
-- @column node VARCHAR: machine; of a message the sender's
-- @column place VARCHAR: component that requests arrive at, sender of messages, disk
-- @column crumb BIGINT: breadcrumb; 0 none
-- @column gap_ns BIGINT ns: time since the arrival before it at this place; null the first, and in a sample
--     the first of a second
-- @column service_ns BIGINT ns: time it was served, without waiting; null unknown, as where nothing says when service began
-- @column response_ns BIGINT ns: time until it was done; null it never was, or nothing says
WITH arrived AS (
    SELECT
        ts,
        'request' AS level,
        node,
        component AS place,
        crumb,
        CAST(NULL AS BIGINT) AS service_ns,
        dur AS response_ns,
        NULLIF(weight, 1) AS weight
    FROM request
    UNION ALL
    SELECT ts, 'message', node, sender, crumb, NULL, NULL, weight
    FROM network_transmit
    WHERE COALESCE(weight, 1) > 0
    UNION ALL
    SELECT ts, 'disk', node, dev, crumb, NULLIF(service_ns, 0), end_ts - ts, weight
    FROM disk_request
    WHERE (service_ns > 0 OR end_ts IS NULL) AND n > 0
),

-- where a sample was collected
sampled AS (
    SELECT DISTINCT 'request' AS level, node, component AS place FROM service_op WHERE weight > 1
    UNION ALL
    SELECT DISTINCT 'message', node, sender FROM network_transmit WHERE weight > 1
    UNION ALL
    SELECT DISTINCT 'disk', node, dev FROM disk_request WHERE weight > 1
),

ordered AS (
    SELECT
        *,
        LAG(ts) OVER (PARTITION BY level, node, place ORDER BY ts NULLS LAST, crumb NULLS LAST) AS before_ts,
        LAG(weight) OVER (PARTITION BY level, node, place ORDER BY ts NULLS LAST, crumb NULLS LAST) AS before_weight
    FROM arrived
)

SELECT
    o.ts,
    o.level,
    o.node,
    o.place,
    o.crumb,
    CASE
        WHEN s.place IS NULL
            OR (o.weight > 1 AND o.before_weight > 1 AND o.ts - o.ts % 1000000000 = o.before_ts - o.before_ts % 1000000000)
            THEN o.ts - o.before_ts
    END AS gap_ns,
    o.service_ns,
    o.response_ns
FROM ordered AS o
LEFT JOIN sampled AS s ON s.level = o.level AND s.node = o.node AND s.place = o.place

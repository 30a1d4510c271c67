-- Arrivals at points of the system, one row each, with the time since the one before: requests where they enter,
-- messages where they are sent, requests of disks where they are queued (Stardust, SIGMETRICS 2006, figure 12).
-- Of a disk's requests those merged into another aren't in it: the disk never sees them.
--
-- @requires disk_request, network_transmit, request
-- @order level, node, place, ts
-- @dimension level, node, place
-- @measure n = count(*); mean_gap_ns = sum(gap_ns) / NULLIF(count(gap_ns), 0)
-- @column ts BIGINT ns: when, on the clock of its node
-- @column level VARCHAR: request, message or disk
-- @column node VARCHAR: machine; of a message the sender's
-- @column place VARCHAR: component that requests arrive at, sender of messages, disk
-- @column crumb BIGINT: breadcrumb; 0 none
-- @column gap_ns BIGINT ns: time since the arrival before it at this place; null the first
-- @column service_ns BIGINT ns: time it was served, without waiting; null unknown, as where nothing says when service began
-- @column response_ns BIGINT ns: time until it was done; null it never was, or nothing says
WITH arrived AS (
    SELECT ts, 'request' AS level, node, component AS place, crumb, CAST(NULL AS BIGINT) AS service_ns, dur AS response_ns
    FROM request
    UNION ALL
    SELECT ts, 'message', node, sender, crumb, NULL, NULL
    FROM network_transmit
    UNION ALL
    SELECT ts, 'disk', node, dev, crumb, NULLIF(service_ns, 0), end_ts - ts
    FROM disk_request
    WHERE service_ns > 0 OR end_ts IS NULL
)

SELECT
    ts,
    level,
    node,
    place,
    crumb,
    ts - LAG(ts) OVER (PARTITION BY level, node, place ORDER BY ts NULLS LAST, crumb NULLS LAST) AS gap_ns,
    service_ns,
    response_ns
FROM arrived

-- How busy each machine's resources were over time: one row a resource and time bucket in which it was used.
-- Of CPUs by what the kernel recorded (`iotrail record --kernel`), of disks by the requests they had, of the network by
-- the bytes sent. `SELECT node, resource, place, MAX(share) FROM utilization GROUP BY ALL` says what ever was saturated.
--
-- @param every_ns BIGINT 0 ns: width of a time bucket; 0 takes the smallest of 1, 2, 5, 10 … ns that
--     cuts the trail into at most 200. At most 1,000,000 buckets: a narrower width is widened tenfold until it fits
-- @param link_bytes_s BIGINT 0 bytes/s: what a machine's network can send; 0 unknown
-- @requires disk_queue, cpu_slice, network_transmit, recording, time_bucket, number
-- @order node, resource, place, ts
-- @dimension node, resource, place
-- @measure share = CAST(sum(busy_ns) AS DOUBLE) / NULLIF(sum(capacity_ns), 0); busy_ns = sum(busy_ns);
--     queue_depth = CAST(sum(queued_ns) AS DOUBLE) / NULLIF(sum(every_ns), 0); bytes = sum(bytes)
-- @column ts BIGINT ns: start of the time bucket, on the clock of the node
-- @column every_ns BIGINT ns: its width
-- @column node VARCHAR: machine
-- @column resource VARCHAR: cpu, disk or network
-- @column place VARCHAR: which disk; null the machine's CPUs, its network
-- @column busy_ns BIGINT ns: time in use, of all its CPUs together; null unknown
-- @column capacity_ns BIGINT ns: time it could have been in use; null unknown
-- @column share DOUBLE share: busy_ns of capacity_ns; null unknown
-- @column queued_ns BIGINT ns: time of a disk's requests, in its queue and in service, together; else 0
-- @column bytes BIGINT bytes: bytes sent; else 0
WITH width AS (
    -- as it was asked for: machines whose clocks are hours apart have few buckets each
    SELECT COALESCE(NULLIF((SELECT every_ns FROM params), 0), MAX(every_ns)) AS every_ns
    FROM time_bucket
),

used AS (
    SELECT node, 'disk' AS resource, dev AS place, ts, ts + dur AS end_ts, queue_depth, CAST(0 AS BIGINT) AS bytes
    FROM disk_queue
    WHERE queue_depth > 0
    UNION ALL
    SELECT node, 'cpu', NULL, ts, ts + dur, 0, 0
    FROM cpu_slice
    WHERE kind = 'kernel' AND dur > 0
    UNION ALL
    SELECT node, 'network', NULL, ts, ts, 0, length
    FROM network_transmit
),

placed AS (
    SELECT
        u.*,
        w.every_ns,
        u.ts - u.ts % w.every_ns AS first_ts,
        GREATEST(u.end_ts - 1, u.ts) - GREATEST(u.end_ts - 1, u.ts) % w.every_ns AS last_ts
    FROM used AS u
    CROSS JOIN width AS w
),

further AS (
    SELECT i
    FROM number
    WHERE i <= (SELECT MAX((last_ts - first_ts) / every_ns) FROM placed)
),

-- a use that reaches over several buckets is cut at their ends; there are few of those
cut AS (
    SELECT node, resource, place, first_ts AS ts, end_ts - ts AS busy_ns, queue_depth, bytes
    FROM placed
    WHERE first_ts = last_ts
    UNION ALL
    SELECT
        p.node,
        p.resource,
        p.place,
        p.first_ts + n.i * p.every_ns,
        LEAST(p.end_ts, p.first_ts + (n.i + 1) * p.every_ns) - GREATEST(p.ts, p.first_ts + n.i * p.every_ns),
        p.queue_depth,
        p.bytes
    FROM placed AS p
    INNER JOIN further AS n ON n.i * p.every_ns <= p.last_ts - p.first_ts
    WHERE p.first_ts < p.last_ts
),

summed AS (
    SELECT
        node,
        resource,
        place,
        ts,
        CAST(SUM(busy_ns) AS BIGINT) AS busy_ns,
        CAST(SUM(busy_ns * queue_depth) AS BIGINT) AS queued_ns,
        CAST(SUM(bytes) AS BIGINT) AS bytes
    FROM cut
    GROUP BY node, resource, place, ts
),

machine AS (
    SELECT node, MAX(CAST(value AS BIGINT)) AS cpus
    FROM recording
    WHERE name = 'cpus'
    GROUP BY node
),

known AS (
    SELECT
        s.ts,
        w.every_ns,
        s.node,
        s.resource,
        s.place,
        CASE
            WHEN s.resource <> 'network' THEN s.busy_ns
            -- a byte takes this long to send
            ELSE CAST(s.bytes * (1e9 / NULLIF((SELECT link_bytes_s FROM params), 0)) AS BIGINT)
        END AS busy_ns,
        CASE
            WHEN s.resource = 'cpu' THEN m.cpus * w.every_ns
            WHEN s.resource = 'disk' OR (SELECT link_bytes_s FROM params) > 0 THEN w.every_ns
        END AS capacity_ns,
        s.queued_ns,
        s.bytes
    FROM summed AS s
    CROSS JOIN width AS w
    LEFT JOIN machine AS m ON m.node = s.node
)

SELECT
    ts,
    every_ns,
    node,
    resource,
    place,
    busy_ns,
    capacity_ns,
    CAST(busy_ns AS DOUBLE) / NULLIF(capacity_ns, 0) AS share,
    queued_ns,
    bytes
FROM known

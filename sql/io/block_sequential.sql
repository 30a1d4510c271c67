-- How sequential the requests to devices are: one row a time bucket, device and kind.
-- A request is sequential if it goes on where one of those before it ended (module block_link says which).
--
-- @materialize
-- @requires block_link, block_device, time_bucket
-- @order device, kind, ts
-- @dimension node, dev, kind
-- @measure n = sum(n); bytes = sum(bytes); sequential = sum(sequential); sequential_bytes = sum(sequential_bytes);
--     sequential_share = CAST(sum(sequential) AS DOUBLE) / NULLIF(sum(n), 0)
-- @column ts BIGINT ns: start of the time bucket
-- @column device BIGINT: number of the device
-- @column node VARCHAR: machine
-- @column dev VARCHAR: device
-- @column kind VARCHAR: read or write
-- @column n BIGINT ops: requests at a known offset
-- @column bytes BIGINT bytes: bytes they asked for
-- @column sequential BIGINT ops: of them sequential ones
-- @column sequential_bytes BIGINT bytes: bytes those asked for
-- @column sequential_share DOUBLE share: sequential / n
WITH summed AS (
    SELECT
        ts - ts % (SELECT MAX(every_ns) FROM time_bucket) AS ts,
        device,
        is_write,
        COUNT(*) AS n,
        CAST(SUM(length) AS BIGINT) AS bytes,
        COUNT(after_turn) AS sequential,
        CAST(COALESCE(SUM(length) FILTER (WHERE after_turn IS NOT NULL), 0) AS BIGINT) AS sequential_bytes
    FROM block_link
    GROUP BY ts - ts % (SELECT MAX(every_ns) FROM time_bucket), device, is_write
)

SELECT
    s.ts,
    s.device,
    d.node,
    d.dev,
    CASE WHEN s.is_write THEN 'write' ELSE 'read' END AS kind,
    s.n,
    s.bytes,
    s.sequential,
    s.sequential_bytes,
    CAST(s.sequential AS DOUBLE) / s.n AS sequential_share
FROM summed AS s
INNER JOIN block_device AS d ON d.device = s.device

-- Sizes of requests to devices: one row a time bucket, device, kind and power of two.
-- By the bytes asked for; a request counts in the time bucket in which it was issued.
--
-- @materialize
-- @requires block_request, block_device, time_bucket
-- @order device, kind, size, ts
-- @dimension node, dev, kind, size
-- @measure n = sum(n); bytes = sum(bytes)
-- @column ts BIGINT ns: start of the time bucket
-- @column device BIGINT: number of the device
-- @column node VARCHAR: machine
-- @column dev VARCHAR: device
-- @column kind VARCHAR: read or write
-- @column size BIGINT bytes: sizes from here to below twice this; 0 no length
-- @column n BIGINT ops: requests
-- @column bytes BIGINT bytes: bytes they asked for
WITH by_length AS (
    -- few different lengths are the rule: their logarithm is taken once each
    SELECT
        ts - ts % (SELECT MAX(every_ns) FROM time_bucket) AS ts,
        device,
        is_write,
        COALESCE(length, 0) AS length,
        COUNT(*) AS n
    FROM block_request
    GROUP BY ts - ts % (SELECT MAX(every_ns) FROM time_bucket), device, is_write, COALESCE(length, 0)
),

by_octave AS (
    SELECT
        ts,
        device,
        is_write,
        -- exact for lengths below 2^48
        CASE WHEN length <= 0 THEN -1 ELSE CAST(FLOOR(LOG2(length)) AS INTEGER) END AS octave,
        SUM(n) AS n,
        SUM(n * length) AS bytes
    FROM by_length
    GROUP BY 1, 2, 3, 4
)

SELECT
    o.ts,
    o.device,
    d.node,
    d.dev,
    CASE WHEN o.is_write THEN 'write' ELSE 'read' END AS kind,
    CASE WHEN o.octave < 0 THEN 0 ELSE CAST(POWER(2, o.octave) AS BIGINT) END AS size,
    CAST(o.n AS BIGINT) AS n,
    CAST(o.bytes AS BIGINT) AS bytes
FROM by_octave AS o
INNER JOIN block_device AS d ON d.device = o.device

-- Times between requests to a device as a log-linear histogram: one row a time bucket, device, kind and bucket.
-- A gap of kind read is the time from one read to the next, of kind write from one write to the next, of kind all between any
-- two reads and writes. It counts in the time bucket of the later request. Devices of traces without times aren't in it. Gaps
-- are as fine as the trace's times (tick_ns of block_device): within a tick they are 0.
--
-- @materialize
-- @requires block_request, block_device, time_bucket
-- @order device, kind, bucket, ts
-- @dimension node, dev, kind, bucket, gap
-- @measure n = sum(n)
-- @column ts BIGINT ns: start of the time bucket
-- @column device BIGINT: number of the device
-- @column node VARCHAR: machine
-- @column dev VARCHAR: device
-- @column kind VARCHAR: all, read or write
-- @column bucket BIGINT: index of the bucket, 32 an octave
-- @column gap BIGINT ns: smallest gap of the bucket; the next bucket begins at most 1/32 above
-- @column n BIGINT ops: gaps in the bucket
WITH timed AS (
    SELECT r.device, r.is_write, r.ts
    FROM block_request AS r
    SEMI JOIN (SELECT device FROM block_device WHERE tick_ns IS NOT NULL) AS d ON d.device = r.device
),

step AS (
    SELECT
        device,
        is_write,
        ts,
        ts - LAG(ts) OVER (PARTITION BY device ORDER BY ts NULLS LAST) AS gap,
        ts - LAG(ts) OVER (PARTITION BY device, is_write ORDER BY ts NULLS LAST) AS kind_gap
    FROM timed
),

counted AS (
    SELECT
        ts - ts % (SELECT MAX(every_ns) FROM time_bucket) AS ts,
        device,
        'all' AS kind,
        gap,
        COUNT(*) AS n
    FROM step
    WHERE gap IS NOT NULL
    GROUP BY ts - ts % (SELECT MAX(every_ns) FROM time_bucket), device, gap
    UNION ALL
    SELECT
        ts - ts % (SELECT MAX(every_ns) FROM time_bucket),
        device,
        CASE WHEN is_write THEN 'write' ELSE 'read' END,
        kind_gap,
        COUNT(*)
    FROM step
    WHERE kind_gap IS NOT NULL
    GROUP BY ts - ts % (SELECT MAX(every_ns) FROM time_bucket), device, is_write, kind_gap
),

placed AS (
    SELECT
        ts,
        device,
        kind,
        gap,
        n,
        -- log2 may round up just below a power of two: >> tells
        CAST(FLOOR(LOG2(GREATEST(gap, 1))) AS INTEGER)
        - CASE WHEN GREATEST(gap, 1) >> CAST(FLOOR(LOG2(GREATEST(gap, 1))) AS INTEGER) = 0 THEN 1 ELSE 0 END
            AS octave
    FROM counted
),

summed AS (
    SELECT
        ts,
        device,
        kind,
        CASE WHEN gap < 32 THEN gap ELSE CAST((octave - 5) * 32 + (gap >> GREATEST(octave - 5, 0)) AS BIGINT) END
            AS bucket,
        CAST(SUM(n) AS BIGINT) AS n
    FROM placed
    GROUP BY 1, 2, 3, 4
)

SELECT
    s.ts,
    s.device,
    d.node,
    d.dev,
    s.kind,
    s.bucket,
    CASE
        WHEN s.bucket < 64 THEN s.bucket
        ELSE (32 + s.bucket % 32) * CAST(POWER(2, (s.bucket - s.bucket % 32) / 32 - 1) AS BIGINT)
    END AS gap,
    s.n
FROM summed AS s
INNER JOIN block_device AS d ON d.device = s.device

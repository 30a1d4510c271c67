-- Where and when each device is read and written: one row a device, time bucket and offset bucket.
-- As module heat, of requests to devices, and only of the part of the device between its smallest and largest offset: offset
-- buckets are as small a power of two as cuts that part into at most heat_rows. A request counts where and when it begins.
--
-- @param heat_rows BIGINT 64: offset buckets a file at most
-- @requires block_request, block_device, time_bucket
-- @order device, ts, pos
-- @dimension node, dev, pos
-- @measure reads = sum(reads); writes = sum(writes); bytes_read = sum(bytes_read); bytes_written = sum(bytes_written)
-- @column ts BIGINT ns: start of the time bucket
-- @column device BIGINT: number of the device
-- @column node VARCHAR: machine
-- @column dev VARCHAR: device
-- @column pos BIGINT bytes: start of the offset bucket, a multiple of width
-- @column width BIGINT bytes: width of the device's offset buckets
-- @column reads BIGINT ops: reads
-- @column writes BIGINT ops: writes
-- @column bytes_read BIGINT bytes: bytes the reads asked for
-- @column bytes_written BIGINT bytes: bytes the writes asked for
WITH extent AS (
    SELECT
        d.device,
        d.node,
        d.dev,
        -- so wide that one less than heat_rows of them are longer than the part: it may begin within the first
        CAST(
            POWER(
                2,
                GREATEST(
                    0,
                    CEIL(LOG2(CAST(d.end_pos - d.min_pos AS DOUBLE) / GREATEST(p.heat_rows - 1, 1)))
                )
            ) AS BIGINT
        ) AS width
    FROM block_device AS d
    CROSS JOIN params AS p
    WHERE d.end_pos > d.min_pos
),

summed AS (
    SELECT
        r.ts - r.ts % b.every_ns AS ts,
        r.device,
        r.pos - r.pos % e.width AS pos,
        COUNT(*) FILTER (WHERE NOT r.is_write) AS reads,
        COUNT(*) FILTER (WHERE r.is_write) AS writes,
        CAST(COALESCE(SUM(r.length) FILTER (WHERE NOT r.is_write), 0) AS BIGINT) AS bytes_read,
        CAST(COALESCE(SUM(r.length) FILTER (WHERE r.is_write), 0) AS BIGINT) AS bytes_written
    FROM block_request AS r
    INNER JOIN extent AS e ON e.device = r.device
    CROSS JOIN (SELECT MAX(every_ns) AS every_ns FROM time_bucket) AS b
    WHERE r.pos IS NOT NULL
    GROUP BY r.ts - r.ts % b.every_ns, r.device, r.pos - r.pos % e.width
)

SELECT
    s.ts,
    s.device,
    e.node,
    e.dev,
    s.pos,
    e.width,
    s.reads,
    s.writes,
    s.bytes_read,
    s.bytes_written
FROM summed AS s
INNER JOIN extent AS e ON e.device = s.device

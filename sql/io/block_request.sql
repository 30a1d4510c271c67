-- Reads and writes of block traces, one row a request: what the modules on block traces read.
-- Of imported traces the requests, of `record --kernel` what was queued on disks, before the kernel merges or cuts it.
-- Numbers stand for devices (module block_device), because these rows are sorted.
--
-- @requires block_device, file_op, call, disk_op
-- @order device, ts, trace_row
-- @column device BIGINT: number of the device
-- @column is_write BOOLEAN: true a write, false a read
-- @column ts BIGINT ns: when it was issued, or queued
-- @column dur BIGINT ns: response time; null unknown, or it never completed
-- @column trace_row BIGINT: row in the imported trace, which orders requests of equal ts; null of `record --kernel`
-- @column pos BIGINT bytes: offset on the device; null unknown, or where length is 0 or 4 GiB and more
-- @column length BIGINT bytes: bytes asked for; null unknown
SELECT
    CAST(d.device AS BIGINT) AS device,
    c.kind = 'write' AS is_write,
    o.ts,
    o.dur,
    o.trace_row,
    CASE WHEN o.length BETWEEN 1 AND 4294967295 THEN o.pos END AS pos,
    o.length
FROM file_op AS o
INNER JOIN call AS c ON c.call = o.call
INNER JOIN block_device AS d ON d.node = o.node AND d.file = o.file
WHERE c.kind IN ('read', 'write')
UNION ALL
SELECT
    d.device,
    o.op = 'write',
    o.ts,
    o.dur,
    NULL,
    CASE WHEN o.length BETWEEN 1 AND 4294967295 THEN o.pos END,
    o.length
FROM disk_op AS o
INNER JOIN block_device AS d ON d.file IS NULL AND d.node = o.node AND d.dev = o.dev
WHERE o.kind = 'kernel' AND o.op IN ('read', 'write')

-- Requests to disks and devices, flushes and discards included: what `iotrail whatif device` runs on other devices.
-- Of a block trace its requests; of `record --kernel` what was queued on disks, before the kernel merges or cuts it; of an
-- emulated disk what it answered; without those what programs posted of their disks. Disks of which a sample was collected
-- are left out, as in block_device.
--
-- @requires block_device, file_op, call, disk_op
-- @order ts, device, pos
-- @column device BIGINT: number of the device; of block_device; negative of disks that an emulation or a program tells of
-- @column ts BIGINT ns: when it was issued, or queued
-- @column dur BIGINT ns: response time; null unknown, or it never completed
-- @column op BIGINT: 0 read, 1 write, 2 flush, 3 discard
-- @column pos BIGINT bytes: offset on the device; 0 of a flush; null unknown
-- @column length BIGINT bytes: bytes asked for; 0 of a flush; null unknown
-- @column flags BIGINT: as of disk_op; null unknown
-- @column trace_row BIGINT: row of an imported trace; null of disk_op
-- @column node VARCHAR: machine, of an imported trace the trace
WITH seen AS (
    SELECT CASE
        WHEN COUNT(*) FILTER (WHERE d.kind = 'kernel') > 0 THEN 'kernel'
        WHEN COUNT(*) FILTER (WHERE d.kind = 'emulated') > 0 THEN 'emulated'
        ELSE 'program'
    END AS kind
    FROM disk_op AS d
),

disk AS (
    SELECT
        used.node,
        used.dev,
        -ROW_NUMBER() OVER (ORDER BY used.node, used.dev) AS device
    FROM (SELECT DISTINCT node, dev FROM disk_op) AS used
)

SELECT
    CAST(d.device AS BIGINT) AS device,
    o.ts,
    o.dur,
    CAST(CASE c.kind WHEN 'read' THEN 0 WHEN 'write' THEN 1 WHEN 'flush' THEN 2 ELSE 3 END AS BIGINT) AS op,
    CASE WHEN c.kind = 'flush' THEN 0 ELSE o.pos END AS pos,
    CASE WHEN c.kind = 'flush' THEN 0 ELSE o.length END AS length,
    CAST(NULL AS BIGINT) AS flags,
    o.trace_row,
    o.node
FROM file_op AS o
INNER JOIN call AS c ON c.call = o.call
INNER JOIN block_device AS d ON d.node = o.node AND d.file = o.file
-- FALLOC_FL_PUNCH_HOLE: a discard
WHERE c.kind IN ('read', 'write', 'flush') OR (o.call = 'fallocate' AND (o.flags & 2) = 2)
UNION ALL
SELECT
    CAST(d.device AS BIGINT),
    o.ts,
    o.dur,
    CAST(CASE o.op WHEN 'read' THEN 0 WHEN 'write' THEN 1 WHEN 'flush' THEN 2 ELSE 3 END AS BIGINT),
    CASE WHEN o.op = 'flush' THEN 0 ELSE o.pos END,
    CASE WHEN o.op = 'flush' THEN 0 ELSE o.length END,
    o.flags,
    NULL,
    o.node
FROM disk_op AS o
INNER JOIN block_device AS d ON d.file IS NULL AND d.node = o.node AND d.dev = o.dev
WHERE o.kind = 'kernel' AND o.op IN ('read', 'write', 'flush', 'discard')
UNION ALL
SELECT
    CAST(k.device AS BIGINT),
    o.ts,
    o.dur,
    CAST(CASE o.op WHEN 'read' THEN 0 WHEN 'write' THEN 1 WHEN 'flush' THEN 2 ELSE 3 END AS BIGINT),
    CASE WHEN o.op = 'flush' THEN 0 ELSE o.pos END,
    CASE WHEN o.op = 'flush' THEN 0 ELSE o.length END,
    o.flags,
    NULL,
    o.node
FROM disk_op AS o
INNER JOIN seen AS s ON s.kind = o.kind
INNER JOIN disk AS k ON k.node = o.node AND k.dev = o.dev
WHERE o.kind <> 'kernel' AND o.op IN ('read', 'write', 'flush', 'discard')

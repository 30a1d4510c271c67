-- Requests to disks, one row each: how many, how long they were queued and served.
-- Where kernel and program both posted a disk's I/O (module disk_twice), the kernel's rows count.
--
-- @requires disk_op, disk_twice
-- @order ts
-- @dimension node, dev, op
-- @measure n = sum(n); queued_ns = sum(queued_ns * n); service_ns = sum(service_ns * n); bytes = sum(bytes * n)
-- @column ts BIGINT ns: when it was queued, on the clock of its node
-- @column end_ts BIGINT ns: when it was completed; null if it never was
-- @column node VARCHAR: machine
-- @column crumb BIGINT: breadcrumb; 0 none
-- @column dev VARCHAR: disk
-- @column op VARCHAR: read, write, flush, discard …
-- @column n BIGINT ops: requests it stands for: 1, but in a sample, where 0 is one collected for the paths of others
-- @column queued_ns BIGINT ns: time until the disk got it; 0 unknown
-- @column service_ns BIGINT ns: time from then until it was completed; 0 if it never was, or was merged into another
-- @column bytes BIGINT bytes: bytes read or written
-- @column pruned BIGINT: 1 if rollups count it already; null not
-- @column weight BIGINT ops: as n; null where no sample was collected
SELECT
    d.ts,
    d.ts + d.dur AS end_ts,
    d.node,
    d.crumb,
    d.dev,
    d.op,
    COALESCE(d.weight, 1) AS n,
    GREATEST(COALESCE(d.issued - d.ts, 0), 0) AS queued_ns,
    CASE
        WHEN d.merged <> 0 OR d.dur IS NULL THEN 0
        ELSE GREATEST(d.ts + d.dur - COALESCE(d.issued, d.ts), 0)
    END AS service_ns,
    COALESCE(d.length, 0) AS bytes,
    d.pruned,
    d.weight
FROM disk_op AS d
LEFT JOIN disk_twice AS k ON k.node = d.node AND k.dev = d.dev
WHERE k.dev IS NULL OR d.kind = 'kernel'

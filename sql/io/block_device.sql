-- Devices of block traces, one row each: of imported traces of requests, and the disks that `record --kernel` saw.
-- No rows in trails of programs. An imported trace says of itself that it has requests only (table `unseen`, kind
-- between_requests); each file its requests are on is a device. Left out are disks of which a sample was collected or
-- a part was pruned: their requests aren't all there. A request of 4 GiB or more counts as one of which nobody knows where it
-- is: no kernel makes one (bi_size has 32 bits: include/linux/blk_types.h).
--
-- @materialize
-- @requires file_op, call, file, unseen, recording, disk_op, kernel_seen
-- @order device
-- @dimension node, dev
-- @measure reads = sum(reads); writes = sum(writes); others = sum(others); bytes_read = sum(bytes_read);
--     bytes_written = sum(bytes_written)
-- @column device BIGINT: number of the device, from 1, most reads and writes first
-- @column node VARCHAR: machine, of an imported trace the trace
-- @column dev VARCHAR: path or name of the device; '(unknown file)' without one
-- @column file BIGINT: its file in an imported trace; null for disks of `record --kernel`
-- @column reads BIGINT ops: reads
-- @column writes BIGINT ops: writes
-- @column others BIGINT ops: flushes, discards (fallocate) and other requests that are no reads or writes
-- @column unplaced BIGINT ops: reads and writes at no known offset, of no length, or of 4 GiB and more
-- @column bytes_read BIGINT bytes: bytes the reads asked for
-- @column bytes_written BIGINT bytes: bytes the writes asked for
-- @column min_pos BIGINT bytes: smallest offset of a read or write; null none is known
-- @column end_pos BIGINT bytes: where the read or write that reaches farthest ends; null as min_pos
-- @column tick_ns BIGINT ns: times are multiples of this: 1 s, 1 ms, 1 us, 100 ns or 1 ns; null where the trace has no times
-- @column start_ts BIGINT ns: start of the first read or write; null none
-- @column end_ts BIGINT ns: start of the last
WITH traced AS (
    SELECT DISTINCT node
    FROM unseen
    WHERE kind = 'between_requests'
),

untimed AS (
    SELECT DISTINCT node
    FROM recording
    WHERE name = 'time_unit' AND value = 'none'
),

known_disk AS (
    SELECT d.node, d.dev
    FROM disk_op AS d
    ANTI JOIN kernel_seen AS k ON k.node = d.node AND k.dev = d.dev
    WHERE d.kind = 'kernel'
    GROUP BY d.node, d.dev
    HAVING COUNT(d.weight) = 0
),

summed AS (
    SELECT
        o.node,
        o.file,
        CAST(NULL AS VARCHAR) AS disk,
        COUNT(*) FILTER (WHERE c.kind = 'read') AS reads,
        COUNT(*) FILTER (WHERE c.kind = 'write') AS writes,
        COUNT(*) FILTER (WHERE c.kind = 'flush' OR o.call = 'fallocate') AS others,
        COUNT(*) FILTER (WHERE c.kind IN ('read', 'write') AND (o.pos IS NULL OR COALESCE(o.length, 0) NOT BETWEEN 1 AND 4294967295)) AS unplaced,
        CAST(COALESCE(SUM(o.length) FILTER (WHERE c.kind = 'read'), 0) AS BIGINT) AS bytes_read,
        CAST(COALESCE(SUM(o.length) FILTER (WHERE c.kind = 'write'), 0) AS BIGINT) AS bytes_written,
        MIN(o.pos) FILTER (WHERE c.kind IN ('read', 'write') AND o.length BETWEEN 1 AND 4294967295) AS min_pos,
        MAX(o.pos + o.length) FILTER (WHERE c.kind IN ('read', 'write') AND o.length BETWEEN 1 AND 4294967295) AS end_pos,
        CASE
            WHEN MAX(o.ts % 1000000000) = 0 THEN 1000000000
            WHEN MAX(o.ts % 1000000) = 0 THEN 1000000
            WHEN MAX(o.ts % 1000) = 0 THEN 1000
            WHEN MAX(o.ts % 100) = 0 THEN 100
            ELSE 1
        END AS tick_ns,
        MIN(o.ts) FILTER (WHERE c.kind IN ('read', 'write')) AS start_ts,
        MAX(o.ts) FILTER (WHERE c.kind IN ('read', 'write')) AS end_ts
    FROM file_op AS o
    INNER JOIN call AS c ON c.call = o.call
    SEMI JOIN traced AS t ON t.node = o.node
    WHERE o.file IS NOT NULL
    GROUP BY o.node, o.file
    UNION ALL
    SELECT
        d.node,
        NULL,
        d.dev,
        COUNT(*) FILTER (WHERE d.op = 'read'),
        COUNT(*) FILTER (WHERE d.op = 'write'),
        COUNT(*) FILTER (WHERE d.op NOT IN ('read', 'write')),
        COUNT(*) FILTER (WHERE d.op IN ('read', 'write') AND (d.pos IS NULL OR COALESCE(d.length, 0) NOT BETWEEN 1 AND 4294967295)),
        CAST(COALESCE(SUM(d.length) FILTER (WHERE d.op = 'read'), 0) AS BIGINT),
        CAST(COALESCE(SUM(d.length) FILTER (WHERE d.op = 'write'), 0) AS BIGINT),
        MIN(d.pos) FILTER (WHERE d.op IN ('read', 'write') AND d.length BETWEEN 1 AND 4294967295),
        MAX(d.pos + d.length) FILTER (WHERE d.op IN ('read', 'write') AND d.length BETWEEN 1 AND 4294967295),
        1,
        MIN(d.ts) FILTER (WHERE d.op IN ('read', 'write')),
        MAX(d.ts) FILTER (WHERE d.op IN ('read', 'write'))
    FROM disk_op AS d
    SEMI JOIN known_disk AS k ON k.node = d.node AND k.dev = d.dev
    WHERE d.kind = 'kernel'
    GROUP BY d.node, d.dev
)

SELECT
    CAST(
        ROW_NUMBER() OVER (
            ORDER BY s.reads + s.writes DESC NULLS LAST, s.node NULLS LAST, f.path NULLS LAST, s.file NULLS LAST, s.disk NULLS LAST
        ) AS BIGINT
    ) AS device,
    s.node,
    COALESCE(s.disk, f.path, '(unknown file)') AS dev,
    s.file,
    s.reads,
    s.writes,
    s.others,
    s.unplaced,
    s.bytes_read,
    s.bytes_written,
    s.min_pos,
    s.end_pos,
    CASE WHEN u.node IS NULL THEN CAST(s.tick_ns AS BIGINT) END AS tick_ns,
    s.start_ts,
    s.end_ts
FROM summed AS s
LEFT JOIN (
    SELECT node, file, MAX(path) AS path
    FROM file
    GROUP BY node, file
) AS f ON f.node = s.node AND f.file = s.file
LEFT JOIN untimed AS u ON u.node = s.node
WHERE s.reads + s.writes > 0

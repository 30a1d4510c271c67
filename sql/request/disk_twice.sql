-- Disks whose I/O both kernel and program posted, by each name: of them the kernel's rows count. That is a disk that both
-- name alike, and one that the program names in its own way, if in at least half of its reads and writes lies one of the
-- kernel's, from beginning to end, of the same thread.
--
-- @materialize
-- @requires disk_op, kernel_seen
-- @order node, dev
-- @column node VARCHAR: machine
-- @column dev VARCHAR: disk, as the kernel or as the program names it
WITH kernel_disk AS (
    SELECT node, dev
    FROM disk_op
    WHERE kind = 'kernel'
    UNION
    SELECT node, dev
    FROM kernel_seen
    WHERE dev IS NOT NULL
),

-- reads and writes of machines whose kernel was recorded, with the first end of one of the kernel's that their thread
-- began since
posted AS (
    SELECT
        d.node,
        d.dev,
        d.kind,
        d.ts + d.dur AS end_ts,
        MIN(CASE WHEN d.kind = 'kernel' THEN d.ts + d.dur END) OVER (
            PARTITION BY d.node, d.thread, d.op
            ORDER BY d.ts NULLS LAST
            ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING
        ) AS done_ts
    FROM disk_op AS d
    INNER JOIN (SELECT DISTINCT node FROM disk_op WHERE kind = 'kernel') AS k ON k.node = d.node
    WHERE d.op IN ('read', 'write') AND d.length > 0
),

named_otherwise AS (
    SELECT node, dev
    FROM posted
    WHERE kind = 'program'
    GROUP BY node, dev
    HAVING 2 * SUM(CASE WHEN done_ts <= end_ts THEN 1 ELSE 0 END) >= COUNT(*)
)

SELECT node, dev
FROM kernel_disk
UNION
SELECT node, dev
FROM named_otherwise

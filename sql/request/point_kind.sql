-- The kinds of points that requests pass: one row an operation, access or disk request and which moment of it.
-- Messages and CPU time are no points: what they take is between the points around them.
--
-- @param by_node BOOLEAN false: whether points on different machines are different ones
-- @materialize
-- @requires service_op, buffer_op, disk_op, step_rollup
-- @order point_kind
-- @dimension component, name, moment
-- @measure n = count(*)
-- @column point_kind BIGINT: its number, the same for all points of this kind in this trail
-- @column record VARCHAR: table it is from
-- @column component VARCHAR: part of the system; disk for disks
-- @column name VARCHAR: what is done, with the cache or disk
-- @column moment VARCHAR: arrival, reply (server); call, return (client); begin, end (others);
--     queued, issued, done (disk); null an instant
-- @column kind VARCHAR: as the record says
-- @column op VARCHAR: as the record says: op of services and disks
-- @column place VARCHAR: cache or disk; null services
-- @column moment_number BIGINT: 0 start, 1 end, 2 instant, 3 issued
-- @column node VARCHAR: machine; null without by_node, and of what was pruned
WITH seen AS (
    SELECT DISTINCT
        'service_op' AS record, s.component, s.kind, s.op, CAST(NULL AS VARCHAR) AS place,
        CASE WHEN p.by_node THEN s.node END AS node
    FROM service_op AS s
    CROSS JOIN params AS p
    WHERE s.crumb <> 0
    UNION ALL
    SELECT DISTINCT
        'buffer_op', b.component, b.kind, CAST(NULL AS VARCHAR), b.cache, CASE WHEN p.by_node THEN b.node END
    FROM buffer_op AS b
    CROSS JOIN params AS p
    WHERE b.crumb <> 0 AND b.pruned IS NULL
    UNION ALL
    SELECT DISTINCT 'disk_op', 'disk', d.kind, d.op, d.dev, CASE WHEN p.by_node THEN d.node END
    FROM disk_op AS d
    CROSS JOIN params AS p
    WHERE d.crumb <> 0 AND d.pruned IS NULL
    UNION ALL
    SELECT DISTINCT from_record, from_component, from_kind, from_op, from_place, NULL
    FROM step_rollup
    UNION ALL
    SELECT DISTINCT to_record, to_component, to_kind, to_op, to_place, NULL
    FROM step_rollup
),

numbered AS (
    SELECT
        *,
        ROW_NUMBER() OVER (
            ORDER BY
                record NULLS LAST, component NULLS LAST, kind NULLS LAST, op NULLS LAST, place NULLS LAST,
                node NULLS LAST
        ) AS i
    FROM (SELECT DISTINCT * FROM seen) AS kind
)

SELECT
    n.i * 4 + m.m AS point_kind,
    n.record,
    n.component,
    CASE n.record
        WHEN 'service_op' THEN n.op
        WHEN 'buffer_op' THEN concat(n.place, ' ', n.kind)
        ELSE concat(n.place, ' ', n.op, CASE WHEN n.kind = 'kernel' THEN ' (kernel)' ELSE '' END)
    END AS name,
    CASE m.m
        WHEN 0 THEN
            CASE
                WHEN n.record = 'disk_op' THEN 'queued'
                WHEN n.kind = 'server' THEN 'arrival'
                WHEN n.kind = 'client' THEN 'call'
                ELSE 'begin'
            END
        WHEN 1 THEN
            CASE
                WHEN n.record = 'disk_op' THEN 'done'
                WHEN n.kind = 'server' THEN 'reply'
                WHEN n.kind = 'client' THEN 'return'
                ELSE 'end'
            END
        WHEN 3 THEN 'issued'
    END AS moment,
    n.kind,
    n.op,
    n.place,
    CAST(m.m AS BIGINT) AS moment_number,
    n.node
FROM numbered AS n
CROSS JOIN (VALUES (0), (1), (2), (3)) AS m (m)
WHERE m.m <> 3 OR n.record = 'disk_op'

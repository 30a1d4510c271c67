-- The points that requests passed, in the order of their breadcrumb: one row an end of an operation, of an access to
-- a cache or of a disk request; one for what took no time.
--
-- @param by_node BOOLEAN false: whether points on different machines are different ones
-- @materialize
-- @requires service_op, buffer_op, disk_op, point_kind
-- @order node, crumb, seq
-- @dimension node, crumb, point_kind
-- @measure n = count(*)
-- @column node VARCHAR: machine
-- @column crumb BIGINT: breadcrumb
-- @column seq BIGINT: its place among the breadcrumb's points, from 1; where several are at one moment, what holds
--     others begins before them and ends after them
-- @column ts BIGINT ns: when, on the clock of its machine
-- @column point_kind BIGINT: see module point_kind
-- @column role VARCHAR: arrival, reply, call, return, begin, end of a service; null others
-- @column before_ts BIGINT ns: when the point before it was; null the first
-- @column before_kind BIGINT: what the point before it was; null the first
WITH kind AS (
    -- of pruned requests there are kinds without a machine beside those with one
    SELECT k.*
    FROM point_kind AS k
    CROSS JOIN params AS p
    WHERE k.moment_number = 0 AND (k.node IS NOT NULL OR NOT p.by_node)
),

service AS (
    SELECT s.node, s.crumb, s.ts, s.dur, k.point_kind, k.kind
    FROM service_op AS s
    INNER JOIN kind AS k
        ON k.record = 'service_op' AND k.component = s.component AND k.kind = s.kind AND k.op = s.op
        AND (k.node IS NULL OR k.node = s.node)
    WHERE s.crumb <> 0
),

access AS (
    SELECT b.node, b.crumb, b.ts, b.dur, k.point_kind
    FROM buffer_op AS b
    INNER JOIN kind AS k
        ON k.record = 'buffer_op' AND k.component = b.component AND k.kind = b.kind AND k.place = b.cache
        AND (k.node IS NULL OR k.node = b.node)
    WHERE b.crumb <> 0 AND b.pruned IS NULL
),

disk AS (
    SELECT d.node, d.crumb, d.ts, d.dur, d.issued, k.point_kind
    FROM disk_op AS d
    INNER JOIN kind AS k
        ON k.record = 'disk_op' AND k.kind = d.kind AND k.op = d.op AND k.place = d.dev
        AND (k.node IS NULL OR k.node = d.node)
    WHERE d.crumb <> 0 AND d.pruned IS NULL
),

-- place: at one moment a serving begins first and ends last; of the others what ends comes before what begins;
-- what is longer begins first and ends last
passed AS (
    SELECT
        node,
        crumb,
        ts,
        CASE WHEN kind = 'server' THEN 0 ELSE 3 END AS place,
        -COALESCE(dur, 0) AS longer,
        point_kind,
        CASE kind WHEN 'server' THEN 'arrival' WHEN 'client' THEN 'call' ELSE 'begin' END AS role
    FROM service
    WHERE kind <> 'event'
    UNION ALL
    SELECT
        node,
        crumb,
        ts + dur,
        CASE WHEN kind = 'server' THEN 5 WHEN dur = 0 THEN 4 ELSE 1 END,
        dur,
        point_kind + 1,
        CASE kind WHEN 'server' THEN 'reply' WHEN 'client' THEN 'return' ELSE 'end' END
    FROM service
    WHERE dur IS NOT NULL AND kind <> 'event'
    UNION ALL
    SELECT node, crumb, ts, 2, 0, point_kind + 2, NULL FROM service WHERE kind = 'event'
    UNION ALL
    SELECT node, crumb, ts, 2, 0, point_kind + 2, NULL FROM access WHERE dur = 0
    UNION ALL
    SELECT node, crumb, ts, 3, -COALESCE(dur, 0), point_kind, NULL FROM access WHERE dur IS NULL OR dur <> 0
    UNION ALL
    SELECT node, crumb, ts + dur, 1, dur, point_kind + 1, NULL FROM access WHERE dur <> 0
    UNION ALL
    SELECT node, crumb, ts, 3, -COALESCE(dur, 0), point_kind, NULL FROM disk
    UNION ALL
    SELECT node, crumb, issued, 3, 0, point_kind + 3, NULL FROM disk WHERE issued IS NOT NULL
    UNION ALL
    SELECT node, crumb, ts + dur, CASE WHEN dur = 0 THEN 4 ELSE 1 END, dur, point_kind + 1, NULL
    FROM disk
    WHERE dur IS NOT NULL
)

SELECT
    node,
    crumb,
    ROW_NUMBER() OVER (
        PARTITION BY node, crumb
        ORDER BY ts NULLS LAST, place NULLS LAST, longer NULLS LAST, point_kind NULLS LAST
    ) AS seq,
    ts,
    point_kind,
    role,
    LAG(ts) OVER (
        PARTITION BY node, crumb
        ORDER BY ts NULLS LAST, place NULLS LAST, longer NULLS LAST, point_kind NULLS LAST
    ) AS before_ts,
    LAG(point_kind) OVER (
        PARTITION BY node, crumb
        ORDER BY ts NULLS LAST, place NULLS LAST, longer NULLS LAST, point_kind NULLS LAST
    ) AS before_kind
FROM passed

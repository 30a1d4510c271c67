-- Which request to a device goes on where another ended: one row a read or write at a known offset.
-- A request follows the last one of its device and kind that ended where it begins, if no other request followed that one, and if
-- it is one of the stream_requests before it: requests of several streams come mixed. vscsiStats looks back over 16
-- (Ahmad, "Easy and Efficient Disk I/O Workload Characterization in VMware ESX Server", IISWC 2007).
--
-- @materialize
-- @param stream_requests BIGINT 16: how many requests of a device and kind to look back for the one that a request follows
-- @requires block_request
-- @order device, is_write, turn
-- @column device BIGINT: number of the device
-- @column is_write BOOLEAN: true a write, false a read
-- @column turn BIGINT: number of the request among those of its device and kind, from 1, in the order they were issued
-- @column ts BIGINT ns: when it was issued
-- @column length BIGINT bytes: bytes asked for
-- @column after_turn BIGINT: turn of the request it follows; null none
WITH numbered AS (
    SELECT
        device,
        is_write,
        ROW_NUMBER() OVER (
            PARTITION BY device, is_write ORDER BY ts NULLS LAST, trace_row NULLS LAST, pos NULLS LAST, length NULLS LAST
        ) AS turn,
        ts,
        pos,
        length
    FROM block_request
    WHERE pos IS NOT NULL
),

-- where each begins and ends, and in which stretch of turns: one that follows another is in its stretch or the next
placed AS (
    SELECT
        n.device * 2 + CASE WHEN n.is_write THEN 1 ELSE 0 END AS line,
        n.turn,
        n.pos AS begins,
        n.pos + n.length AS ends,
        CAST((n.turn - n.turn % p.stream_requests) / p.stream_requests AS BIGINT) AS stretch,
        p.stream_requests AS most
    FROM numbered AS n
    CROSS JOIN params AS p
),

-- the last that ended where it begins
nearest AS (
    SELECT n.line, n.turn, MAX(e.turn) AS after_turn
    FROM placed AS n
    INNER JOIN (
        SELECT line, turn, ends, stretch FROM placed
        UNION ALL
        SELECT line, turn, ends, stretch + 1 FROM placed
    ) AS e ON e.line = n.line AND e.ends = n.begins AND e.stretch = n.stretch
    WHERE e.turn < n.turn AND e.turn >= n.turn - n.most
    GROUP BY n.line, n.turn
),

-- of several that could follow one the first does
link AS (
    SELECT line, MIN(turn) AS turn, after_turn
    FROM nearest
    GROUP BY line, after_turn
)

SELECT n.device, n.is_write, n.turn, n.ts, n.length, l.after_turn
FROM numbered AS n
LEFT JOIN link AS l ON l.line = n.device * 2 + CASE WHEN n.is_write THEN 1 ELSE 0 END AND l.turn = n.turn

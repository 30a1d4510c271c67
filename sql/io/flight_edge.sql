-- Where operations on files begin and end: two rows an operation, each in the time bucket it counts from. A call that never
-- returned ends with its thread; a request that never completes in a trace of requests isn't here, for nobody knows until
-- when it was in flight, and neither is an operation of no length.
--
-- @requires file_op, call, op, time_bucket
-- @column bucket_ts BIGINT ns: start of the time bucket
-- @column ts BIGINT ns: when
-- @column kind BIGINT: 1 read, 2 write, 3 flush, 4 another: numbers, for these rows are sorted
-- @column step BIGINT: 1 where an operation begins, -1 where one ends
WITH flight AS (
    -- ids and numbers only, because these rows are sorted: names would double the time
    SELECT
        o.ts,
        o.ts + o.dur AS end_ts,
        CASE c.kind WHEN 'read' THEN 1 WHEN 'write' THEN 2 WHEN 'flush' THEN 3 ELSE 4 END AS kind
    FROM file_op AS o
    LEFT JOIN call AS c ON c.call = o.call
    WHERE o.dur > 0
    UNION ALL
    SELECT ts, end_ts, CASE kind WHEN 'read' THEN 1 WHEN 'write' THEN 2 WHEN 'flush' THEN 3 ELSE 4 END
    FROM op
    WHERE dur IS NULL AND end_ts > ts
)

SELECT
    ts - ts % (SELECT MAX(every_ns) FROM time_bucket) AS bucket_ts,
    ts,
    CAST(kind AS BIGINT) AS kind,
    CAST(1 AS BIGINT) AS step
FROM flight
UNION ALL
-- an operation that ends as a bucket begins wasn't in flight in that bucket
SELECT
    (end_ts - 1) - (end_ts - 1) % (SELECT MAX(every_ns) FROM time_bucket),
    end_ts,
    CAST(kind AS BIGINT),
    CAST(-1 AS BIGINT)
FROM flight

-- Where and when each file is read and written: one row a file, kind, time bucket and offset bucket.
-- Offset buckets are as small a power of two as cuts the file's used part into at most heat_rows. A call
-- counts where and when it begins.
--
-- @materialize
-- @param heat_rows BIGINT 64: offset buckets a file at most
-- @requires op, time_bucket
-- @order file, kind, ts, pos
-- @dimension file, path, kind, pos
-- @measure n = sum(n); bytes = sum(bytes); time_ns = sum(time_ns)
-- @column node VARCHAR: machine
-- @column file BIGINT: file; null unknown
-- @column path VARCHAR: its path; null unknown
-- @column kind VARCHAR: read or write
-- @column ts BIGINT ns: start of the time bucket
-- @column pos BIGINT bytes: start of the offset bucket
-- @column pos_width BIGINT bytes: its width
-- @column n BIGINT ops: operations
-- @column bytes BIGINT bytes: bytes they moved
-- @column time_ns BIGINT ns: their time together
WITH extent AS (
    SELECT
        node,
        file,
        -- smallest k with 2^k * heat_rows above the largest offset
        GREATEST(0, CAST(FLOOR(LOG2(GREATEST(MAX(pos), 1) / CAST((SELECT heat_rows FROM params) AS DOUBLE))) AS INTEGER) + 1)
            AS k
    FROM op
    WHERE kind IN ('read', 'write') AND pos IS NOT NULL AND file IS NOT NULL
    GROUP BY node, file
)

SELECT
    o.node,
    o.file,
    MAX(o.path) AS path,
    o.kind,
    o.ts - o.ts % (SELECT MAX(every_ns) FROM time_bucket) AS ts,
    CAST(MIN(o.pos - o.pos % CAST(POWER(2, e.k) AS BIGINT)) AS BIGINT) AS pos,
    CAST(POWER(2, MAX(e.k)) AS BIGINT) AS pos_width,
    COUNT(*) AS n,
    CAST(SUM(o.moved) AS BIGINT) AS bytes,
    CAST(SUM(COALESCE(o.dur, 0)) AS BIGINT) AS time_ns
FROM op AS o
INNER JOIN extent AS e ON e.node = o.node AND e.file = o.file
WHERE o.kind IN ('read', 'write') AND o.pos IS NOT NULL
GROUP BY o.node, o.file, o.kind, o.ts - o.ts % (SELECT MAX(every_ns) FROM time_bucket), o.pos >> e.k

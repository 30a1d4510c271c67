-- Where and when each file is read and written: one row a file, time bucket and offset bucket.
-- Offset buckets are as small a power of two as cuts the file's used part into at most heat_rows. A call
-- counts where and when it begins.
--
-- @materialize
-- @param heat_rows BIGINT 64: offset buckets a file at most
-- @requires op, time_bucket
-- @order file, ts, pos
-- @dimension file, path, pos
-- @measure reads = sum(reads); writes = sum(writes); bytes_read = sum(bytes_read);
--     bytes_written = sum(bytes_written); time_ns = sum(time_ns)
-- @column node VARCHAR: machine
-- @column file BIGINT: file
-- @column path VARCHAR: its path; null unknown
-- @column ts BIGINT ns: start of the time bucket
-- @column pos BIGINT bytes: start of the offset bucket
-- @column width BIGINT bytes: width of the file's offset buckets
-- @column reads BIGINT ops: reads
-- @column writes BIGINT ops: writes
-- @column bytes_read BIGINT bytes: bytes they read
-- @column bytes_written BIGINT bytes: bytes they wrote
-- @column time_ns BIGINT ns: their time together
WITH extent AS (
    SELECT
        node,
        file,
        -- the smallest width times heat_rows that lies beyond the largest offset
        CAST(POWER(2, GREATEST(0, FLOOR(LOG2(GREATEST(MAX(pos), 1) / CAST(MAX(h.heat_rows) AS DOUBLE))) + 1)) AS BIGINT)
            AS width
    FROM op
    CROSS JOIN (SELECT heat_rows FROM params) AS h
    WHERE kind IN ('read', 'write') AND pos IS NOT NULL AND file IS NOT NULL
    GROUP BY node, file
)

SELECT
    o.node,
    o.file,
    MAX(o.path) AS path,
    o.ts - o.ts % b.every_ns AS ts,
    o.pos - o.pos % e.width AS pos,
    e.width,
    COUNT(*) FILTER (WHERE o.kind = 'read') AS reads,
    COUNT(*) FILTER (WHERE o.kind = 'write') AS writes,
    CAST(SUM(CASE WHEN o.kind = 'read' THEN o.moved ELSE 0 END) AS BIGINT) AS bytes_read,
    CAST(SUM(CASE WHEN o.kind = 'write' THEN o.moved ELSE 0 END) AS BIGINT) AS bytes_written,
    CAST(SUM(COALESCE(o.dur, 0)) AS BIGINT) AS time_ns
FROM op AS o
INNER JOIN extent AS e ON e.node = o.node AND e.file = o.file
CROSS JOIN (SELECT MAX(every_ns) AS every_ns FROM time_bucket) AS b
WHERE o.kind IN ('read', 'write') AND o.pos IS NOT NULL
GROUP BY o.node, o.file, o.ts - o.ts % b.every_ns, o.pos - o.pos % e.width, e.width

-- Where and when each file is read and written: one row a file, time bucket and offset bucket.
-- Offset buckets are as small a power of two as cuts the file's used part into at most heat_rows. A call
-- counts where and when it begins.
--
-- @materialize
-- @param heat_rows BIGINT 64: offset buckets a file at most
-- @param heat_files BIGINT 0: only the files of most reads and writes, as many as this; 0 all
-- @requires file_op, call, file, activity, thread_file, time_bucket
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
        CAST(POWER(2, GREATEST(0, FLOOR(LOG2(GREATEST(MAX(max_pos), 1) / CAST(MAX(h.heat_rows) AS DOUBLE))) + 1)) AS BIGINT)
            AS width
    FROM activity
    CROSS JOIN (SELECT heat_rows FROM params) AS h
    WHERE max_pos IS NOT NULL AND file IS NOT NULL
    GROUP BY node, file
    QUALIFY
        ROW_NUMBER() OVER (ORDER BY SUM(ops) FILTER (WHERE kind IN ('read', 'write')) DESC NULLS LAST, node NULLS LAST, file NULLS LAST)
        <= (SELECT CASE heat_files WHEN 0 THEN 9223372036854775807 ELSE heat_files END FROM params)
),

place AS (
    SELECT f.thread, f.file, f.node, CAST(f.file_number AS INTEGER) AS file_number, e.width
    FROM thread_file AS f
    INNER JOIN extent AS e ON e.node = f.node AND e.file = f.file
),

summed AS (
    SELECT
        p.file_number,
        o.ts - o.ts % b.every_ns AS ts,
        o.pos - o.pos % p.width AS pos,
        COUNT(*) FILTER (WHERE c.kind = 'read') AS reads,
        COUNT(*) FILTER (WHERE c.kind = 'write') AS writes,
        CAST(SUM(CASE WHEN c.kind = 'read' AND o.errno = 0 AND o.result > 0 THEN o.result ELSE 0 END) AS BIGINT)
            AS bytes_read,
        CAST(SUM(CASE WHEN c.kind = 'write' AND o.errno = 0 AND o.result > 0 THEN o.result ELSE 0 END) AS BIGINT)
            AS bytes_written,
        CAST(SUM(COALESCE(o.dur, 0)) AS BIGINT) AS time_ns
    FROM file_op AS o
    INNER JOIN call AS c ON c.call = o.call
    INNER JOIN place AS p ON p.thread = o.thread AND p.file = o.file
    CROSS JOIN (SELECT MAX(every_ns) AS every_ns FROM time_bucket) AS b
    WHERE c.kind IN ('read', 'write') AND o.pos IS NOT NULL
    GROUP BY p.file_number, o.ts - o.ts % b.every_ns, o.pos - o.pos % p.width
)

SELECT
    k.node,
    k.file,
    f.path,
    s.ts,
    s.pos,
    k.width,
    s.reads,
    s.writes,
    s.bytes_read,
    s.bytes_written,
    s.time_ns
FROM summed AS s
INNER JOIN (SELECT DISTINCT file_number, node, file, width FROM place) AS k ON k.file_number = s.file_number
LEFT JOIN (
    SELECT node, file, MAX(path) AS path
    FROM file
    GROUP BY node, file
) AS f ON f.node = k.node AND f.file = k.file

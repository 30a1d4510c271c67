-- Bytes that reached each file by a copy inside the kernel: one row a destination.
-- sendfile and copy_file_range name two files; their rows stand under the source.
--
-- @materialize
-- @requires file_op
-- @column node VARCHAR: machine
-- @column file BIGINT: destination
-- @column n BIGINT ops: copies to it
-- @column bytes BIGINT bytes: bytes they moved
-- @column start_ts BIGINT ns: start of the first
-- @column end_ts BIGINT ns: end of the last
SELECT
    node,
    file2 AS file,
    COUNT(*) AS n,
    CAST(SUM(result) AS BIGINT) AS bytes,
    MIN(ts) AS start_ts,
    MAX(ts + COALESCE(dur, 0)) AS end_ts
FROM file_op
WHERE call IN ('copy_file_range', 'sendfile', 'splice') AND file2 IS NOT NULL AND result > 0
GROUP BY node, file2

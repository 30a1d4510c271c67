-- Bytes that reached each file by a copy inside the kernel: one row a thread, destination and call.
-- sendfile, copy_file_range and splice name two files; their rows in `file_op`, and the time they took, stand under
-- the source. To the destination they are writes.
--
-- @materialize
-- @requires file_op, channel
-- @column node VARCHAR: machine
-- @column thread BIGINT: thread that copied
-- @column file BIGINT: destination
-- @column call VARCHAR: name of the call
-- @column n BIGINT ops: copies to it
-- @column bytes BIGINT bytes: bytes they moved
-- @column start_ts BIGINT ns: start of the first
-- @column end_ts BIGINT ns: end of the last
SELECT
    o.node,
    o.thread,
    o.file2 AS file,
    o.call,
    COUNT(*) AS n,
    CAST(SUM(o.result) AS BIGINT) AS bytes,
    MIN(o.ts) AS start_ts,
    MAX(o.ts + COALESCE(o.dur, 0)) AS end_ts
FROM file_op AS o
ANTI JOIN channel AS c ON c.node = o.node AND c.file = o.file2
WHERE o.call IN ('copy_file_range', 'sendfile', 'splice') AND o.file2 IS NOT NULL AND o.result > 0
GROUP BY o.node, o.thread, o.file2, o.call

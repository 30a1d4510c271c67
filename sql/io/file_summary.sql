-- Each file: what was done to it, by how many, how long it took: one row a file.
-- A file that only copies inside the kernel brought bytes to has a row with no operation.
--
-- @materialize
-- @requires activity, copied, file
-- @order time_ns DESC
-- @dimension path
-- @measure n = sum(n); bytes_read = sum(bytes_read); bytes_written = sum(bytes_written);
--     bytes_copied = sum(bytes_copied); time_ns = sum(time_ns)
-- @column node VARCHAR: machine
-- @column file BIGINT: file; null is for calls on files the recorder could not name
-- @column path VARCHAR: its path
-- @column n BIGINT ops: operations
-- @column reads BIGINT ops: reads
-- @column writes BIGINT ops: writes
-- @column flushes BIGINT ops: fsync and the like
-- @column metas BIGINT ops: names, attributes, descriptors, mappings
-- @column opens BIGINT ops: successful and failed opens
-- @column bytes_read BIGINT bytes: bytes read
-- @column bytes_written BIGINT bytes: bytes written
-- @column bytes_copied BIGINT bytes: bytes that copies inside the kernel brought to it; they count as read from
--     their source and as written nowhere
-- @column errors BIGINT ops: operations that failed
-- @column time_ns BIGINT ns: time in operations that returned, all threads
-- @column read_ns BIGINT ns: of it in reads
-- @column write_ns BIGINT ns: of it in writes
-- @column flush_ns BIGINT ns: of it in flushes
-- @column meta_ns BIGINT ns: of it in the rest
-- @column max_ns BIGINT ns: the longest operation; null if none returned
-- @column processes BIGINT: processes that used it
-- @column threads BIGINT: threads that used it
-- @column start_ts BIGINT ns: first use
-- @column end_ts BIGINT ns: end of the last
SELECT
    COALESCE(a.node, c.node) AS node,
    COALESCE(a.file, c.file) AS file,
    COALESCE(a.path, f.path, '(unknown file)') AS path,
    COALESCE(a.n, 0) AS n,
    COALESCE(a.reads, 0) AS reads,
    COALESCE(a.writes, 0) AS writes,
    COALESCE(a.flushes, 0) AS flushes,
    COALESCE(a.n - a.reads - a.writes - a.flushes, 0) AS metas,
    COALESCE(a.opens, 0) AS opens,
    COALESCE(a.bytes_read, 0) AS bytes_read,
    COALESCE(a.bytes_written, 0) AS bytes_written,
    COALESCE(c.bytes, 0) AS bytes_copied,
    COALESCE(a.errors, 0) AS errors,
    COALESCE(a.time_ns, 0) AS time_ns,
    COALESCE(a.read_ns, 0) AS read_ns,
    COALESCE(a.write_ns, 0) AS write_ns,
    COALESCE(a.flush_ns, 0) AS flush_ns,
    COALESCE(a.time_ns - a.read_ns - a.write_ns - a.flush_ns, 0) AS meta_ns,
    a.max_ns,
    COALESCE(a.processes, 0) AS processes,
    COALESCE(a.threads, 0) AS threads,
    COALESCE(a.start_ts, c.start_ts) AS start_ts,
    COALESCE(a.end_ts, c.end_ts) AS end_ts
FROM (
    SELECT
        node,
        file,
        path,
        CAST(SUM(ops) AS BIGINT) AS n,
        CAST(COALESCE(SUM(ops) FILTER (WHERE kind = 'read'), 0) AS BIGINT) AS reads,
        CAST(COALESCE(SUM(ops) FILTER (WHERE kind = 'write'), 0) AS BIGINT) AS writes,
        CAST(COALESCE(SUM(ops) FILTER (WHERE kind = 'flush'), 0) AS BIGINT) AS flushes,
        CAST(COALESCE(SUM(ops) FILTER (WHERE call IN ('open', 'creat', 'fopen', 'mkstemp')), 0) AS BIGINT)
            AS opens,
        CAST(COALESCE(SUM(bytes) FILTER (WHERE kind = 'read'), 0) AS BIGINT) AS bytes_read,
        CAST(COALESCE(SUM(bytes) FILTER (WHERE kind = 'write'), 0) AS BIGINT) AS bytes_written,
        CAST(SUM(failed) AS BIGINT) AS errors,
        CAST(SUM(io_ns) AS BIGINT) AS time_ns,
        CAST(COALESCE(SUM(io_ns) FILTER (WHERE kind = 'read'), 0) AS BIGINT) AS read_ns,
        CAST(COALESCE(SUM(io_ns) FILTER (WHERE kind = 'write'), 0) AS BIGINT) AS write_ns,
        CAST(COALESCE(SUM(io_ns) FILTER (WHERE kind = 'flush'), 0) AS BIGINT) AS flush_ns,
        MAX(max_ns) AS max_ns,
        COUNT(DISTINCT process) AS processes,
        COUNT(DISTINCT thread) AS threads,
        MIN(start_ts) AS start_ts,
        MAX(end_ts) AS end_ts
    FROM activity
    GROUP BY node, file, path
) AS a
FULL OUTER JOIN copied AS c ON c.node = a.node AND c.file = a.file
LEFT JOIN (
    SELECT node, file, MAX(path) AS path
    FROM file
    GROUP BY node, file
) AS f ON f.node = c.node AND f.file = c.file

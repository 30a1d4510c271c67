-- Each file: what was done to it, by how many, how long it took: one row a file.
--
-- @materialize
-- @requires activity, copied
-- @order time_ns DESC
-- @dimension path
-- @measure n = sum(n); bytes_read = sum(bytes_read); bytes_written = sum(bytes_written); time_ns = sum(time_ns)
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
-- @column bytes_written BIGINT bytes: bytes written, those copied to it inside the kernel included
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
    a.node,
    a.file,
    a.path,
    a.n,
    a.reads,
    a.writes,
    a.flushes,
    a.n - a.reads - a.writes - a.flushes AS metas,
    a.opens,
    a.bytes_read,
    a.bytes_written + COALESCE(c.bytes, 0) AS bytes_written,
    a.errors,
    a.time_ns,
    a.read_ns,
    a.write_ns,
    a.flush_ns,
    a.time_ns - a.read_ns - a.write_ns - a.flush_ns AS meta_ns,
    a.max_ns,
    a.processes,
    a.threads,
    a.start_ts,
    a.end_ts
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
LEFT JOIN copied AS c ON c.node = a.node AND c.file = a.file

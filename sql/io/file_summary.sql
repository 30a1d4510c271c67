-- Each file: what was done to it, by how many, how long it took: one row a file.
--
-- @materialize
-- @requires activity
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
-- @column bytes_copied BIGINT bytes: of bytes_written, those that copies inside the kernel brought to it
-- @column errors BIGINT ops: operations that failed
-- @column time_ns BIGINT ns: time in operations that returned, all threads; null unknown
-- @column read_ns BIGINT ns: of it in reads; null unknown
-- @column write_ns BIGINT ns: of it in writes; null unknown
-- @column flush_ns BIGINT ns: of it in flushes; null unknown
-- @column meta_ns BIGINT ns: of it in the rest; null unknown
-- @column max_ns BIGINT ns: the longest operation; null if none returned
-- @column processes BIGINT: processes that used it
-- @column threads BIGINT: threads that used it
-- @column start_ts BIGINT ns: first use
-- @column end_ts BIGINT ns: end of the last
SELECT
    node,
    file,
    path,
    n,
    reads,
    writes,
    flushes,
    n - reads - writes - flushes AS metas,
    opens,
    bytes_read,
    bytes_written,
    bytes_copied,
    errors,
    time_ns,
    read_ns,
    write_ns,
    flush_ns,
    time_ns - read_ns - write_ns - flush_ns AS meta_ns,
    max_ns,
    processes,
    threads,
    start_ts,
    end_ts
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
        CAST(COALESCE(SUM(bytes) FILTER (
            WHERE kind = 'write' AND call IN ('copy_file_range', 'sendfile', 'splice')
        ), 0) AS BIGINT) AS bytes_copied,
        CAST(SUM(failed) AS BIGINT) AS errors,
        CAST(SUM(io_ns) AS BIGINT) AS time_ns,
        CASE
            WHEN COUNT(io_ns) > 0 THEN CAST(COALESCE(SUM(io_ns) FILTER (WHERE kind = 'read'), 0) AS BIGINT)
        END AS read_ns,
        CASE
            WHEN COUNT(io_ns) > 0 THEN CAST(COALESCE(SUM(io_ns) FILTER (WHERE kind = 'write'), 0) AS BIGINT)
        END AS write_ns,
        CASE
            WHEN COUNT(io_ns) > 0 THEN CAST(COALESCE(SUM(io_ns) FILTER (WHERE kind = 'flush'), 0) AS BIGINT)
        END AS flush_ns,
        MAX(max_ns) AS max_ns,
        COUNT(DISTINCT process) AS processes,
        COUNT(DISTINCT thread) AS threads,
        MIN(start_ts) AS start_ts,
        MAX(end_ts) AS end_ts
    FROM activity
    GROUP BY node, file, path
) AS a

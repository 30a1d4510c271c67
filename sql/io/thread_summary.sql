-- Each thread: its time and its calls: one row a thread.
-- Threads that called nothing are in it too.
--
-- @materialize
-- @requires time_split, activity
-- @order io_ns DESC
-- @dimension process, process_name, rank, node
-- @measure life_ns = sum(life_ns); compute_ns = sum(compute_ns); io_ns = sum(io_ns); sync_ns = sum(sync_ns);
--     n = sum(n); bytes_read = sum(bytes_read); bytes_written = sum(bytes_written); errors = sum(errors)
-- @column node VARCHAR: machine
-- @column process BIGINT: its process
-- @column process_name VARCHAR: name of the executable
-- @column rank BIGINT: MPI rank; null none
-- @column thread BIGINT: thread
-- @column thread_name VARCHAR: name; null none given
-- @column start_ts BIGINT ns: when it began
-- @column end_ts BIGINT ns: when it ended, or recording did
-- @column life_ns BIGINT ns: time between
-- @column compute_ns BIGINT ns: time in no recorded call
-- @column io_ns BIGINT ns: time in file calls
-- @column sync_ns BIGINT ns: time waiting for something else
-- @column n BIGINT ops: operations on files
-- @column bytes_read BIGINT bytes: bytes read
-- @column bytes_written BIGINT bytes: bytes written
-- @column errors BIGINT ops: operations that failed
-- @column files BIGINT: files used
SELECT
    s.node,
    s.process,
    s.process_name,
    s.rank,
    s.thread,
    s.thread_name,
    s.start_ts,
    s.end_ts,
    s.life_ns,
    s.compute_ns,
    s.io_ns,
    s.sync_ns,
    COALESCE(a.n, 0) AS n,
    COALESCE(a.bytes_read, 0) AS bytes_read,
    COALESCE(a.bytes_written, 0) AS bytes_written,
    COALESCE(a.errors, 0) AS errors,
    COALESCE(a.files, 0) AS files
FROM time_split AS s
LEFT JOIN (
    SELECT
        node,
        thread,
        CAST(SUM(ops) AS BIGINT) AS n,
        CAST(SUM(CASE WHEN kind = 'read' THEN bytes ELSE 0 END) AS BIGINT) AS bytes_read,
        CAST(SUM(CASE WHEN kind = 'write' THEN bytes ELSE 0 END) AS BIGINT) AS bytes_written,
        CAST(SUM(failed) AS BIGINT) AS errors,
        COUNT(DISTINCT file) AS files
    FROM activity
    GROUP BY node, thread
) AS a ON a.node = s.node AND a.thread = s.thread

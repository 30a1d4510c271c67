-- Each thread: its time and its calls: one row a thread.
-- Threads that called nothing are in it too.
--
-- @materialize
-- @requires time_split, activity
-- @order io_ns DESC
-- @dimension process, process_name, rank, node
-- @measure life_ns = sum(life_ns); compute_ns = sum(compute_ns); io_ns = sum(io_ns); sync_ns = sum(sync_ns);
--     n = sum(n); bytes_read = sum(bytes_read); bytes_written = sum(bytes_written); errors = sum(errors);
--     queued_ns = sum(queued_ns); fault_ns = sum(fault_ns); idle_ns = sum(idle_ns);
--     unknown_ns = sum(unknown_ns)
-- @column node VARCHAR: machine
-- @column process BIGINT: its process
-- @column process_name VARCHAR: name of the executable
-- @column rank BIGINT: MPI rank; null none
-- @column thread BIGINT: thread
-- @column thread_name VARCHAR: name; null none given
-- @column start_ts BIGINT ns: when it began
-- @column end_ts BIGINT ns: when it ended, or recording did
-- @column life_ns BIGINT ns: time between
-- @column compute_ns BIGINT ns: time on a CPU in no recorded call; null unknown
-- @column io_ns BIGINT ns: time in file calls
-- @column sync_ns BIGINT ns: time waiting for something else
-- @column n BIGINT ops: operations on files
-- @column bytes_read BIGINT bytes: bytes read
-- @column bytes_written BIGINT bytes: bytes written
-- @column errors BIGINT ops: operations that failed
-- @column files BIGINT: files used
-- @column queued_ns BIGINT ns: time waiting for a CPU; null unknown
-- @column fault_ns BIGINT ns: time waiting for storage in page faults; null unknown
-- @column idle_ns BIGINT ns: time parked, with nobody waiting for it
-- @column unknown_ns BIGINT ns: time of which it is not known what it did
-- @column spin_ns BIGINT ns: of sync_ns and idle_ns on a CPU: the waits spin; null unknown
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
    COALESCE(a.files, 0) AS files,
    s.queued_ns,
    s.fault_ns,
    s.idle_ns,
    s.unknown_ns,
    s.spin_ns
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

-- Each process: its program, its life, its calls, its threads' time: one row a process.
-- fork and exec each begin a new one.
--
-- @materialize
-- @requires process, thread_summary, trail_span
-- @order io_ns DESC
-- @dimension process_name, role, node
-- @measure processes = count(*); threads = sum(threads); life_ns = sum(life_ns); compute_ns = sum(compute_ns);
--     io_ns = sum(io_ns); sync_ns = sum(sync_ns); n = sum(n); bytes_read = sum(bytes_read);
--     bytes_written = sum(bytes_written); errors = sum(errors);
--     queued_ns = sum(queued_ns); fault_ns = sum(fault_ns); idle_ns = sum(idle_ns);
--     unknown_ns = sum(unknown_ns)
-- @column node VARCHAR: machine
-- @column process BIGINT: process
-- @column pid BIGINT: process id of the system
-- @column parent BIGINT: process that forked or exec'd it; null unknown
-- @column process_name VARCHAR: name of the executable
-- @column role VARCHAR: part it plays; null none
-- @column rank BIGINT: MPI rank; null none
-- @column cmd VARCHAR: command line; null unknown
-- @column ended VARCHAR: exit, exec, killed or running
-- @column status BIGINT: exit status; null unknown
-- @column start_ts BIGINT ns: when it began
-- @column end_ts BIGINT ns: when it ended, or recording did
-- @column life_ns BIGINT ns: time between
-- @column threads BIGINT: threads
-- @column thread_ns BIGINT ns: the lives of its threads together: compute_ns + queued_ns + fault_ns + io_ns + sync_ns +
--     idle_ns + unknown_ns
-- @column compute_ns BIGINT ns: its threads' time on a CPU in no recorded call; null unknown
-- @column io_ns BIGINT ns: its threads' time in file calls
-- @column sync_ns BIGINT ns: its threads' time waiting for something else
-- @column n BIGINT ops: operations on files
-- @column bytes_read BIGINT bytes: bytes read
-- @column bytes_written BIGINT bytes: bytes written
-- @column errors BIGINT ops: operations that failed
-- @column user_ns BIGINT ns: CPU time in the program; null unknown
-- @column system_ns BIGINT ns: CPU time in the kernel; null unknown
-- @column minor_faults BIGINT: page faults without I/O; null unknown
-- @column major_faults BIGINT: page faults that read from storage; null unknown
-- @column queued_ns BIGINT ns: its threads' time waiting for a CPU; null unknown
-- @column fault_ns BIGINT ns: its threads' time waiting for storage in page faults; null unknown
-- @column idle_ns BIGINT ns: its threads' time parked, with nobody waiting for it
-- @column unknown_ns BIGINT ns: its threads' time of which it is not known what it did
-- @column spin_ns BIGINT ns: of sync_ns and idle_ns on a CPU: the waits spin; null unknown
SELECT
    p.node,
    p.process,
    p.pid,
    p.parent,
    p.name AS process_name,
    p.role,
    p.rank,
    p.cmd,
    p.ended,
    p.status,
    p.start_ts,
    GREATEST(p.start_ts, COALESCE(p.end_ts, s.end_ts)) AS end_ts,
    GREATEST(p.start_ts, COALESCE(p.end_ts, s.end_ts)) - p.start_ts AS life_ns,
    COALESCE(t.threads, 0) AS threads,
    COALESCE(t.thread_ns, 0) AS thread_ns,
    t.compute_ns,
    COALESCE(t.io_ns, 0) AS io_ns,
    COALESCE(t.sync_ns, 0) AS sync_ns,
    COALESCE(t.n, 0) AS n,
    COALESCE(t.bytes_read, 0) AS bytes_read,
    COALESCE(t.bytes_written, 0) AS bytes_written,
    COALESCE(t.errors, 0) AS errors,
    p.user_ns,
    p.system_ns,
    p.minor_faults,
    p.major_faults,
    t.queued_ns,
    t.fault_ns,
    COALESCE(t.idle_ns, 0) AS idle_ns,
    COALESCE(t.unknown_ns, 0) AS unknown_ns,
    t.spin_ns
FROM process AS p
CROSS JOIN trail_span AS s
LEFT JOIN (
    SELECT
        node,
        process,
        COUNT(*) AS threads,
        CAST(SUM(life_ns) AS BIGINT) AS thread_ns,
        CAST(SUM(compute_ns) AS BIGINT) AS compute_ns,
        CAST(SUM(queued_ns) AS BIGINT) AS queued_ns,
        CAST(SUM(fault_ns) AS BIGINT) AS fault_ns,
        CAST(SUM(idle_ns) AS BIGINT) AS idle_ns,
        CAST(SUM(unknown_ns) AS BIGINT) AS unknown_ns,
        CAST(SUM(spin_ns) AS BIGINT) AS spin_ns,
        CAST(SUM(io_ns) AS BIGINT) AS io_ns,
        CAST(SUM(sync_ns) AS BIGINT) AS sync_ns,
        CAST(SUM(n) AS BIGINT) AS n,
        CAST(SUM(bytes_read) AS BIGINT) AS bytes_read,
        CAST(SUM(bytes_written) AS BIGINT) AS bytes_written,
        CAST(SUM(errors) AS BIGINT) AS errors
    FROM thread_summary
    GROUP BY node, process
) AS t ON t.node = p.node AND t.process = p.process

-- Where each thread's life went: on a CPU, waiting for one, in page faults, in file I/O, waiting for something else,
-- idle, or not known; one row a thread. Each instant counts once: where calls nest (a barrier of MPI that reads a
-- socket), the outermost wins. What each state means and rests on says module time_split_over_time, whose sums these
-- are. An unfinished call lasts until its thread ends.
--
-- @materialize
-- @requires busy_bucket, thread_life, time_split_over_time
-- @dimension node, process, process_name, rank
-- @measure life_ns = sum(life_ns); compute_ns = sum(compute_ns); queued_ns = sum(queued_ns); fault_ns = sum(fault_ns);
--     io_ns = sum(io_ns); sync_ns = sum(sync_ns); idle_ns = sum(idle_ns); unknown_ns = sum(unknown_ns);
--     spin_ns = sum(spin_ns); read_ns = sum(read_ns); write_ns = sum(write_ns); flush_ns = sum(flush_ns);
--     meta_ns = sum(meta_ns); io_share = CAST(sum(io_ns) AS DOUBLE) / NULLIF(sum(life_ns), 0);
--     sync_share = CAST(sum(sync_ns) AS DOUBLE) / NULLIF(sum(life_ns), 0)
-- @column node VARCHAR: machine
-- @column process BIGINT: its process
-- @column process_name VARCHAR: name of the executable
-- @column rank BIGINT: MPI rank; null none
-- @column thread BIGINT: thread
-- @column thread_name VARCHAR: name; null none given
-- @column start_ts BIGINT ns: when it began
-- @column end_ts BIGINT ns: when it ended, or recording did
-- @column life_ns BIGINT ns: time between: compute_ns + queued_ns + fault_ns + io_ns + sync_ns + idle_ns + unknown_ns
-- @column compute_ns BIGINT ns: time on a CPU in no recorded call; null unknown
-- @column io_ns BIGINT ns: time in file calls: read_ns + write_ns + flush_ns + meta_ns (map is in meta)
-- @column sync_ns BIGINT ns: time waiting for something else: lock_ns + condition_ns + poll_ns + socket_ns + pipe_ns +
--     process_ns + timer_ns + mpi_ns + other_ns
-- @column read_ns BIGINT ns: time reading
-- @column write_ns BIGINT ns: time writing
-- @column flush_ns BIGINT ns: time making data durable
-- @column meta_ns BIGINT ns: time with names, attributes, descriptors and mappings
-- @column io_share DOUBLE share: io_ns / life_ns; null for a life of no length
-- @column sync_share DOUBLE share: sync_ns / life_ns; null for a life of no length
-- @column queued_ns BIGINT ns: time waiting for a CPU, in no recorded call; null unknown
-- @column fault_ns BIGINT ns: time waiting for storage in page faults; null unknown
-- @column idle_ns BIGINT ns: time parked, with nobody waiting for it
-- @column unknown_ns BIGINT ns: time in no recorded call, doing nobody knows what
-- @column spin_ns BIGINT ns: of sync_ns and idle_ns on a CPU: the wait spins; null unknown
-- @column io_cpu_ns BIGINT ns: of io_ns on a CPU; null unknown
-- @column lock_ns BIGINT ns: time waiting for mutexes, read-write locks, file locks
-- @column condition_ns BIGINT ns: time waiting at conditions, futexes, semaphores, queues
-- @column poll_ns BIGINT ns: time waiting for any of several descriptors, or for connections
-- @column socket_ns BIGINT ns: time sending, receiving, connecting
-- @column pipe_ns BIGINT ns: time reading and writing pipes
-- @column process_ns BIGINT ns: time waiting for processes and threads to end
-- @column timer_ns BIGINT ns: time asleep
-- @column mpi_ns BIGINT ns: time in calls of MPI
-- @column other_ns BIGINT ns: time waiting for barriers, signals, terminals, events
SELECT
    t.node,
    t.process,
    t.process_name,
    t.rank,
    t.thread,
    t.thread_name,
    t.start_ts,
    t.end_ts,
    t.life_ns,
    o.compute_ns,
    COALESCE(b.io_ns, 0) AS io_ns,
    COALESCE(b.wait_ns, 0) - COALESCE(o.idle_ns, 0) AS sync_ns,
    COALESCE(b.read_ns, 0) AS read_ns,
    COALESCE(b.write_ns, 0) AS write_ns,
    COALESCE(b.flush_ns, 0) AS flush_ns,
    COALESCE(b.meta_ns, 0) AS meta_ns,
    CAST(COALESCE(b.io_ns, 0) AS DOUBLE) / NULLIF(t.life_ns, 0) AS io_share,
    CAST(COALESCE(b.wait_ns, 0) - COALESCE(o.idle_ns, 0) AS DOUBLE) / NULLIF(t.life_ns, 0) AS sync_share,
    o.queued_ns,
    o.fault_ns,
    COALESCE(o.idle_ns, 0) AS idle_ns,
    t.life_ns - COALESCE(b.io_ns, 0) - COALESCE(b.wait_ns, 0) - COALESCE(o.compute_ns, 0) - COALESCE(o.queued_ns, 0)
    - COALESCE(o.fault_ns, 0) AS unknown_ns,
    o.spin_ns,
    o.io_cpu_ns,
    COALESCE(b.lock_ns, 0) AS lock_ns,
    COALESCE(o.condition_ns, 0) AS condition_ns,
    COALESCE(o.poll_ns, 0) AS poll_ns,
    COALESCE(b.socket_ns, 0) AS socket_ns,
    COALESCE(b.pipe_ns, 0) AS pipe_ns,
    COALESCE(b.process_ns, 0) AS process_ns,
    COALESCE(b.timer_ns, 0) AS timer_ns,
    COALESCE(b.mpi_ns, 0) AS mpi_ns,
    COALESCE(b.other_ns, 0) AS other_ns
FROM thread_life AS t
LEFT JOIN (
    SELECT
        thread,
        CAST(SUM(compute_ns) AS BIGINT) AS compute_ns,
        CAST(SUM(queued_ns) AS BIGINT) AS queued_ns,
        CAST(SUM(fault_ns) AS BIGINT) AS fault_ns,
        CAST(SUM(idle_ns) AS BIGINT) AS idle_ns,
        CAST(SUM(spin_ns) AS BIGINT) AS spin_ns,
        CAST(SUM(io_cpu_ns) AS BIGINT) AS io_cpu_ns,
        CAST(SUM(condition_ns) AS BIGINT) AS condition_ns,
        CAST(SUM(poll_ns) AS BIGINT) AS poll_ns
    FROM time_split_over_time
    GROUP BY thread
) AS o ON o.thread = t.thread
LEFT JOIN (
    SELECT
        thread,
        CAST(SUM(time_ns) FILTER (WHERE kind <> 'wait') AS BIGINT) AS io_ns,
        CAST(SUM(time_ns) FILTER (WHERE kind = 'wait') AS BIGINT) AS wait_ns,
        CAST(SUM(time_ns) FILTER (WHERE kind = 'read') AS BIGINT) AS read_ns,
        CAST(SUM(time_ns) FILTER (WHERE kind = 'write') AS BIGINT) AS write_ns,
        CAST(SUM(time_ns) FILTER (WHERE kind = 'flush') AS BIGINT) AS flush_ns,
        CAST(SUM(time_ns) FILTER (WHERE kind IN ('meta', 'map')) AS BIGINT) AS meta_ns,
        CAST(SUM(time_ns) FILTER (WHERE waits_for = 'lock') AS BIGINT) AS lock_ns,
        CAST(SUM(time_ns) FILTER (WHERE waits_for = 'socket') AS BIGINT) AS socket_ns,
        CAST(SUM(time_ns) FILTER (WHERE waits_for = 'pipe') AS BIGINT) AS pipe_ns,
        CAST(SUM(time_ns) FILTER (WHERE waits_for IN ('process', 'thread')) AS BIGINT) AS process_ns,
        CAST(SUM(time_ns) FILTER (WHERE waits_for = 'timer') AS BIGINT) AS timer_ns,
        CAST(SUM(time_ns) FILTER (WHERE waits_for = 'mpi') AS BIGINT) AS mpi_ns,
        CAST(SUM(time_ns) FILTER (WHERE waits_for IN ('barrier', 'other')) AS BIGINT) AS other_ns
    FROM busy_bucket
    GROUP BY thread
) AS b ON b.thread = t.thread

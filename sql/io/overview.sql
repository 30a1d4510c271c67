-- The trail in one row.
-- Times of threads are those of module time_split.
--
-- @materialize
-- @requires activity, time_split, trail_span, process, sync_op, unseen, file_op
-- @column start_ts BIGINT ns: first moment; null in an empty trail
-- @column end_ts BIGINT ns: last moment; null in an empty trail
-- @column duration_ns BIGINT ns: time between
-- @column nodes BIGINT: machines
-- @column processes BIGINT: program images
-- @column programs BIGINT: different executables
-- @column ranks BIGINT: MPI ranks
-- @column threads BIGINT: threads
-- @column files BIGINT: files acted on
-- @column ops BIGINT ops: operations on files
-- @column calls BIGINT ops: calls of programs they stand for
-- @column reads BIGINT ops: reads
-- @column writes BIGINT ops: writes
-- @column flushes BIGINT ops: fsync and the like
-- @column metas BIGINT ops: names, attributes, descriptors, mappings
-- @column waits BIGINT ops: calls that waited for something else
-- @column errors BIGINT ops: operations on files that failed
-- @column unfinished BIGINT ops: operations on files that never returned
-- @column bytes_read BIGINT bytes: bytes read
-- @column bytes_written BIGINT bytes: bytes written
-- @column thread_ns BIGINT ns: lives of all threads together: compute_ns + queued_ns + fault_ns + io_ns + sync_ns +
--     idle_ns + unknown_ns
-- @column compute_ns BIGINT ns: of it on a CPU in no recorded call; null unknown
-- @column io_ns BIGINT ns: of it in file calls
-- @column sync_ns BIGINT ns: of it waiting for something else
-- @column bytes_per_s DOUBLE bytes/s: bytes read and written a second of the run; null for a run of no length
-- @column iops DOUBLE 1/s: operations a second of the run; null for a run of no length
-- @column unseen BIGINT: kinds of things that weren't seen (module unseen_summary)
-- @column queued_ns BIGINT ns: of thread_ns, time waiting for a CPU; null unknown
-- @column fault_ns BIGINT ns: of thread_ns, time waiting for storage in page faults; null unknown
-- @column idle_ns BIGINT ns: of thread_ns, time parked, with nobody waiting for it
-- @column unknown_ns BIGINT ns: of thread_ns, time of which it is not known what it did
-- @column spin_ns BIGINT ns: of sync_ns and idle_ns on a CPU: the waits spin; null unknown
SELECT
    s.start_ts,
    s.end_ts,
    COALESCE(s.end_ts - s.start_ts, 0) AS duration_ns,
    p.nodes,
    p.processes,
    p.programs,
    p.ranks,
    t.threads,
    a.files,
    a.ops,
    a.calls,
    a.reads,
    a.writes,
    a.flushes,
    a.ops - a.reads - a.writes - a.flushes AS metas,
    w.waits,
    a.errors,
    o.unfinished,
    a.bytes_read,
    a.bytes_written,
    t.thread_ns,
    t.compute_ns,
    t.io_ns,
    t.sync_ns,
    CAST(a.bytes_read + a.bytes_written AS DOUBLE) * 1000000000 / NULLIF(s.end_ts - s.start_ts, 0) AS bytes_per_s,
    CAST(a.ops AS DOUBLE) * 1000000000 / NULLIF(s.end_ts - s.start_ts, 0) AS iops,
    u.unseen,
    t.queued_ns,
    t.fault_ns,
    t.idle_ns,
    t.unknown_ns,
    t.spin_ns
FROM trail_span AS s
CROSS JOIN (
    SELECT
        COUNT(DISTINCT file) AS files,
        CAST(COALESCE(SUM(ops), 0) AS BIGINT) AS ops,
        CAST(COALESCE(SUM(calls), 0) AS BIGINT) AS calls,
        CAST(COALESCE(SUM(CASE WHEN kind = 'read' THEN ops END), 0) AS BIGINT) AS reads,
        CAST(COALESCE(SUM(CASE WHEN kind = 'write' THEN ops END), 0) AS BIGINT) AS writes,
        CAST(COALESCE(SUM(CASE WHEN kind = 'flush' THEN ops END), 0) AS BIGINT) AS flushes,
        CAST(COALESCE(SUM(failed), 0) AS BIGINT) AS errors,
        CAST(COALESCE(SUM(CASE WHEN kind = 'read' THEN bytes END), 0) AS BIGINT) AS bytes_read,
        CAST(COALESCE(SUM(CASE WHEN kind = 'write' THEN bytes END), 0) AS BIGINT) AS bytes_written
    FROM activity
) AS a
CROSS JOIN (SELECT COUNT(*) AS unfinished FROM file_op WHERE COALESCE(dur, result) IS NULL) AS o
CROSS JOIN (
    SELECT
        COUNT(*) AS threads,
        CAST(COALESCE(SUM(life_ns), 0) AS BIGINT) AS thread_ns,
        CAST(SUM(compute_ns) AS BIGINT) AS compute_ns,
        CAST(SUM(queued_ns) AS BIGINT) AS queued_ns,
        CAST(SUM(fault_ns) AS BIGINT) AS fault_ns,
        CAST(COALESCE(SUM(idle_ns), 0) AS BIGINT) AS idle_ns,
        CAST(COALESCE(SUM(unknown_ns), 0) AS BIGINT) AS unknown_ns,
        CAST(SUM(spin_ns) AS BIGINT) AS spin_ns,
        CAST(COALESCE(SUM(io_ns), 0) AS BIGINT) AS io_ns,
        CAST(COALESCE(SUM(sync_ns), 0) AS BIGINT) AS sync_ns
    FROM time_split
) AS t
CROSS JOIN (
    SELECT
        COUNT(DISTINCT node) AS nodes,
        COUNT(*) AS processes,
        COUNT(DISTINCT exe) AS programs,
        COUNT(DISTINCT rank) AS ranks
    FROM process
) AS p
CROSS JOIN (SELECT COUNT(*) AS waits FROM sync_op) AS w
CROSS JOIN (SELECT COUNT(DISTINCT kind) AS unseen FROM unseen) AS u

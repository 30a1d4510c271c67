-- The time that findings are weighed against, in one row.
--
-- Working time is what threads computed, waited for a CPU, or for storage in calls on files and page faults. A share
-- of it says how much shorter the work would be without a cost, however many threads sleep beside. What is not known
-- is no work, except of threads whose CPU time nobody recorded: their time between calls is taken for work, so that
-- no cost looks larger than it can be. The times of threads are those of module `time_split`.
--
-- @materialize
-- @requires activity, time_split, trail_span
-- @column start_ts BIGINT ns: first moment of the trail; null in an empty one
-- @column end_ts BIGINT ns: last moment of the trail; null in an empty one
-- @column wall_ns BIGINT ns: between the two
-- @column threads BIGINT: threads
-- @column io_ns BIGINT ns: time of all threads in calls on files
-- @column wait_ns BIGINT ns: time of all threads in calls that wait, idle time included
-- @column thread_ns BIGINT ns: sum of the threads' lives
-- @column work_ns BIGINT ns: working time; at least the time in calls on files, in case the trail lacks threads, and
--     at least 1
-- @column compute_ns BIGINT ns: of it on a CPU in no recorded call; null unknown
-- @column queued_ns BIGINT ns: of it waiting for a CPU; null unknown
-- @column fault_ns BIGINT ns: of it waiting for storage in page faults; null unknown
-- @column unknown_ns BIGINT ns: time of all threads of which it is not known what they did
SELECT
    s.start_ts,
    s.end_ts,
    coalesce(s.end_ts - s.start_ts, 0) AS wall_ns,
    t.threads,
    t.io_ns,
    t.wait_ns,
    t.thread_ns,
    greatest(t.work_ns, a.io_ns, 1) AS work_ns,
    t.compute_ns,
    t.queued_ns,
    t.fault_ns,
    t.unknown_ns
FROM (
    SELECT
        count(*) AS threads,
        CAST(coalesce(sum(io_ns), 0) AS BIGINT) AS io_ns,
        CAST(coalesce(sum(sync_ns + idle_ns), 0) AS BIGINT) AS wait_ns,
        CAST(coalesce(sum(
            life_ns - sync_ns - idle_ns - CASE WHEN compute_ns IS NULL THEN 0 ELSE unknown_ns END
        ), 0) AS BIGINT) AS work_ns,
        CAST(sum(compute_ns) AS BIGINT) AS compute_ns,
        CAST(sum(queued_ns) AS BIGINT) AS queued_ns,
        CAST(sum(fault_ns) AS BIGINT) AS fault_ns,
        CAST(coalesce(sum(unknown_ns), 0) AS BIGINT) AS unknown_ns,
        CAST(coalesce(sum(life_ns), 0) AS BIGINT) AS thread_ns
    FROM time_split
) AS t
CROSS JOIN (SELECT CAST(coalesce(sum(io_ns), 0) AS BIGINT) AS io_ns FROM activity) AS a
CROSS JOIN trail_span AS s

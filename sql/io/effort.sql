-- The time that findings are weighed against, in one row.
--
-- Working time is what threads had less what they waited for something that is not a file: computing and
-- doing I/O. A share of it says how much shorter the work would be without a cost, however many threads
-- sleep beside. The times of threads are those of module `time_split`.
--
-- @materialize
-- @requires activity, time_split, trail_span
-- @column start_ts BIGINT ns: first moment of the trail; null in an empty one
-- @column end_ts BIGINT ns: last moment of the trail; null in an empty one
-- @column wall_ns BIGINT ns: between the two
-- @column threads BIGINT: threads
-- @column io_ns BIGINT ns: time of all threads in calls on files
-- @column wait_ns BIGINT ns: time of all threads in calls that wait
-- @column thread_ns BIGINT ns: sum of the threads' lives
-- @column work_ns BIGINT ns: thread_ns less wait_ns; at least the time in calls on files, in case the trail
--     lacks threads, and at least 1
SELECT
    s.start_ts,
    s.end_ts,
    coalesce(s.end_ts - s.start_ts, 0) AS wall_ns,
    t.threads,
    t.io_ns,
    t.wait_ns,
    t.thread_ns,
    greatest(t.thread_ns - t.wait_ns, a.io_ns, 1) AS work_ns
FROM (
    SELECT
        count(*) AS threads,
        CAST(coalesce(sum(io_ns), 0) AS BIGINT) AS io_ns,
        CAST(coalesce(sum(sync_ns), 0) AS BIGINT) AS wait_ns,
        CAST(coalesce(sum(life_ns), 0) AS BIGINT) AS thread_ns
    FROM time_split
) AS t
CROSS JOIN (SELECT CAST(coalesce(sum(io_ns), 0) AS BIGINT) AS io_ns FROM activity) AS a
CROSS JOIN trail_span AS s

-- The time that findings are weighed against, in one row.
--
-- Working time is what threads had less what they waited for something that is not a file: computing and
-- doing I/O. A share of it says how much shorter the work would be without a cost, however many threads
-- sleep beside. A call that never returned counts until its thread's end.
--
-- @materialize
-- @requires activity, sync_op, thread, trail_span
-- @column start_ts BIGINT ns: first moment of the trail; null in an empty one
-- @column end_ts BIGINT ns: last moment of the trail; null in an empty one
-- @column wall_ns BIGINT ns: between the two
-- @column threads BIGINT: threads
-- @column io_ns BIGINT ns: time of all threads in calls on files
-- @column wait_ns BIGINT ns: time of all threads in calls that wait
-- @column thread_ns BIGINT ns: sum of the threads' lives
-- @column work_ns BIGINT ns: thread_ns less wait_ns, at least io_ns, at least 1
WITH acted AS (
    SELECT node, thread, min(start_ts) AS start_ts, max(end_ts) AS end_ts, CAST(sum(io_ns) AS BIGINT) AS io_ns
    FROM activity
    GROUP BY node, thread
),

waited AS (
    SELECT
        node,
        thread,
        min(ts) AS start_ts,
        max(ts + coalesce(dur, 0)) AS end_ts,
        CAST(coalesce(sum(dur), 0) AS BIGINT) AS wait_ns,
        max(ts) FILTER (WHERE dur IS NULL) AS open_ts
    FROM sync_op
    GROUP BY node, thread
),

alive AS (
    -- Threads without a row of their own (imported trails) live from their first call to their last.
    SELECT
        coalesce(t.node, a.node, w.node) AS node,
        coalesce(t.start_ts, least(a.start_ts, w.start_ts), a.start_ts, w.start_ts) AS start_ts,
        CASE
            WHEN t.thread IS NULL THEN greatest(coalesce(a.end_ts, w.end_ts), coalesce(w.end_ts, a.end_ts))
            ELSE coalesce(t.end_ts, b.end_ts)
        END AS end_ts,
        coalesce(a.io_ns, 0) AS io_ns,
        coalesce(w.wait_ns, 0) AS wait_ns,
        w.open_ts
    FROM thread AS t
    FULL OUTER JOIN acted AS a ON a.node = t.node AND a.thread = t.thread
    FULL OUTER JOIN waited AS w ON w.node = coalesce(t.node, a.node) AND w.thread = coalesce(t.thread, a.thread)
    CROSS JOIN trail_span AS b
),

summed AS (
    SELECT
        count(*) AS threads,
        CAST(coalesce(sum(io_ns), 0) AS BIGINT) AS io_ns,
        CAST(coalesce(sum(wait_ns + CASE WHEN open_ts < end_ts THEN end_ts - open_ts ELSE 0 END), 0) AS BIGINT)
            AS wait_ns,
        CAST(coalesce(sum(end_ts - start_ts), 0) AS BIGINT) AS thread_ns
    FROM alive
)

SELECT
    b.start_ts,
    b.end_ts,
    coalesce(b.end_ts - b.start_ts, 0) AS wall_ns,
    s.threads,
    s.io_ns,
    s.wait_ns,
    s.thread_ns,
    greatest(s.thread_ns - s.wait_ns, s.io_ns, 1) AS work_ns
FROM summed AS s
CROSS JOIN trail_span AS b

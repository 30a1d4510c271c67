-- Each thread with its process and its life: one row a thread, the first one where a trail says more.
-- Thread ids are 63-bit hashes, so they stay apart in trails of several machines.
--
-- @materialize
-- @requires thread, process, trail_span
-- @dimension node, process, process_name, rank
-- @measure life_ns = sum(life_ns)
-- @column node VARCHAR: machine
-- @column thread BIGINT: thread
-- @column tid BIGINT: thread id of the system
-- @column thread_name VARCHAR: name; null none given
-- @column process BIGINT: its process
-- @column pid BIGINT: process id of the system
-- @column process_name VARCHAR: name of the executable
-- @column role VARCHAR: part the process plays; null none
-- @column rank BIGINT: MPI rank; null none
-- @column start_ts BIGINT ns: when it began
-- @column end_ts BIGINT ns: when it ended; its process's end, or the trail's, where that is unknown
-- @column life_ns BIGINT ns: time from start to end
SELECT
    t.node,
    t.thread,
    t.tid,
    t.thread_name,
    t.process,
    p.pid,
    p.process_name,
    p.role,
    p.rank,
    t.start_ts,
    GREATEST(t.start_ts, COALESCE(t.end_ts, p.end_ts, s.end_ts)) AS end_ts,
    GREATEST(t.start_ts, COALESCE(t.end_ts, p.end_ts, s.end_ts)) - t.start_ts AS life_ns
FROM (
    SELECT
        node,
        thread,
        MAX(tid) AS tid,
        MAX(name) AS thread_name,
        MAX(process) AS process,
        MIN(start_ts) AS start_ts,
        MAX(end_ts) AS end_ts
    FROM thread
    GROUP BY node, thread
) AS t
LEFT JOIN (
    SELECT
        node,
        process,
        MAX(pid) AS pid,
        MAX(name) AS process_name,
        MAX(role) AS role,
        MAX(rank) AS rank,
        MAX(end_ts) AS end_ts
    FROM process
    GROUP BY node, process
) AS p ON p.node = t.node AND p.process = t.process
CROSS JOIN trail_span AS s

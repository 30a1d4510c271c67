-- What the critical path of a run consists of, of recordings with --causal: what its threads did while all waited for them, one row
-- for each thread and kind of work. The times add up to the length of the run.
--
-- @requires causal_cell, file, thread_life
-- @dimension node, process, process_name, rank, thread, work, call, path
-- @measure ns = CAST(SUM(ns) AS BIGINT)
-- @order ns DESC
-- @column node VARCHAR: machine
-- @column process BIGINT: process; null unknown
-- @column process_name VARCHAR: name of the executable; null unknown
-- @column rank BIGINT: MPI rank; null none
-- @column thread BIGINT: thread
-- @column work VARCHAR: io: calls on files; compute: on a CPU between calls; queued: waiting for a CPU between calls; unexplained:
--     between calls, doing nobody knows what; wait: in calls that wait, for what is not recorded, or going on after a signal
-- @column call VARCHAR: name of the call; null but for io
-- @column path VARCHAR: file; null but for io, or unknown
-- @column ns BIGINT ns: time on the path
SELECT
    p.node,
    t.process,
    t.process_name,
    t.rank,
    p.thread,
    p.work,
    p.call,
    f.path,
    p.ns
FROM (
    SELECT node, thread, work, call, file, CAST(SUM(path_ns) AS BIGINT) AS ns
    FROM (
        SELECT
            node,
            thread,
            path_ns,
            CASE WHEN work IN ('wait', 'resume', 'other') THEN 'wait' ELSE work END AS work,
            CASE WHEN work = 'io' THEN call END AS call,
            CASE WHEN work = 'io' THEN file END AS file
        FROM causal_cell
    ) AS named
    GROUP BY node, thread, work, call, file
    HAVING SUM(path_ns) > 0
) AS p
LEFT JOIN thread_life AS t ON t.thread = p.thread
LEFT JOIN (
    SELECT node, file, MAX(path) AS path
    FROM file
    GROUP BY node, file
) AS f ON f.node = p.node AND f.file = p.file

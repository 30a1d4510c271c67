-- What threads waited for: one row a thread, what it waited for and object, by call.
-- The waiting of time_split opened: outermost calls only, cut to the life of the thread, so that the rows of a thread
-- add up to its sync_ns and idle_ns together. The peer is known where the call names one (a child's pid, an MPI rank),
-- or where a lock of a file is held by another process: its path says which.
--
-- @materialize
-- @requires busy, thread_life, file
-- @order time_ns DESC, thread, call
-- @dimension node, process, process_name, thread, waits_for, call, object
-- @measure n = sum(n); time_ns = sum(time_ns); max_ns = max(max_ns)
-- @column node VARCHAR: machine
-- @column process BIGINT: process that waited
-- @column process_name VARCHAR: name of its executable
-- @column thread BIGINT: thread that waited
-- @column thread_name VARCHAR: name; null none given
-- @column waits_for VARCHAR: what it waits for, as in module busy: lock, condition, poll, socket, pipe, process …
-- @column call VARCHAR: name of the call
-- @column object BIGINT: address of the lock, condition or futex, or id of the file, pipe or socket; null none or unknown
-- @column object_name VARCHAR: the file's path, the pipe's or socket's name; null none or unknown
-- @column peer BIGINT: pid of the child or MPI rank that was waited for; null none or unknown
-- @column n BIGINT ops: waits
-- @column time_ns BIGINT ns: time waited, each instant once
-- @column max_ns BIGINT ns: the longest
SELECT
    t.node,
    t.process,
    t.process_name,
    t.thread,
    t.thread_name,
    b.waits_for,
    b.call,
    b.object,
    f.path AS object_name,
    CASE WHEN b.waits_for IN ('process', 'mpi') AND b.peer >= 0 THEN b.peer END AS peer,
    COUNT(*) AS n,
    CAST(SUM(b.until_ts - b.since_ts) AS BIGINT) AS time_ns,
    MAX(b.until_ts - b.since_ts) AS max_ns
FROM busy AS b
INNER JOIN thread_life AS t ON t.thread = b.thread
LEFT JOIN (
    SELECT node, file, MAX(path) AS path
    FROM file
    GROUP BY node, file
) AS f ON f.node = t.node AND f.file = b.object
WHERE b.kind = 'wait'
GROUP BY
    t.node, t.process, t.process_name, t.thread, t.thread_name, b.waits_for, b.call, b.object, f.path,
    CASE WHEN b.waits_for IN ('process', 'mpi') AND b.peer >= 0 THEN b.peer END

-- Every call on a file with what is known about it: one row a call, the base of the other modules.
-- A call that never returned (the program was killed in it) has null for dur, result and bucket. One whose
-- duration the trail doesn't know (imported from a trace without response times) has a result, but no dur.
--
-- @requires bare_op, file, thread_life, unseen
-- @dimension call, kind, file, path, process, process_name, rank, thread, node
-- @measure n = count(*); calls = sum(calls); dur = sum(dur); length = sum(length); moved = sum(moved)
-- @column ts BIGINT ns: start
-- @column dur BIGINT ns: time until it returned; null if it never did, or unknown
-- @column end_ts BIGINT ns: end; of an unfinished call its thread's end; null if the trail doesn't know that: of calls
--     without a known duration, and of requests that never complete in a trace of requests
-- @column node VARCHAR: machine
-- @column process BIGINT: process that called; null if the trail doesn't know the thread
-- @column process_name VARCHAR: name of its executable; null unknown
-- @column rank BIGINT: MPI rank; null none
-- @column thread BIGINT: thread that called
-- @column crumb BIGINT: breadcrumb; 0 none
-- @column call VARCHAR: name of the call
-- @column kind VARCHAR: what it does: read, write, flush, meta or map
-- @column file BIGINT: file it acted on; null unknown
-- @column path VARCHAR: path of the file; null unknown
-- @column file2 BIGINT: second file; null none
-- @column fd BIGINT: descriptor; null none
-- @column pos BIGINT bytes: offset; null where the call has none
-- @column length BIGINT bytes: bytes asked for; null where the call has none
-- @column moved BIGINT bytes: bytes read or written; 0 for other kinds, for failed and for unfinished calls
-- @column result BIGINT: what it returned; null unfinished
-- @column errno BIGINT: error number; 0 success
-- @column flags BIGINT: flags of the call; null none
-- @column calls BIGINT ops: calls of the program the row stands for
-- @column trace_row BIGINT: row in the imported trace, which orders rows of equal ts; null if recorded
-- @column bucket BIGINT: bucket of dur in the log-linear histogram (crates/format/src/hist.rs); null as dur
SELECT
    o.ts,
    o.dur,
    COALESCE(o.ts + o.dur, CASE WHEN o.result IS NULL THEN GREATEST(t.end_ts, o.ts) END) AS end_ts,
    o.node,
    t.process,
    t.process_name,
    t.rank,
    o.thread,
    o.crumb,
    o.call,
    o.kind,
    o.file,
    f.path,
    o.file2,
    o.fd,
    o.pos,
    o.length,
    o.moved,
    o.result,
    o.errno,
    o.flags,
    o.calls,
    o.trace_row,
    o.bucket
FROM bare_op AS o
LEFT JOIN (
    SELECT node, file, MAX(path) AS path
    FROM file
    GROUP BY node, file
) AS f ON f.node = o.node AND f.file = o.file
LEFT JOIN (
    SELECT
        l.node,
        l.thread,
        MAX(l.process) AS process,
        MAX(l.process_name) AS process_name,
        MAX(l.rank) AS rank,
        -- a trace of requests doesn't say what became of those that never complete in it
        MAX(CASE WHEN r.node IS NULL THEN l.end_ts END) AS end_ts
    FROM thread_life AS l
    LEFT JOIN (SELECT DISTINCT node FROM unseen WHERE kind = 'between_requests') AS r ON r.node = l.node
    GROUP BY l.node, l.thread
) AS t ON t.node = o.node AND t.thread = o.thread

-- What each thread did to each file by each call: one row a thread, file and call.
--
-- The base of most findings: one pass over `file_op`, some thousand rows for ten million calls, so that
-- a question about counts, bytes, time, sizes, failures or flags costs milliseconds. It groups by ids
-- first and joins names after, which is three times cheaper than grouping rows of `op`.
--
-- A copy inside the kernel is a read of its source and a write of its destination: two operations, one call of the
-- program, whose time is the read's (module copied). Calls on what is no file (module channel) aren't in it.
--
-- A request is small below `small_bytes`: "128KiB is determined to be the minimum blksize to best
-- minimize system call overhead" (GNU coreutils, src/ioblksize.h), and 128 KiB is Linux's default
-- read-ahead (/sys/block/*/queue/read_ahead_kb). Drishti takes 1 MiB, the default stripe of Lustre: set
-- 1048576 on a parallel file system. O_* values are those of x86-64 and generic Linux (asm-generic/fcntl.h).
--
-- @materialize
-- @param small_bytes BIGINT 131072 bytes: a request of fewer bytes is small
-- @param block_bytes BIGINT 4096 bytes: block of the file system, for alignment
-- @requires file_op, call, thread_life, file, copied, channel
-- @dimension process_name, process, thread, path, file, call, kind
-- @measure ops = sum(ops); bytes = sum(bytes); io_ns = sum(io_ns); failed = sum(failed); small_ops = sum(small_ops)
-- @column node VARCHAR: machine (one boot of it)
-- @column process BIGINT: process of the thread; null unknown
-- @column process_name VARCHAR: name of its executable; 'unknown process' without one
-- @column thread BIGINT: thread that called
-- @column file BIGINT: file it acted on; null unknown
-- @column path VARCHAR: path of the file; '(unknown file)' without one
-- @column call VARCHAR: name of the call
-- @column kind VARCHAR: read, write, flush, meta or map
-- @column ops BIGINT: rows of file_op, and copies to the file
-- @column calls BIGINT: calls of the program these rows stand for
-- @column bytes BIGINT bytes: moved by reads, writes and flushed stdio buffers
-- @column io_ns BIGINT ns: time in these calls; null if that of none is known
-- @column max_ns BIGINT ns: the longest of them; null if none returned
-- @column failed BIGINT: calls with an error
-- @column missing BIGINT: calls that failed with ENOENT or ENOTDIR
-- @column missing_ns BIGINT ns: time in those
-- @column small_ops BIGINT: reads or writes that moved 1 to small_bytes - 1 bytes
-- @column small_bytes BIGINT bytes: moved by those
-- @column small_ns BIGINT ns: time in those
-- @column unaligned_ops BIGINT: reads or writes whose start or length is no multiple of block_bytes
-- @column max_pos BIGINT bytes: largest offset of a read or write; null none
-- @column eof_ops BIGINT: reads that returned 0 though they asked for bytes
-- @column eof_ns BIGINT ns: time in those
-- @column creates BIGINT: successful opens that may create the file (O_CREAT, creat, mkstemp)
-- @column truncates BIGINT: successful opens that empty the file (O_TRUNC, creat)
-- @column direct_opens BIGINT: successful opens with O_DIRECT
-- @column sync_opens BIGINT: successful opens with O_SYNC or O_DSYNC
-- @column start_ts BIGINT ns: start of the first
-- @column end_ts BIGINT ns: end of the last (its start if it never returned)
WITH grouped AS (
    SELECT
        o.node,
        o.thread,
        o.file,
        o.call,
        coalesce(c.kind, 'meta') AS kind,
        FALSE AS is_copy,
        count(*) AS ops,
        CAST(sum(o.calls) AS BIGINT) AS calls,
        CAST(sum(CASE WHEN (c.kind IN ('read', 'write') OR o.call = 'fflush') AND o.result > 0
                      THEN o.result ELSE 0 END) AS BIGINT) AS bytes,
        CASE WHEN count(o.dur) > 0 OR count(o.result) = 0 THEN CAST(coalesce(sum(o.dur), 0) AS BIGINT) END AS io_ns,
        max(o.dur) AS max_ns,
        count(*) FILTER (WHERE c.kind IN ('read', 'write') AND o.result > 0 AND o.result < p.small_bytes)
            AS small_ops,
        CAST(coalesce(sum(o.result) FILTER (WHERE c.kind IN ('read', 'write') AND o.result > 0
                                            AND o.result < p.small_bytes), 0) AS BIGINT) AS small_bytes,
        CAST(coalesce(sum(o.dur) FILTER (WHERE c.kind IN ('read', 'write') AND o.result > 0
                                         AND o.result < p.small_bytes), 0) AS BIGINT) AS small_ns,
        count(*) FILTER (WHERE c.kind IN ('read', 'write')
                         AND (o.pos % p.block_bytes <> 0 OR o.length % p.block_bytes <> 0)) AS unaligned_ops,
        max(o.pos) FILTER (WHERE c.kind IN ('read', 'write')) AS max_pos,
        count(*) FILTER (WHERE c.kind = 'read' AND o.result = 0 AND o.length > 0) AS eof_ops,
        CAST(coalesce(sum(o.dur) FILTER (WHERE c.kind = 'read' AND o.result = 0 AND o.length > 0), 0) AS BIGINT)
            AS eof_ns,
        min(o.ts) AS start_ts,
        max(o.ts + coalesce(o.dur, 0)) AS end_ts
    FROM file_op AS o
    LEFT JOIN call AS c ON c.call = o.call
    CROSS JOIN params AS p
    GROUP BY o.node, o.thread, o.file, o.call, c.kind
    UNION ALL
    SELECT node, thread, file, call, 'write', TRUE, n, 0, bytes, 0, NULL, 0, 0, 0, 0, NULL, 0, 0, start_ts, end_ts
    FROM copied
),

-- What only failed calls and opens have: summed over those few, which spares seven sums over all calls.
seldom AS (
    SELECT
        o.node,
        o.thread,
        o.file,
        o.call,
        count(*) FILTER (WHERE o.errno <> 0) AS failed,
        count(*) FILTER (WHERE o.errno IN (2, 20)) AS missing,
        CAST(coalesce(sum(o.dur) FILTER (WHERE o.errno IN (2, 20)), 0) AS BIGINT) AS missing_ns,
        count(*) FILTER (WHERE o.errno = 0 AND (o.call IN ('creat', 'mkstemp')
                         OR (o.call IN ('open', 'fopen') AND (o.flags & 64) <> 0))) AS creates,
        count(*) FILTER (WHERE o.errno = 0 AND (o.call = 'creat'
                         OR (o.call IN ('open', 'fopen') AND (o.flags & 512) <> 0))) AS truncates,
        count(*) FILTER (WHERE o.errno = 0 AND o.call = 'open' AND (o.flags & 16384) <> 0) AS direct_opens,
        count(*) FILTER (WHERE o.errno = 0 AND o.call = 'open' AND (o.flags & 4096) <> 0) AS sync_opens
    FROM file_op AS o
    WHERE o.errno <> 0 OR o.call IN ('open', 'creat', 'fopen', 'mkstemp')
    GROUP BY o.node, o.thread, o.file, o.call
)

SELECT
    g.node,
    t.process,
    coalesce(t.process_name, 'unknown process') AS process_name,
    g.thread,
    g.file,
    coalesce(f.path, '(unknown file)') AS path,
    g.call,
    g.kind,
    g.ops,
    g.calls,
    g.bytes,
    g.io_ns,
    g.max_ns,
    coalesce(r.failed, 0) AS failed,
    coalesce(r.missing, 0) AS missing,
    coalesce(r.missing_ns, 0) AS missing_ns,
    g.small_ops,
    g.small_bytes,
    g.small_ns,
    g.unaligned_ops,
    g.max_pos,
    g.eof_ops,
    g.eof_ns,
    coalesce(r.creates, 0) AS creates,
    coalesce(r.truncates, 0) AS truncates,
    coalesce(r.direct_opens, 0) AS direct_opens,
    coalesce(r.sync_opens, 0) AS sync_opens,
    g.start_ts,
    g.end_ts
FROM grouped AS g
ANTI JOIN channel AS x ON x.node = g.node AND x.file = g.file
LEFT JOIN seldom AS r
    ON NOT g.is_copy AND r.node = g.node AND r.thread = g.thread AND r.call = g.call AND coalesce(r.file, 0) = coalesce(g.file, 0)
LEFT JOIN thread_life AS t ON t.node = g.node AND t.thread = g.thread
LEFT JOIN (
    SELECT node, file, max(path) AS path
    FROM file
    GROUP BY node, file
) AS f ON f.node = g.node AND f.file = g.file

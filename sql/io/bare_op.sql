-- Every call on a file with its kind and the bucket of its latency, without names: one row a call.
-- What modules read that sum up millions of calls; op joins the names.
--
-- @requires file_op, call
-- @column ts BIGINT ns: start
-- @column dur BIGINT ns: time until it returned; null if it never did, or unknown
-- @column node VARCHAR: machine
-- @column thread BIGINT: thread that called
-- @column crumb BIGINT: breadcrumb; 0 none
-- @column call VARCHAR: name of the call
-- @column kind VARCHAR: what it does: read, write, flush, meta or map
-- @column file BIGINT: file it acted on; null unknown
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
WITH placed AS (
    SELECT
        *,
        -- log2 may round up just below a power of two: >> tells
        CAST(FLOOR(LOG2(GREATEST(dur, 1))) AS INTEGER)
        - CASE WHEN GREATEST(dur, 1) >> CAST(FLOOR(LOG2(GREATEST(dur, 1))) AS INTEGER) = 0 THEN 1 ELSE 0 END
            AS octave
    FROM file_op
)

SELECT
    o.ts,
    o.dur,
    o.node,
    o.thread,
    o.crumb,
    o.call,
    COALESCE(c.kind, 'meta') AS kind,
    o.file,
    o.file2,
    o.fd,
    o.pos,
    o.length,
    CASE WHEN c.kind IN ('read', 'write') AND o.errno = 0 AND o.result > 0 THEN o.result ELSE 0 END AS moved,
    o.result,
    o.errno,
    o.flags,
    o.calls,
    o.trace_row,
    CASE
        WHEN o.dur < 32 THEN GREATEST(o.dur, 0)
        ELSE CAST((o.octave - 5) * 32 + (o.dur >> GREATEST(o.octave - 5, 0)) AS BIGINT)
    END AS bucket
FROM placed AS o
LEFT JOIN call AS c ON c.call = o.call

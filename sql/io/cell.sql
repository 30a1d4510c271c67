-- File operations summed by time, thread, file, call and latency: the smallest sums that answer any selection.
-- Sums over rows give operations, bytes and time of a span of time buckets, a file, a process, a thread, a
-- call; sums of n by bucket give the latency histogram of the same. The report draws itself from these. As
-- in module throughput, an operation counts in the time bucket in which it returned.
--
-- @materialize
-- @requires bare_op, call, thread_file, time_bucket
-- @dimension node, process, thread, file, call, kind, bucket
-- @measure n = sum(n); errors = sum(errors); bytes = sum(bytes); time_ns = sum(time_ns); max_ns = max(max_ns)
-- @column ts BIGINT ns: start of the time bucket; of operations that never returned the one their thread ended in, of those
--     without a known duration the one they began in
-- @column node VARCHAR: machine
-- @column process BIGINT: process that called; null unknown
-- @column thread BIGINT: thread that called
-- @column file BIGINT: file; null unknown
-- @column call VARCHAR: name of the call
-- @column kind VARCHAR: what it does: read, write, flush, meta or map
-- @column bucket BIGINT: index of the histogram's bucket, 32 an octave; null for operations that never returned, or whose duration is unknown
-- @column n BIGINT ops: operations
-- @column errors BIGINT ops: operations that failed
-- @column bytes BIGINT bytes: bytes they moved
-- @column time_ns BIGINT ns: their time together; those that never returned count as 0
-- @column max_ns BIGINT ns: the longest of them; null if none returned
WITH placed AS (
    SELECT
        CAST(f.thread_file AS INTEGER) AS thread_file,
        COALESCE(o.ts + o.dur, CASE WHEN o.result IS NULL THEN GREATEST(f.until_ts, o.ts) END, o.ts) AS at_ts,
        o.call,
        o.bucket,
        o.errno,
        o.moved,
        o.dur,
        FALSE AS is_copy
    FROM bare_op AS o
    INNER JOIN thread_file AS f ON f.thread = o.thread AND COALESCE(f.file, 0) = COALESCE(o.file, 0)
    UNION ALL
    -- a copy inside the kernel is a write of its second file too, in the same time
    SELECT
        CAST(f.thread_file AS INTEGER),
        COALESCE(o.ts + o.dur, GREATEST(f.until_ts, o.ts), o.ts),
        o.call,
        NULL,
        0,
        o.moved,
        0,
        TRUE
    FROM bare_op AS o
    INNER JOIN thread_file AS f ON f.thread = o.thread AND f.file = o.file2
    WHERE o.moved > 0 AND o.call IN ('copy_file_range', 'sendfile', 'splice')
),

summed AS (
    SELECT
        at_ts - at_ts % (SELECT MAX(every_ns) FROM time_bucket) AS ts,
        thread_file,
        call,
        is_copy,
        bucket,
        COUNT(*) AS n,
        COUNT(*) FILTER (WHERE errno <> 0) AS errors,
        CAST(SUM(moved) AS BIGINT) AS bytes,
        CAST(COALESCE(SUM(dur), 0) AS BIGINT) AS time_ns,
        MAX(dur) AS max_ns
    FROM placed
    GROUP BY at_ts - at_ts % (SELECT MAX(every_ns) FROM time_bucket), thread_file, call, is_copy, bucket
)

SELECT
    s.ts,
    f.node,
    f.process,
    f.thread,
    f.file,
    s.call,
    CASE WHEN s.is_copy THEN 'write' ELSE COALESCE(c.kind, 'meta') END AS kind,
    s.bucket,
    s.n,
    s.errors,
    s.bytes,
    s.time_ns,
    s.max_ns
FROM summed AS s
INNER JOIN thread_file AS f ON f.thread_file = s.thread_file
LEFT JOIN call AS c ON c.call = s.call

-- Each call: how often, how long, how much: one row a call, file calls and waiting calls.
-- Percentiles are those of module percentiles; waiting calls have none.
--
-- @requires op, percentiles, sync_op, thread_life
-- @dimension kind
-- @measure n = sum(n); calls = sum(calls); errors = sum(errors); unfinished = sum(unfinished);
--     time_ns = sum(time_ns); max_ns = max(max_ns); bytes = sum(bytes)
-- @column call VARCHAR: name of the call
-- @column kind VARCHAR: what it does: read, write, flush, meta, map or wait
-- @column n BIGINT ops: operations
-- @column calls BIGINT ops: calls of the program they stand for: more than n where stdio buffered
-- @column errors BIGINT ops: operations that failed
-- @column unfinished BIGINT ops: operations that never returned
-- @column time_ns BIGINT ns: time in them, unfinished ones until their thread's end; null if that of none is known
-- @column p50_ns BIGINT ns: median latency; null for waiting calls and where none returned
-- @column p99_ns BIGINT ns: 99th percentile; null as p50_ns
-- @column max_ns BIGINT ns: longest that returned; null where none did
-- @column bytes BIGINT bytes: bytes moved
-- @column files BIGINT: files acted on
-- @column threads BIGINT: threads that called
SELECT
    o.call,
    o.kind,
    o.n,
    o.calls,
    o.errors,
    o.unfinished,
    o.time_ns,
    p.p50_ns,
    p.p99_ns,
    o.max_ns,
    o.bytes,
    o.files,
    o.threads
FROM (
    SELECT
        call,
        kind,
        COUNT(*) AS n,
        CAST(SUM(calls) AS BIGINT) AS calls,
        COUNT(*) FILTER (WHERE errno <> 0) AS errors,
        COUNT(*) FILTER (WHERE COALESCE(dur, result) IS NULL) AS unfinished,
        CAST(SUM(end_ts - ts) AS BIGINT) AS time_ns,
        MAX(dur) AS max_ns,
        CAST(SUM(moved) AS BIGINT) AS bytes,
        COUNT(DISTINCT file) AS files,
        COUNT(DISTINCT thread) AS threads
    FROM op
    GROUP BY call, kind
) AS o
LEFT JOIN percentiles AS p ON p.per = 'call' AND p.call = o.call
UNION ALL
SELECT
    w.call,
    'wait',
    COUNT(*),
    COUNT(*),
    COUNT(*) FILTER (WHERE w.errno <> 0),
    COUNT(*) FILTER (WHERE COALESCE(w.dur, w.result) IS NULL),
    CAST(SUM(COALESCE(w.dur, CASE WHEN w.result IS NULL THEN GREATEST(t.end_ts, w.ts) - w.ts END)) AS BIGINT),
    NULL,
    NULL,
    MAX(w.dur),
    0,
    0,
    COUNT(DISTINCT w.thread)
FROM sync_op AS w
LEFT JOIN thread_life AS t ON t.node = w.node AND t.thread = w.thread
GROUP BY w.call

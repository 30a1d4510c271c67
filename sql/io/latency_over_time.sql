-- Latency of file operations over time: a log-linear histogram for each time bucket and call.
-- A call stands in the time bucket in which it began.
--
-- @materialize
-- @requires op, time_bucket
-- @dimension call, kind, bucket, latency
-- @measure n = sum(n); time_ns = sum(time_ns); max_ns = max(max_ns)
-- @column ts BIGINT ns: start of the time bucket
-- @column call VARCHAR: name of the call
-- @column kind VARCHAR: what it does
-- @column bucket BIGINT: index of the histogram's bucket, 32 an octave
-- @column latency BIGINT ns: smallest latency of the bucket; the next bucket begins at most 1/32 above
-- @column n BIGINT ops: operations in the bucket
-- @column time_ns BIGINT ns: their time together
-- @column max_ns BIGINT ns: the longest of them
SELECT
    ts - ts % (SELECT MAX(every_ns) FROM time_bucket) AS ts,
    call,
    kind,
    bucket,
    CASE
        WHEN bucket < 64 THEN bucket
        ELSE (32 + bucket % 32) * CAST(POWER(2, (bucket - bucket % 32) / 32 - 1) AS BIGINT)
    END AS latency,
    COUNT(*) AS n,
    CAST(SUM(dur) AS BIGINT) AS time_ns,
    MAX(dur) AS max_ns
FROM op
WHERE bucket IS NOT NULL
GROUP BY ts - ts % (SELECT MAX(every_ns) FROM time_bucket), call, kind, bucket

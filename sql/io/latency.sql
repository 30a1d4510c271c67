-- Latency of file operations as a log-linear histogram, one row a call, process and bucket.
-- Histograms merge by adding n. Calls that never returned aren't in it.
--
-- @materialize
-- @requires op
-- @dimension call, kind, process, process_name, bucket, latency
-- @measure n = sum(n); time_ns = sum(time_ns); max_ns = max(max_ns); bytes = sum(bytes)
-- @column call VARCHAR: name of the call
-- @column kind VARCHAR: what it does
-- @column process BIGINT: process that called; null unknown
-- @column process_name VARCHAR: name of its executable; null unknown
-- @column bucket BIGINT: index of the bucket, 32 an octave
-- @column latency BIGINT ns: smallest latency of the bucket; the next bucket begins at most 1/32 above
-- @column n BIGINT ops: operations in the bucket
-- @column time_ns BIGINT ns: their time together
-- @column max_ns BIGINT ns: the longest of them
-- @column bytes BIGINT bytes: bytes they moved
SELECT
    call,
    kind,
    process,
    process_name,
    bucket,
    CASE
        WHEN bucket < 64 THEN bucket
        ELSE (32 + bucket % 32) * CAST(POWER(2, (bucket - bucket % 32) / 32 - 1) AS BIGINT)
    END AS latency,
    COUNT(*) AS n,
    CAST(SUM(dur) AS BIGINT) AS time_ns,
    MAX(dur) AS max_ns,
    CAST(SUM(moved) AS BIGINT) AS bytes
FROM op
WHERE bucket IS NOT NULL
GROUP BY call, kind, process, process_name, bucket

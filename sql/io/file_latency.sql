-- Latency of file operations as a log-linear histogram, one row a file, call and bucket.
-- As module latency, by file instead of process.
--
-- @materialize
-- @requires op
-- @dimension file, path, call, kind, bucket, latency
-- @measure n = sum(n); time_ns = sum(time_ns); max_ns = max(max_ns); bytes = sum(bytes)
-- @column node VARCHAR: machine
-- @column file BIGINT: file; null unknown
-- @column path VARCHAR: its path; null unknown
-- @column call VARCHAR: name of the call
-- @column kind VARCHAR: what it does
-- @column bucket BIGINT: index of the bucket, 32 an octave
-- @column latency BIGINT ns: smallest latency of the bucket; the next bucket begins at most 1/32 above
-- @column n BIGINT ops: operations in the bucket
-- @column time_ns BIGINT ns: their time together
-- @column max_ns BIGINT ns: the longest of them
-- @column bytes BIGINT bytes: bytes they moved
SELECT
    node,
    file,
    MAX(path) AS path,
    call,
    MAX(kind) AS kind,
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
GROUP BY node, file, call, bucket

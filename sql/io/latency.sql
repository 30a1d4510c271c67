-- Latency of file operations as a log-linear histogram, one row a call, process and bucket.
-- Histograms merge by adding n. Calls that never returned aren't in it.
--
-- @materialize
-- @requires cell, process
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
    c.call,
    MAX(c.kind) AS kind,
    c.process,
    MAX(p.process_name) AS process_name,
    c.bucket,
    CASE
        WHEN c.bucket < 64 THEN c.bucket
        ELSE (32 + c.bucket % 32) * CAST(POWER(2, (c.bucket - c.bucket % 32) / 32 - 1) AS BIGINT)
    END AS latency,
    CAST(SUM(c.n) AS BIGINT) AS n,
    CAST(SUM(c.time_ns) AS BIGINT) AS time_ns,
    MAX(c.max_ns) AS max_ns,
    CAST(SUM(c.bytes) AS BIGINT) AS bytes
FROM cell AS c
LEFT JOIN (
    SELECT node, process, MAX(name) AS process_name
    FROM process
    GROUP BY node, process
) AS p ON p.node = c.node AND p.process = c.process
WHERE c.bucket IS NOT NULL
GROUP BY c.call, c.process, c.bucket

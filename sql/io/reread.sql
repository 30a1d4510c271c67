-- Bytes read more than once: one row a file. What a cache of unlimited size would have served.
-- Exact: bytes read less the different bytes read. Module `cache` says how much a cache of a given size
-- would have served. What the program wrote before is not counted as cached.
--
-- @requires footprint
-- @order again_bytes DESC
-- @dimension path
-- @measure bytes = sum(bytes); again_bytes = sum(again_bytes);
--     again_share = CAST(sum(again_bytes) AS DOUBLE) / NULLIF(sum(bytes), 0)
-- @column node VARCHAR: machine
-- @column file BIGINT: file
-- @column path VARCHAR: its path; '(unknown file)' without one
-- @column n BIGINT ops: reads at a known offset that moved bytes
-- @column bytes BIGINT bytes: bytes they read
-- @column once_bytes BIGINT bytes: different bytes among them
-- @column again_bytes BIGINT bytes: bytes - once_bytes: those read before
-- @column again_share DOUBLE share: again_bytes / bytes
-- @column time_ns BIGINT ns: time in these reads
SELECT
    node,
    file,
    path,
    ops AS n,
    bytes,
    distinct_bytes AS once_bytes,
    bytes - distinct_bytes AS again_bytes,
    CAST(bytes - distinct_bytes AS DOUBLE) / bytes AS again_share,
    time_ns
FROM footprint
WHERE kind = 'read'

-- Accesses to buffer caches, one row each, or one for many that were pruned: hits and misses of every cache of every component.
-- `iotrail sql X.trail cache_access --by component,cache --every 1s` is a cache's counters.
--
-- @requires buffer_op, demand_rollup
-- @order ts
-- @dimension node, component, cache
-- @measure n = sum(n); hits = sum(hits); misses = sum(misses);
--     hit_share = CAST(sum(hits) AS DOUBLE) / NULLIF(sum(hits) + sum(misses), 0); writes = sum(writes);
--     read_aheads = sum(read_aheads); flushes = sum(flushes); evictions = sum(evictions); bytes = sum(bytes)
-- @column ts BIGINT ns: when, on the clock of its node; of what was pruned the start of the stretch it was in
-- @column node VARCHAR: machine
-- @column component VARCHAR: part of the system
-- @column cache VARCHAR: which of its caches
-- @column n BIGINT ops: accesses
-- @column hits BIGINT ops: reads that the cache held
-- @column misses BIGINT ops: reads that it didn't hold
-- @column writes BIGINT ops: writes
-- @column read_aheads BIGINT ops: those read ahead
-- @column flushes BIGINT ops: those written back
-- @column evictions BIGINT ops: evictions
-- @column bytes BIGINT bytes: bytes accessed
SELECT
    ts,
    node,
    component,
    cache,
    CAST(1 AS BIGINT) AS n,
    CAST(CASE WHEN kind = 'read_hit' THEN 1 ELSE 0 END AS BIGINT) AS hits,
    CAST(CASE WHEN kind = 'read_miss' THEN 1 ELSE 0 END AS BIGINT) AS misses,
    CAST(CASE WHEN kind = 'write' THEN 1 ELSE 0 END AS BIGINT) AS writes,
    CAST(CASE WHEN kind = 'read_ahead' THEN 1 ELSE 0 END AS BIGINT) AS read_aheads,
    CAST(CASE WHEN kind = 'flush' THEN 1 ELSE 0 END AS BIGINT) AS flushes,
    CAST(CASE WHEN kind = 'evict' THEN 1 ELSE 0 END AS BIGINT) AS evictions,
    COALESCE(length, 0) AS bytes
FROM buffer_op
WHERE pruned IS NULL
UNION ALL
SELECT
    ts,
    node,
    component,
    place,
    n,
    CASE WHEN name = 'read_hit' THEN n ELSE 0 END,
    CASE WHEN name = 'read_miss' THEN n ELSE 0 END,
    CASE WHEN name = 'write' THEN n ELSE 0 END,
    CASE WHEN name = 'read_ahead' THEN n ELSE 0 END,
    CASE WHEN name = 'flush' THEN n ELSE 0 END,
    CASE WHEN name = 'evict' THEN n ELSE 0 END,
    bytes
FROM demand_rollup
WHERE resource = 'cache'

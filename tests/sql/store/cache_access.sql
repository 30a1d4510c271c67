-- The paper's counter: alice's read hit the head's cache, bob's missed; two writes and their flush.
SELECT node, component, cache, SUM(n) AS n, SUM(hits) AS hits, SUM(misses) AS misses, SUM(writes) AS writes,
    SUM(read_aheads) AS read_aheads, SUM(flushes) AS flushes, SUM(evictions) AS evictions, SUM(bytes) AS bytes
FROM cache_access GROUP BY ALL ORDER BY ALL

-- @param time_slices=2
-- 1000 ns in two slices. Before 500: four preads (3 * 4096 + 2048 bytes; 100 + 100 + 40 + 20 ns). From 500 on: the
-- pwrites of thread 11 (60 ns) and of 12, which never returns; the pread inside the barrier.
SELECT slice, call, kind, CAST(SUM(n) AS BIGINT) AS n, CAST(SUM(bytes) AS BIGINT) AS bytes,
    CAST(SUM(errors) AS BIGINT) AS errors, CAST(SUM(time_ns) AS BIGINT) AS time_ns
FROM run_slice GROUP BY ALL ORDER BY slice, call

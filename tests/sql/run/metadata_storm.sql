-- @param every_ns=50
-- @param storm_rate=20000000
-- In 100–150 process 1 made one call, an open: 1 in 50 ns are 2e7 a second and all its calls: a storm. In
-- 300–350 the stat stands beside a read: half of the calls, a storm too.
SELECT ts, process, n, all_n, rate, share, storm FROM metadata ORDER BY ts

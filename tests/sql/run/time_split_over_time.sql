-- @param every_ns=500
-- Cut at 500. 11 before: open 50 + reads 240 = 290; after: write 60 + fsync 200 of I/O, 100 of waiting.
-- 12 lives 400 on both sides: read 20 + stat 30, then the unfinished 100. 21 ends at 500.
SELECT ts, thread, life_ns, compute_ns, io_ns, sync_ns, read_ns, write_ns, flush_ns
FROM time_split_over_time ORDER BY thread, ts

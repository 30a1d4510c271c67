-- @param every_ns=20000000000
-- The read of 50 s begins at 102 s: 18 s of it lie in 100–120 (and the 10 ns of the read at 100 s), 20 in 120–140,
-- 12 in 140–152. 0–20 has three reads of 10 ns.
SELECT ts, life_ns, compute_ns, io_ns FROM time_split_over_time ORDER BY ts

-- @param reopen_times=1
-- @param slow_ns=50
-- Reads of /data/a: 4 x 4096 + 2048 bytes in 100 + 100 + 40 + 30 + 20 ns, one of the five where the last ended, two that
-- jump (40 + 30 ns), the first of them backwards. Writes: 1000 bytes to b, 100 to c, one to b that never returned: c has 100 of their 160 ns. One
-- fsync beside b's two writes. Of all 11 calls the open (50 ns) and the stat (30) are metadata; the open alone takes
-- 50 ns on average and, with the reads, makes a small file: 340 ns. One open leaves no further one to cost anything.
SELECT * FROM program_pattern ORDER BY pattern

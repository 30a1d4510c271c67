-- 11 operations: 5 reads (3*4096 + 4096 + 2048 bytes = 18432), 3 writes (1000 + 100; the unfinished moved
-- nothing), 1 fsync, open and stat. Times: the sums of time_split. 18432+1100 bytes in 1000 ns.
SELECT * FROM overview

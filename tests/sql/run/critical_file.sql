-- Thread 11 spends 50+240 on /data/a (the read in the barrier counts as waiting), 60+200 on /data/b;
-- 12 spends 20 on a, 100 on b, 30 on c; 21 spends 100 on c. Shares: of 1000 ns, of 21's 500 for c.
SELECT path, thread, io_ns, life_ns, life_share, run_share, threads, all_ns FROM critical_file ORDER BY path

-- 11: open 50 + reads 100+100+40 + write 60 + fsync 200 = 550 of I/O; the barrier's 100 are waiting and the
-- read inside it counts no second time; 1000-550-100 = 350 not known, as no
-- CPU time was recorded.
-- 12: lives 800; read 20 + stat 30 + the unfinished write from 800 to its end at 900 = 150; 650 not known.
-- 21: lives 500; write 100; sleep 150; 250 not known.
SELECT thread, life_ns, compute_ns, io_ns, sync_ns, read_ns, write_ns, flush_ns, meta_ns, io_share, sync_share
FROM time_split ORDER BY thread

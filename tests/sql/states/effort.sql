-- @param every_ns=10000
-- 60,000 of life; waiting: 4000 + 10,000 + 10,000, idle 9000. Work: 11 10,000, 12 500, 13 6000 (its CPU time is
-- not recorded, so its time between calls counts), 14 9000; 21 and 22 none.
SELECT threads, thread_ns, wait_ns, work_ns, compute_ns, queued_ns, fault_ns, unknown_ns FROM effort

-- @param every_ns=10000
-- 11: 8000 outside its read: 5000 on a CPU by its clock; of the 3000 off it the scheduler explains 800, and three
-- quarters (3 major faults in 4 voluntary switches: 2250) may be page faults, for which 2200 are left.
-- 12: outside its wait 300 on a CPU and 200 off it without a voluntary switch: waiting for a CPU. The clock was last read at
-- 9500: the last 500 are not known. Idle for 9000, of which it span 50.
-- 13: nothing is known of the 6000 after its lock. 14: what the scheduler says, which knows no
-- faults, and 1000 not known.
-- 21 and 22: nobody works while 21 waits for 22, so 22 is not idle.
SELECT thread, life_ns, compute_ns, queued_ns, fault_ns, io_ns, sync_ns, idle_ns, unknown_ns, spin_ns, io_cpu_ns,
    lock_ns, condition_ns, process_ns
FROM time_split ORDER BY thread

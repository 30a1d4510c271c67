-- Thread 21 waits for the message from 50 to 300: thread 11 has a CPU 80 of its first 100, so 40 of the 50 that are left of them, and writes 200; it
-- had computed 50 itself and done no I/O. Thread 11 waits at the barrier from 320 to 700: thread 21 computes 70, less than its own 80, and reads
-- 300, 100 more than it wrote. For the receiver of the large message it waits 10, in which thread 11 computes, and had computed 70.
SELECT thread, ts, dur, state, cause_thread, work, call, file, ns, excess_ns FROM wait_cause ORDER BY thread, ts, work

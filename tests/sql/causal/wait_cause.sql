-- Thread 21 waits for the message from 50 to 300: thread 11 has a CPU 80 of its first 100, so 40 of the 50 that are left of them, and writes 200. In
-- all it computed 80, 30 more than thread 21, which did no I/O. Thread 11 waits at the barrier from 320 to 700, in which thread 21 computes 70 and
-- reads 300: 50 + 70 computing are 40 more than its own 80, and the read 100 more than its write. For the receiver of the large message thread 21
-- waits 10, in which thread 11 computes; since 300 that computed 90, and thread 21 70.
SELECT thread, ts, dur, state, cause_thread, work, call, file, ns, excess_ns FROM wait_cause ORDER BY thread, ts, work

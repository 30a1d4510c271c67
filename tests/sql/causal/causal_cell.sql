-- Buckets of 250 ns. Thread 11: 80 on a CPU, 15 waiting for one, 5 unknown and half of its write until 250; then 50 of the write, 20 of
-- nothing recorded after the message, 180 at the barrier, which thread 21 lets it leave at 700; 20 to leave it, 30 + 250 computing. Thread 21: 50
-- computing and 200 of the message's wait, 50 more until it is sent, 30 to receive it, 70 computing, 100 of its read; 200 more of it; 15 at the
-- barrier that had nobody to wait for; sleep, lock and poll; what CPU time is not known of; 10 for the receiver, 20 after it, 70 of nothing
-- recorded. The critical path is thread 11 until 300 and from 700, between them thread 21.
-- @param every_ns=250
SELECT ts, thread, work, call, file, state, cause_thread, n, ns, path_ns FROM causal_cell ORDER BY ts, thread, work, state, call

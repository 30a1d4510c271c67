-- Thread 11 computes 100 + 50 before the barrier, 100 until it writes and 100 after: what it spins in the barrier isn't computing, nor what the
-- write takes on a CPU. Of its waiting for a CPU 50 are before the barrier; the 50 in it are the barrier's. What it did from 900 on isn't known.
-- Of thread 21 that is true of all but the barrier.
SELECT thread, life_ns, compute_ns, queued_ns, fault_ns, io_ns, sync_ns, unknown_ns FROM time_split ORDER BY thread

-- The same in buckets of 250: of the first 100 + 50 computing, 50 waiting for a CPU, 50 in the barrier.
-- @param every_ns=250
SELECT ts, thread, life_ns, compute_ns, queued_ns, io_ns, sync_ns, unknown_ns FROM time_split_over_time WHERE thread = 11 ORDER BY ts

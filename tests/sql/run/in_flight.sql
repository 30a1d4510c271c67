-- @param every_ns=250
-- The mean as in queue_depth. At 250 the read from 200 is under way, at 750 the fsync from 600; nothing at the others.
SELECT ts, carried, carried_reads, carried_writes, carried_flushes, mean, mean_flushes, busy_ns FROM in_flight ORDER BY ts

-- @param every_ns=500
-- Reads in two time buckets by thread, file, call and latency.
SELECT ts, thread, file, call, bucket, n, errors, bytes, time_ns, max_ns FROM cell WHERE kind = 'read'
ORDER BY ts, thread, bucket

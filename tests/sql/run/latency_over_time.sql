-- @param every_ns=500
-- By start: the read of 30 ns began at 870, the other four before 500.
SELECT ts, call, bucket, latency, n FROM latency_over_time WHERE kind = 'read' ORDER BY ts, bucket

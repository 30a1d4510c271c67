-- @param every_ns=1000
-- What was read from one file and what reached the other.
SELECT kind, n, bytes, time_ns FROM throughput ORDER BY kind

-- @param every_ns=1000
-- 3 calls of 10 ns on machine a, one of 20 ns on machine b, one without a file.
SELECT node, process, thread, file, call, kind, bucket, n, bytes, time_ns FROM cell ORDER BY thread, call

-- @param every_ns=200
-- The calls of busy by the bucket they begin in. Those that end with their bucket (reads until 400, fsync until
-- 800) don't reach beyond it; the sleep from 300 to 450 does: 100 of its 150 lie in the bucket of its begin.
SELECT ts, thread, kind, until_ts, n, time_ns, begun_ns FROM busy_bucket ORDER BY thread, ts, kind

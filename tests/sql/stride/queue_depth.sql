-- @param every_ns=20000000000
-- As time_split_over_time: one read in flight for 18 of 20 s, then 20 of 20, then 12 of 20.
SELECT ts, mean, most, busy_ns FROM queue_depth ORDER BY ts

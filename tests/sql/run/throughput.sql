-- @param every_ns=500
-- By end. Read: 4 end before 500 (4096*3 + 2048 bytes), 1 after. Write: 21's at 200, 11's at 560; the
-- unfinished never. 4 in 500 ns are 8e6 a second.
SELECT ts, process, kind, n, bytes, time_ns, iops, bytes_per_s FROM throughput
WHERE kind IN ('read', 'write') ORDER BY ts, process, kind

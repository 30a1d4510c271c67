-- At 1000: 20 writes in 1,000 ns are 20 M a second; 500 ns of CPU in 1,000 are half a CPU; memory of that moment is 100.
-- At 2000: 30 + 12 writes in 1,000 + 400 ns are 30 M a second; memory was 300. osd.9 stands on its machine.
-- @param every_ns=1000
SELECT ts, member, role, host, rack, metric, name, least, level, value FROM sample ORDER BY ts, member, metric

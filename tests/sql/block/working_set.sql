-- @param every_ns=100
-- Blocks of /dev/a: 0, 1 (rows 0, 2), 2 (rows 1, 4, 5, 6), 256 and 257 (row 3). Block 2 is written at 1000 and 1200, read at 1100 and
-- 1300: all sees it 100 after the use before, reads and writes 200.
SELECT ts, before_ts, dev, kind, bytes, followed FROM working_set ORDER BY dev, kind, ts, before_ts NULLS FIRST

-- @param every_ns=100
-- /dev/a: 10, 0, 110, 10, 120, 50 between all, in buckets from 108 (110), 120 and 50; reads 10, 110, 10, 170 (from 168); writes 240.
-- /dev/b: 50. sda: 50.
SELECT ts, dev, kind, gap, n FROM block_gap ORDER BY dev, kind, ts, gap

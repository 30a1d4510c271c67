-- @param every_ns=100
-- Of the first bucket two reads of 4096 and a write of 512; then one of 8192 and one of 4096; a write; the rest. 0 is row 9.
SELECT ts, dev, kind, size, n, bytes FROM block_size ORDER BY ts, dev, kind, size

-- @param every_ns=100
-- Rows 2, 4 and 5 and the kernel's second write go on where another ended; rows 7 and 9 have no place.
SELECT ts, dev, kind, n, bytes, sequential, sequential_bytes, sequential_share FROM block_sequential ORDER BY ts, dev, kind

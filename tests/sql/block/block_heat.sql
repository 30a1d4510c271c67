-- @param every_ns=100
-- @param heat_rows=5
-- 1 MiB + 8192 in four parts is a little more than 256 KiB: 512 KiB wide, so the read at 1 MiB is in the third. The 8192 bytes of sda in
-- parts of 2048.
SELECT ts, dev, pos, width, reads, writes, bytes_read, bytes_written FROM block_heat ORDER BY ts, dev, pos

-- @param every_ns=500
-- @param heat_rows=2
-- /data/a is used up to offset 8192: two rows hold it from a width of 8192 on. /data/b up to 100: 64.
SELECT path, ts, pos, width, reads, writes, bytes_read, bytes_written, time_ns FROM heat ORDER BY path, ts, pos

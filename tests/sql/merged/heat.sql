-- @param every_ns=1000
-- The same place of two files: 3 reads of 4096 bytes and one.
SELECT node, path, pos, reads, bytes_read, time_ns FROM heat ORDER BY node

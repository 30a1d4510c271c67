-- /dev/a has seven reads and writes and a flush, /dev/b two reads without a place, sda two writes and a flush; /dev/b sorts behind
-- sda of as many requests because machine k comes first. Reads of /dev/a ask for 3 x 4096 + 8192 + 4096, its last ends at
-- 1 MiB + 8192.
SELECT * FROM block_device ORDER BY device

-- sda has one request for 5800, none for 13100 (6900 to 20000), one for 1000; sdb one for 12000.
SELECT node, dev, dur, queue_depth, busy_ns FROM disk_queue ORDER BY node, ts

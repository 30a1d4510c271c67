-- sda as the kernel saw it: 1000 queued and 4800 served, then 1000 at once; sdb as the program did: 3000 and 9000.
SELECT node, dev, op, crumb, n, end_ts - ts AS took, queued_ns, service_ns, bytes FROM disk_request ORDER BY node, ts

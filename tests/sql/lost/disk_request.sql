-- Of a's data the kernel's requests count, of what has no other name the program's.
SELECT node, crumb, dev, op, service_ns, bytes FROM disk_request ORDER BY node, ts

-- Requests enter the head at 1000 (10), 5000 (11), 30000, 33000 and 50000 (30; the flush works for others). Storage
-- sends once a node. sda gets what is queued at 1100 and at 20000; it serves 4800 of 5800, then 1000 of 1000; sdb
-- 9000 of 12000.
SELECT level, node, place, crumb, gap_ns, service_ns, response_ns
FROM interarrival ORDER BY level, node, place, ts

-- cpu: 800 + 1000 + 900 + 900 + 250 + 500 on the head. disk on s1: the kernel's rows, 6900 - 2100 = 4800 and 1000;
-- on s2 only the program posted: 13000 - 4000 = 9000. Hits: alice's 4096 on the head, the inode on mds.
SELECT resource, node, component, SUM(n) AS n, SUM(time_ns) AS time_ns, SUM(bytes) AS bytes, SUM(hits) AS hits
FROM resource_use GROUP BY ALL ORDER BY ALL

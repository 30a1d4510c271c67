-- The head served four requests, 3000 + 20000 + 2000 + 2000; mds and s1, s2 one each; s3's has no reply.
SELECT node, component, SUM(n) AS n, SUM(errors) AS errors, SUM(unfinished) AS unfinished, SUM(time_ns) AS time_ns, SUM(bytes) AS bytes
FROM served GROUP BY ALL ORDER BY ALL

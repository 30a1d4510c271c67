-- The head's 5 requests in 49000: 12250 apart on average, the second of four smallest in bucket 3968. Only disks say
-- when service began: sda serves (4800 + 1000) / 2 of (5800 + 1000) / 2.
SELECT level, node, place, n, CAST(ROUND(rate, 0) AS BIGINT) AS rate, mean_ns, CAST(ROUND(cv * 1000, 0) AS BIGINT) AS cv_mille,
    p50_ns, p99_ns, max_ns, service_ns, response_ns
FROM arrival_point ORDER BY level, node, place

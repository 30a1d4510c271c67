-- 11 reads /data/a at 0, 4096 (sequential), 0 (random: 4096 back after 4096 forward), 8192 (random: 8192 on).
SELECT thread, path, kind, pattern, n, bytes, time_ns, sequential, strided, random, sequential_share
FROM pattern ORDER BY thread, path

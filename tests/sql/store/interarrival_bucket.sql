-- The head's requests come 4000, 25000, 3000 and 17000 apart: buckets of 4000 (62.5 * 64, wide 64: 62 * 64 = 3968),
-- 25000 (wide 512: 48 * 512 = 24576), 3000 (wide 64: 46 * 64 = 2944), 17000 (wide 512: 33 * 512 = 16896).
SELECT * FROM interarrival_bucket WHERE level = 'request' ORDER BY gap_ns

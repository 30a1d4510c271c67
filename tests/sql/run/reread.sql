-- /data/a: 4 reads of 4096 and one of 2048 = 18432 bytes. Different: 0–4096, 4096–8192, 8192–12288 = 12288;
-- 0 was read twice (4096) and the first half of 8192 (2048): 6144 again, both within a second.
SELECT path, n, bytes, once_bytes, again_bytes, time_ns FROM reread

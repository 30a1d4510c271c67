-- 4096 for all reads, one of them short; 1000 lies in 512–1023, as does 512 (unfinished: it moved nothing),
-- 100 in 64–127. Unaligned: 1000 at 100, 512 at 0, 100 at 0.
SELECT kind, process, size, n, asked_bytes, bytes, time_ns, short, unaligned FROM size ORDER BY kind, process, size

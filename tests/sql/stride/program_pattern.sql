-- Two reads step 8192 bytes as the one before did; the second read has no step before it and the last goes back: two
-- jumps, one of them 50 s longer and the only one backwards.
SELECT pattern, file, files, ops, all_ops, bytes, touched_bytes, consecutive_share, cost_ns
FROM program_pattern
ORDER BY pattern

-- Thread 1 stays at 0. Its second read has no distance before to compare with: a jump. The third is as far (0
-- bytes) from the second as that was from the first: strided.
SELECT node, thread, path, kind, ops, bytes, consecutive_ops, jump_ops, strided_ops FROM step ORDER BY thread

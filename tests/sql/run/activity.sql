-- Per thread, file and call. All reads and writes are below 128 KiB, so small; the unfinished moved nothing.
SELECT thread, path, call, kind, ops, bytes, io_ns, max_ns, failed, missing, small_ops, unaligned_ops, start_ts, end_ts
FROM activity ORDER BY thread, path, call

SELECT ts, thread, file, bytes, n, runs, think_ns, whole FROM read_stream ORDER BY ts

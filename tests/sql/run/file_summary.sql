-- a: open, five reads. b: the write, the unfinished one (no time: it never returned), the fsync. c: the
-- failed stat of process 1 and the write of process 2.
SELECT path, n, reads, writes, flushes, metas, opens, bytes_read, bytes_written, errors, time_ns, read_ns,
    write_ns, flush_ns, meta_ns, max_ns, processes, threads, start_ts, end_ts
FROM file_summary ORDER BY path

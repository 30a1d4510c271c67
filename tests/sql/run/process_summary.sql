-- Process 1: threads 11 and 12 together.
SELECT process, process_name, rank, ended, status, life_ns, threads, thread_ns, compute_ns, io_ns, sync_ns, n,
    bytes_read, bytes_written, errors
FROM process_summary ORDER BY process

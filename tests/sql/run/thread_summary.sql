-- Times as time_split; 12 reads 2048 and its write moved nothing; its stat failed.
SELECT thread, life_ns, compute_ns, io_ns, sync_ns, n, bytes_read, bytes_written, errors, files
FROM thread_summary ORDER BY thread

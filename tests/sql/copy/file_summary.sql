-- Read from: 1000 + 500 + 700 + 300. Written to /data/to: 1500, in two copies, whose time stands under the source. The
-- pipe and the socket are no files.
SELECT path, n, reads, writes, bytes_read, bytes_written, bytes_copied, errors, time_ns, processes, threads
FROM file_summary ORDER BY path

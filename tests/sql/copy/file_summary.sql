-- Read from: 1000 + 500 + 700. No row acts on /data/to itself, but it received 1500 by copies: a row without operations.
SELECT path, n, reads, bytes_read, bytes_written, bytes_copied, errors, time_ns, processes, threads FROM file_summary ORDER BY path

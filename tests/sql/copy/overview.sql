-- No thread is known, so no time split; the span is that of the calls. Operations: five reads of /data/from, two writes of
-- /data/to, for five calls; the pipe's close is on no file.
SELECT start_ts, end_ts, processes, threads, files, ops, calls, reads, writes, errors, bytes_read, bytes_written, thread_ns
FROM overview

-- No thread is known, so no time split; the span is that of the calls.
SELECT start_ts, end_ts, processes, threads, ops, reads, errors, bytes_read, bytes_written, thread_ns FROM overview

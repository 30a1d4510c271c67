-- The short read moved what it returned, the failed and the unfinished call nothing; the latter ends with its thread.
SELECT ts, dur, end_ts, process, process_name, rank, thread, call, kind, path, moved, bucket FROM op ORDER BY thread, ts

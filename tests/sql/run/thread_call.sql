-- Every call of README.md, the unfinished write to the end of its thread at 900.
SELECT thread, thread_number, call, kind_number, file, ts, end_ts FROM thread_call ORDER BY thread, ts

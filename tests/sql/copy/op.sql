-- Without a thread there is no process.
SELECT ts, end_ts, process, process_name, moved FROM op ORDER BY ts

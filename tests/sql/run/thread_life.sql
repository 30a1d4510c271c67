-- As thread.csv, with the processes of process.csv.
SELECT thread, process, pid, process_name, rank, start_ts, end_ts, life_ns FROM thread_life ORDER BY thread

-- 30 ns of thread 1 on machine a's file 1, 20 ns of thread 2 on machine b's, which is another file.
SELECT node, path, process_name, thread, io_ns, life_ns, threads, all_ns FROM critical_file ORDER BY node

-- 30 ns of thread 1 and 20 ns of thread 2 on file id 1, once each: named after the longer, thread 1.
SELECT path, process_name, thread, io_ns, life_ns, threads, all_ns FROM critical_file

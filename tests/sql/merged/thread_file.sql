-- Three pairs; file 1 is one number on machine a and another on machine b, the calls without a file a third.
SELECT thread_file, file_number, node, process, process_name, thread, until_ts, file, path FROM thread_file ORDER BY thread_file

-- 3 reads of machine a's file, 1 of machine b's, one call without a file: none doubled by the repeated rows.
SELECT node, process, process_name, thread, path, call, ops, bytes, io_ns, max_pos FROM activity ORDER BY thread, call

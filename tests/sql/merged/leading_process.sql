-- Two processes at the same time, each once though its rows stand twice. Process 1 reads 3 pages in 30 ns and asks
-- fstat (5 ns), process 2 reads one in 20 ns: 12288 of 16384 bytes, 35 of 55 ns, medians 8192 and 27.5.
SELECT process_name, measure, process, peers, total, median, io_ns, bytes, ops FROM leading_process ORDER BY measure

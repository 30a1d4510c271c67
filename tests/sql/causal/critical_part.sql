-- 600 of thread 11: 200 writing, 80 + 280 computing, 15 waiting for a CPU, 5 unknown, 20 to leave the barrier; 400 of thread 21: 300
-- reading, 70 computing, 30 to receive what had been sent. All in all the run's 1000.
SELECT thread, rank, process_name, work, call, path, ns FROM critical_part ORDER BY thread, work, call

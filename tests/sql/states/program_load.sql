-- Threads 11 and 12 by their own clocks, 5,500 and 350; 14 by the scheduler, 6,000. Nothing went through sockets.
SELECT * FROM program_load ORDER BY node

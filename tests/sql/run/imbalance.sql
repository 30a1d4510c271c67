-- Bytes: 18432+1000 and 100: mean 9766. Operations: 10 and 1. I/O: 550+150 and 100. Lives: 1000 and 500.
-- Compute: 350+650 and 250. Waiting: 100 and 150.
SELECT process_name, measure, processes, total, mean, least, most, most_process, most_rank, ratio
FROM imbalance ORDER BY measure

-- The smallest of 1, 2, 5, 10 … that cuts 1000 ns into at most 200 with a part at both edges: 5 gives 200
-- whole ones, too many with the edge at 1000, so 10: 101 of them, the last begins at 1000.
SELECT COUNT(*) AS n, MIN(ts) AS first_ts, MAX(ts) AS last_ts, MAX(every_ns) AS every_ns FROM time_bucket

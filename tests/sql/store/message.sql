-- The head sent 150 to storage and 12388 to each of two replicas; storage sent 8292 and 100 back.
SELECT sender, receiver, SUM(n) AS n, SUM(bytes) AS bytes FROM message GROUP BY ALL ORDER BY ALL

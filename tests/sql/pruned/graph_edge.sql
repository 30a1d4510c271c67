-- Of alice's three reads the second is the median: 3000 + 3100 + 3500 = 9600, a mean of 3200. The flush took 65 ns.
SELECT from_name, n, timed, time_ns, mean_ns, p50_ns, p99_ns, max_ns
FROM graph_edge ORDER BY n DESC

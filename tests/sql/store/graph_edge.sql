-- Both writes go 500, 400, 1100; the flush follows the replies after 8000 and 5000, whose buckets begin at 7936 and
-- 4992, in the calls of the replicas after 900 and 1400; the second replica's way there has no known time.
SELECT from_component, from_name, from_moment, to_name, to_moment, kind, across, n, timed, time_ns, mean_ns, p50_ns, p99_ns, max_ns
FROM graph_edge WHERE n = 2 ORDER BY from_component, from_name, from_moment, to_name

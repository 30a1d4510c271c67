-- All: the ten that returned, sorted: 20 30 30 40 50 60 100 100 100 200. p50 the 5th, p90 the 9th, p99 and
-- p99.9 the 10th; the mean of 730. /data/a: 20 30 40 50 100 100; its p50 is the 3rd.
SELECT per, call, kind, process, path, n, time_ns, mean_ns, p50_ns, p90_ns, p99_ns, p999_ns, max_ns
FROM percentiles WHERE per IN ('all', 'process') OR (per = 'file' AND file = 1) OR (per = 'kind' AND kind = 'read')
ORDER BY per, process

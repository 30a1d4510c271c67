-- Sums of sums, means of levels: 20 + 10 M writes a second in rack r1 at 1000; its load and memory are of one member each.
-- @param every_ns=1000
SELECT ts, rack, metric, CASE WHEN bool_or(level) THEN avg(value) ELSE sum(value) END AS value
FROM sample WHERE rack IS NOT NULL GROUP BY ts, rack, metric ORDER BY ts, metric

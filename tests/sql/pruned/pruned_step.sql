-- Each row of step_rollup, its points by their numbers; both replies waited for the step of alice's reads.
SELECT s.workload, f.name AS from_name, f.moment AS from_moment, t.moment AS to_moment, s.kind, s.across, s.least, s.n, s.time_ns, s.max_ns, s.critical, s.critical_ns
FROM pruned_step AS s
JOIN point_kind AS f ON f.point_kind = s.from_kind
JOIN point_kind AS t ON t.point_kind = s.to_kind
ORDER BY s.workload, s.least NULLS LAST

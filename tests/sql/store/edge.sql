-- The steps of bob's read on the head: no step from the miss to the reply, in which the head only waited.
SELECT e.crumb, e.seq, f.name AS from_name, f.moment AS from_moment, t.name, t.moment, e.kind, e.across, e.latency
FROM edge AS e
JOIN point_kind AS f ON f.point_kind = e.from_kind
JOIN point_kind AS t ON t.point_kind = e.to_kind
WHERE e.node = 'head' AND e.crumb IN (11, 12, 13) ORDER BY e.crumb, e.seq, f.name

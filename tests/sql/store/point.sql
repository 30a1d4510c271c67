-- Crumb 70: arrival at 100, the miss is an instant, the program's disk request holds the kernel's, each with its issue.
-- Crumb 90 has no reply.
SELECT p.crumb, p.seq, p.ts - MIN(p.ts) OVER (PARTITION BY p.crumb) AS since, k.name, k.moment, p.role, p.ts - p.before_ts AS step
FROM point AS p JOIN point_kind AS k ON k.point_kind = p.point_kind
WHERE p.crumb IN (70, 90) ORDER BY p.crumb, p.seq

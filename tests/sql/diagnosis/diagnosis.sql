-- 3.6 ms of 10 ms; low, since so little time is worth nothing. The advice is for Python.
-- @param pattern_ops=2
SELECT place, cause, severity, program, kind, location, cost_ns, gain_ns, gain_share, findings FROM diagnosis

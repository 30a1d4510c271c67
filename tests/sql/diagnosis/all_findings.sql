-- Two findings of the same four flushes: one for each write, and too many for their data.
-- Below min_ops and pattern_ops nothing else is one.
-- @param pattern_ops=2
SELECT finding, severity, program, file, ops, bytes, cost_ns FROM all_findings ORDER BY finding

-- A level is drawn as it is, a sum by the second.
SELECT metric, role, unit, level FROM metric WHERE metric IN ('load', 'op_time', 'io_size') ORDER BY metric

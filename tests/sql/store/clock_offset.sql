-- The head called at 6000 and had its reply at 10000, what the MDS served at 500 of its clock: 5500 to 9500 lie between
-- the two and one hour. s3 never replied.
SELECT node, callee_node, n, shift_ns, error_ns FROM clock_offset ORDER BY callee_node

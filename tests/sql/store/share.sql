-- Requests owe themselves; 12, 50, 13, 70 are bob's request 11; the flush 20 and all below it a third alice's
-- request 14 (357913942 of 2^30 parts), the rest bob's 15. A part of a whole child is the same part.
SELECT node, crumb, root_crumb, client, lo, hi FROM share ORDER BY node, crumb, lo

-- Ten stitches. The flush 20 belongs to 14 by a third: ceil(2^30 / 3) = 357913942 parts, and the rest to 15;
-- all others have one parent, which has all 2^30 = 1073741824.
SELECT node, crumb, parent_node, parent_crumb, kind, lo, hi FROM crumb_parent ORDER BY node, crumb, lo

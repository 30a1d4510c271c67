-- All crumbs that nothing above is stitched to: 10, 11, 14, 15, and the scrub 30, which only has work of its own.
SELECT ts, dur, node, crumb, client, component, op, status, length, n FROM request ORDER BY ts

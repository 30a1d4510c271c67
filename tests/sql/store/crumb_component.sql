-- 11 posted a serving at the head; its calls 12 and 13 are the head's too.
SELECT node, crumb, component FROM crumb_component ORDER BY node, crumb

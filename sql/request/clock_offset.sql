-- How far the clocks of machines that call each other are apart, one row a pair that calls: an estimate for display.
-- Nothing is served before it was called for, nor only after the call returned: over all calls between two machines
-- that leaves a narrow interval, of which this is the least; as if the fastest message had taken no time.
--
-- @requires stitch, service_op
-- @order node, callee_node
-- @dimension node, callee_node
-- @measure n = sum(n)
-- @column node VARCHAR: machine that calls
-- @column callee_node VARCHAR: machine that is called
-- @column n BIGINT ops: calls
-- @column shift_ns BIGINT ns: what a moment of the callee is to be moved by to be one of the caller's clock
-- @column error_ns BIGINT ns: it may be more, by so much at most; negative if clocks drifted or calls contradict;
--     null no call returned
SELECT
    s.parent_node AS node,
    s.node AS callee_node,
    COUNT(*) AS n,
    MAX(c.ts - e.ts) AS shift_ns,
    MIN(c.ts + c.dur - e.ts) - MAX(c.ts - e.ts) AS error_ns
FROM stitch AS s
INNER JOIN service_op AS c ON c.node = s.parent_node AND c.crumb = s.parent_crumb AND c.kind = 'client'
INNER JOIN service_op AS e ON e.node = s.node AND e.crumb = s.crumb AND e.kind = 'server'
WHERE s.kind = 'rpc' AND s.parent_node <> s.node
GROUP BY s.parent_node, s.node

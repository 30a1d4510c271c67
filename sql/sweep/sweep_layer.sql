-- What each layer showed at a sweep's settings, beside what is expected: one row a setting, metric and expectation.
--
-- @requires measured, expected
-- @order setting, layer, metric
-- @dimension node, layer, metric, expectation
-- @measure n = count(*); median_ratio = percentile_cont(0.5) WITHIN GROUP (ORDER BY value / NULLIF(expected, 0))
-- @column node VARCHAR: machine
-- @column setting BIGINT: setting; table setting has its values
-- @column expectation VARCHAR: by what it is expected; null nothing is
-- @column layer VARCHAR: part of the stack
-- @column metric VARCHAR: what was measured, with its unit
-- @column value DOUBLE: mean of the measurements; null all failed
-- @column expected DOUBLE: what is expected; null nothing is
SELECT
    m.node,
    m.setting,
    e.expectation,
    m.layer,
    m.metric,
    m.value,
    e.value AS expected
FROM measured AS m
LEFT JOIN expected AS e
    ON e.node = m.node AND e.setting = m.setting AND e.layer = m.layer AND e.metric = m.metric

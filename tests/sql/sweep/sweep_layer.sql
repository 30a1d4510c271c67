SELECT node, setting, expectation, layer, metric, value, expected
FROM sweep_layer
ORDER BY node, setting, layer

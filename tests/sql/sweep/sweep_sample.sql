SELECT ts, node, setting, purpose, value, low, n, state, expectation, expected, round(loss, 6) AS loss, round(log_loss, 6) AS log_loss
FROM sweep_sample
ORDER BY node, setting

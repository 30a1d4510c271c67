-- What a sweep measured at each setting, beside what is expected: one row a setting and expectation.
-- A loss is 1 - measured / expected, or the reverse where less is better: below 0 where more is reached than expected.
--
-- @requires measured, expected, measurement, recording
-- @order loss DESC NULLS LAST, setting
-- @dimension node, state, purpose, expectation
-- @measure n = count(*); mean_loss = avg(loss)
-- @column ts BIGINT ns: start of its first measurement
-- @column node VARCHAR: machine
-- @column setting BIGINT: setting; table setting has its values
-- @column purpose VARCHAR: why it was measured: uniform, adaptive (chosen by what was measured), confirm (for a pair that confirms a cluster)
-- @column metric VARCHAR: what was measured, with its unit
-- @column value DOUBLE: mean of its measurements; null all failed
-- @column low DOUBLE: lower end of the 95 % interval; null from one measurement alone
-- @column high DOUBLE: upper end; null from one measurement alone
-- @column n BIGINT: measurements that didn't fail
-- @column state VARCHAR: ok, wide, two modes, failed
-- @column expectation VARCHAR: by what it is expected; null nothing is
-- @column expected DOUBLE: what is expected; null nothing is
-- @column loss DOUBLE share: share of what is expected that is missing; null unknown
-- @column log_loss DOUBLE: ln(expected / measured), in which losses of several causes add up; null unknown
WITH first AS (
    SELECT
        node,
        setting,
        min(ts) AS ts,
        CASE WHEN max(CASE WHEN purpose = 'uniform' THEN 1 ELSE 0 END) = 1 THEN 'uniform' ELSE min(purpose) END AS purpose
    FROM measurement
    GROUP BY node, setting
),
direction AS (
    SELECT
        node,
        max(CASE WHEN value = 'lower' THEN -1 ELSE 1 END) AS sign
    FROM recording
    WHERE name = 'better'
    GROUP BY node
),
joined AS (
    SELECT
        f.ts,
        m.node,
        m.setting,
        f.purpose,
        m.metric,
        m.value,
        m.low,
        m.high,
        m.n,
        m.state,
        e.expectation,
        e.value AS expected,
        CASE WHEN m.value > 0 AND e.value > 0 THEN d.sign * ln(e.value / m.value) END AS log_loss
    FROM measured AS m
    JOIN first AS f ON f.node = m.node AND f.setting = m.setting
    JOIN direction AS d ON d.node = m.node
    LEFT JOIN expected AS e
        ON e.node = m.node AND e.setting = m.setting AND e.layer = m.layer AND e.metric = m.metric
    WHERE m.layer = 'application'
)
SELECT
    ts,
    node,
    setting,
    purpose,
    metric,
    value,
    low,
    high,
    n,
    state,
    expectation,
    expected,
    1 - exp(-log_loss) AS loss,
    log_loss
FROM joined

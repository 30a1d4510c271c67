-- What components served, one row a serving, or one for many that were pruned: how many a second, how long they took, how many failed.
-- `iotrail sql X.trail served --by component,op --every 1s` is a server's counters.
--
-- @requires service_op, served_rollup
-- @order ts
-- @dimension node, component, op, client
-- @measure n = sum(n); errors = sum(errors); unfinished = sum(unfinished); time_ns = sum(time_ns);
--     mean_ns = sum(time_ns) / NULLIF(sum(n) - sum(unfinished), 0); bytes = sum(bytes)
-- @column ts BIGINT ns: arrival, on the clock of its node; of what was pruned the start of the stretch it was in
-- @column node VARCHAR: machine
-- @column component VARCHAR: part of the system
-- @column op VARCHAR: what was asked for
-- @column client VARCHAR: user on whose behalf; null as that of the request it is part of
-- @column n BIGINT ops: servings
-- @column errors BIGINT ops: those that failed
-- @column unfinished BIGINT ops: those without a reply
-- @column time_ns BIGINT ns: time until the reply; 0 without one
-- @column bytes BIGINT bytes: bytes it was about
SELECT
    ts,
    node,
    component,
    op,
    client,
    COALESCE(weight, 1) AS n,
    CASE WHEN status <> 0 THEN COALESCE(weight, 1) ELSE 0 END AS errors,
    CASE WHEN dur IS NULL THEN COALESCE(weight, 1) ELSE 0 END AS unfinished,
    COALESCE(dur, 0) * COALESCE(weight, 1) AS time_ns,
    COALESCE(length, 0) * COALESCE(weight, 1) AS bytes
FROM service_op
WHERE kind = 'server' AND COALESCE(weight, 1) > 0
UNION ALL
SELECT ts, node, component, op, client, n, errors, unfinished, time_ns, bytes
FROM served_rollup

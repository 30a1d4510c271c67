-- Messages between components, one row each, or one for many that were pruned: bytes out by sender, bytes in by receiver.
-- `iotrail sql X.trail message --by sender --every 1s` is what each component sends, `--by receiver` what it gets.
--
-- @requires network_transmit, demand_rollup
-- @order ts
-- @dimension node, sender, receiver
-- @measure n = sum(n); bytes = sum(bytes)
-- @column ts BIGINT ns: when it was sent, on the sender's clock; of what was pruned the start of the stretch it was in
-- @column node VARCHAR: machine of the sender
-- @column sender VARCHAR: who sent it
-- @column receiver VARCHAR: who receives it
-- @column n BIGINT ops: messages
-- @column bytes BIGINT bytes: bytes sent
SELECT ts, node, sender, receiver, COALESCE(weight, 1) AS n, length * COALESCE(weight, 1) AS bytes
FROM network_transmit
WHERE COALESCE(weight, 1) > 0
UNION ALL
SELECT ts, node, component, place, n, bytes
FROM demand_rollup
WHERE resource = 'network'

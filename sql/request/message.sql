-- Messages between components, one row each: bytes out by sender, bytes in by receiver.
-- `iotrail sql X.trail message --by sender --every 1s` is what each component sends, `--by receiver` what it gets.
--
-- @requires network_transmit
-- @order ts
-- @dimension node, sender, receiver
-- @measure n = sum(n); bytes = sum(bytes)
-- @column ts BIGINT ns: when it was sent, on the sender's clock
-- @column node VARCHAR: machine of the sender
-- @column sender VARCHAR: who sent it
-- @column receiver VARCHAR: who receives it
-- @column n BIGINT ops: messages: 1
-- @column bytes BIGINT bytes: bytes sent
SELECT ts, node, sender, receiver, CAST(1 AS BIGINT) AS n, length AS bytes
FROM network_transmit

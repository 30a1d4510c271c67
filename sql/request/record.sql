-- Every record that carries a breadcrumb, of all tables: what a request's path is made of.
--
-- @requires service_op, buffer_op, network_transmit, disk_op, cpu_slice, file_op, sync_op
-- @order ts, node, crumb
-- @dimension node, component, record, kind, name
-- @measure n = count(*); dur = sum(dur); length = sum(length)
-- @column ts BIGINT ns: start, on the clock of its node
-- @column dur BIGINT ns: time it took; 0 an instant, null it never ended
-- @column node VARCHAR: machine
-- @column thread BIGINT: thread
-- @column crumb BIGINT: breadcrumb
-- @column component VARCHAR: part of the system; null where the record doesn't say (disks, CPU, calls of programs)
-- @column record VARCHAR: table it is from
-- @column kind VARCHAR: server, client, internal, event; read_hit …; program or kernel; the call
-- @column name VARCHAR: what was done: op, kind of access, transmit, call; null CPU
-- @column place VARCHAR: which cache, receiver or disk; null none
-- @column client VARCHAR: user on whose behalf; null not said
-- @column status BIGINT: 0 success, else an error number; null unfinished or not said
-- @column length BIGINT bytes: bytes it is about; null none
-- @column issued BIGINT ns: when the disk got it; null unknown or no disk
-- @column cpu_ns BIGINT ns: of dur on a CPU, of rows of cpu_slice; null unknown, or another table's
SELECT
    ts,
    dur,
    node,
    thread,
    crumb,
    component,
    'service_op' AS record,
    kind,
    op AS name,
    CAST(NULL AS VARCHAR) AS place,
    client,
    status,
    length,
    CAST(NULL AS BIGINT) AS issued,
    CAST(NULL AS BIGINT) AS cpu_ns
FROM service_op
WHERE crumb <> 0
UNION ALL
SELECT ts, dur, node, thread, crumb, component, 'buffer_op', kind, kind, cache, NULL, NULL, length, NULL, NULL
FROM buffer_op
WHERE crumb <> 0
UNION ALL
SELECT ts, dur, node, thread, crumb, sender, 'network_transmit', 'transmit', 'transmit', receiver, NULL, NULL, length, NULL, NULL
FROM network_transmit
WHERE crumb <> 0
UNION ALL
SELECT ts, dur, node, thread, crumb, NULL, 'disk_op', kind, op, dev, NULL, NULL, length, issued, NULL
FROM disk_op
WHERE crumb <> 0
UNION ALL
SELECT ts, dur, node, thread, crumb, NULL, 'cpu_slice', kind, NULL, NULL, NULL, NULL, NULL, NULL,
    CASE WHEN kind = 'kernel' THEN dur ELSE cpu_ns END
FROM cpu_slice
WHERE crumb <> 0
UNION ALL
SELECT ts, dur, node, thread, crumb, NULL, 'file_op', call, call, NULL, NULL, errno, length, NULL, NULL
FROM file_op
WHERE crumb <> 0
UNION ALL
SELECT ts, dur, node, thread, crumb, NULL, 'sync_op', call, call, NULL, NULL, NULL, NULL, NULL, NULL
FROM sync_op
WHERE crumb <> 0

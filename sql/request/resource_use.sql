-- Every use of CPU, buffer cache, network and disk that was recorded, one row each, before it is billed.
-- CPU time is what the kernel's scheduler said, or else the thread's own CPU clock where it changed tasks; where
-- neither is known it is unknown, and not the time between the changes, in which the thread may have waited. Where
-- kernel and program both posted the CPU time of a thread, or a disk's I/O, the kernel's rows count.
--
-- @requires cpu_slice, buffer_op, network_transmit, disk_request, crumb_component, kernel_seen
-- @dimension resource, node, component
-- @measure n = sum(n); time_ns = sum(time_ns); bytes = sum(bytes); hits = sum(hits);
--     unknown = sum(unknown)
-- @column ts BIGINT ns: start, on the clock of its node
-- @column node VARCHAR: machine
-- @column crumb BIGINT: breadcrumb; 0 none
-- @column component VARCHAR: part of the system; null unknown
-- @column resource VARCHAR: cpu, cache, network or disk
-- @column n BIGINT ops: slices of CPU time, accesses to a cache, messages, requests to a disk: 1
-- @column time_ns BIGINT ns: time on the CPU, null unknown; service time of the disk, 0 for what was merged into
--     another request; else 0
-- @column bytes BIGINT bytes: bytes touched in a cache, sent, read from or written to a disk; else 0
-- @column hits BIGINT ops: reads that the cache held
-- @column place VARCHAR: cache, receiver or disk; null CPU
-- @column name VARCHAR: kind of access, or operation of the disk; null others
-- @column unknown BIGINT ops: 1 if its time on the CPU is not known, else 0
WITH kernel_thread AS (
    SELECT node, thread
    FROM cpu_slice
    WHERE kind = 'kernel'
    UNION
    SELECT node, thread
    FROM kernel_seen
    WHERE thread IS NOT NULL
),

-- CPUs and disks belong to no component: it is that of the breadcrumb
used AS (
    SELECT
        c.ts,
        c.node,
        c.crumb,
        'cpu' AS resource,
        CASE WHEN c.kind = 'kernel' THEN c.dur ELSE c.cpu_ns END AS time_ns,
        CAST(0 AS BIGINT) AS bytes,
        CAST(NULL AS VARCHAR) AS place,
        CAST(NULL AS VARCHAR) AS name,
        CAST(1 AS BIGINT) AS n
    FROM cpu_slice AS c
    LEFT JOIN kernel_thread AS k ON k.node = c.node AND k.thread = c.thread
    WHERE k.thread IS NULL OR c.kind = 'kernel'
    UNION ALL
    SELECT ts, node, crumb, 'disk', service_ns * n, bytes * n, dev, op, n
    FROM disk_request
    WHERE pruned IS NULL AND n > 0
)

SELECT
    u.ts,
    u.node,
    u.crumb,
    c.component,
    u.resource,
    u.n,
    u.time_ns,
    u.bytes,
    CAST(0 AS BIGINT) AS hits,
    u.place,
    u.name,
    CAST(CASE WHEN u.time_ns IS NULL THEN 1 ELSE 0 END AS BIGINT) AS unknown
FROM used AS u
LEFT JOIN crumb_component AS c ON c.node = u.node AND c.crumb = u.crumb
UNION ALL
SELECT
    ts,
    node,
    crumb,
    component,
    'cache',
    1,
    0,
    COALESCE(length, 0),
    CASE WHEN kind = 'read_hit' THEN 1 ELSE 0 END,
    cache,
    kind,
    0
FROM buffer_op
WHERE pruned IS NULL
UNION ALL
SELECT
    ts,
    node,
    crumb,
    sender,
    'network',
    COALESCE(weight, 1),
    0,
    length * COALESCE(weight, 1),
    0,
    receiver,
    NULL,
    0
FROM network_transmit
WHERE COALESCE(weight, 1) > 0

-- What requests cost: every use of CPU, buffer cache, network and disk, billed to those on whose behalf it was.
-- A row for each use and each request that owes a part of it; sums over all rows are those of resource_use,
-- exactly. Work put off, like write-back, is billed to who asked for it, and what was made of several requests is
-- billed to them by weight.
--
-- @requires resource_use, share, demand_rollup
-- @order client, resource
-- @dimension client, resource, node, component
-- @measure n = sum(n); time_ns = sum(time_ns); bytes = sum(bytes); hits = sum(hits);
--     unknown = sum(unknown)
-- @column ts BIGINT ns: start of the use, on the clock of its node; of what was pruned that of the stretch it was in
-- @column node VARCHAR: machine
-- @column component VARCHAR: part of the system; null unknown
-- @column client VARCHAR: who it is billed to; null unattributed: no breadcrumb, or a request for no client
-- @column root_node VARCHAR: machine of the request that owes it; null unknown
-- @column root_crumb BIGINT: the request that owes it; null unknown
-- @column resource VARCHAR: cpu, cache, network or disk
-- @column n BIGINT ops: slices of CPU time, accesses to a cache, messages, requests to a disk; of one that several
--     owe, the last does
-- @column time_ns BIGINT ns: time on the CPU, null unknown; service time of the disk
-- @column bytes BIGINT bytes: bytes touched in a cache, sent, read from or written to a disk
-- @column hits BIGINT ops: reads that the cache held
-- @column place VARCHAR: cache, receiver or disk; null CPU
-- @column name VARCHAR: kind of access, or operation of the disk; null others
-- @column unknown BIGINT ops: of n those whose time on the CPU is not known; time_ns is that of the others
WITH owed AS (
    SELECT
        u.*,
        s.client,
        s.root_node,
        s.root_crumb,
        COALESCE(s.lo, 0) AS lo,
        COALESCE(s.hi, 1073741824) AS hi
    FROM resource_use AS u
    LEFT JOIN share AS s ON s.node = u.node AND s.crumb = u.crumb
)

SELECT
    ts,
    node,
    component,
    client,
    root_node,
    root_crumb,
    resource,
    ((n * hi) >> 30) - ((n * lo) >> 30) AS n,
    -- amount * part / 2^30, rounded down, in two halves so that the product fits
    (time_ns >> 30) * (hi - lo) + (((time_ns % 1073741824) * hi) >> 30) - (((time_ns % 1073741824) * lo) >> 30)
    AS time_ns,
    (bytes >> 30) * (hi - lo) + (((bytes % 1073741824) * hi) >> 30) - (((bytes % 1073741824) * lo) >> 30) AS bytes,
    ((hits * hi) >> 30) - ((hits * lo) >> 30) AS hits,
    place,
    name,
    ((unknown * hi) >> 30) - ((unknown * lo) >> 30) AS unknown
FROM owed
UNION ALL
SELECT ts, node, component, client, NULL, NULL, resource, n, time_ns, bytes, hits, place, name, COALESCE(unknown, 0)
FROM demand_rollup

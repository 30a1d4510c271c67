-- How many requests a disk had, queued or served, over time: one row a stretch in which the number was the same.
-- `iotrail sql X.trail disk_queue --by node,dev` gives its mean and largest. What never completed isn't in it,
-- nor a disk of which only a sample was collected.
--
-- @requires disk_request
-- @order node, dev, ts
-- @dimension node, dev
-- @measure mean = CAST(sum(queue_depth * dur) AS DOUBLE) / NULLIF(sum(dur), 0); most = max(queue_depth);
--     busy_ns = sum(busy_ns)
-- @column ts BIGINT ns: start, on the clock of its node
-- @column dur BIGINT ns: how long the number stayed the same
-- @column node VARCHAR: machine
-- @column dev VARCHAR: disk
-- @column queue_depth BIGINT ops: requests in the disk's queue or in service
-- @column busy_ns BIGINT ns: dur, if there was any
WITH sampled AS (
    -- of these the depth isn't known
    SELECT DISTINCT node, dev
    FROM disk_request
    WHERE weight <> 1
),

step AS (
    SELECT r.ts, r.node, r.dev, 1 AS step
    FROM disk_request AS r
    ANTI JOIN sampled AS s ON s.node = r.node AND s.dev = r.dev
    WHERE r.end_ts > r.ts
    UNION ALL
    SELECT r.end_ts, r.node, r.dev, -1
    FROM disk_request AS r
    ANTI JOIN sampled AS s ON s.node = r.node AND s.dev = r.dev
    WHERE r.end_ts > r.ts
),

-- starts less ends so far, by ranks: a running sum costs ten times as much
ranked AS (
    SELECT
        ts,
        node,
        dev,
        step,
        ROW_NUMBER() OVER (PARTITION BY node, dev ORDER BY ts NULLS LAST, step NULLS LAST) AS place,
        ROW_NUMBER() OVER (PARTITION BY node, dev, step ORDER BY ts NULLS LAST) AS of_step
    FROM step
),

lasting AS (
    SELECT
        ts,
        LEAD(ts) OVER (PARTITION BY node, dev ORDER BY place NULLS LAST) - ts AS dur,
        node,
        dev,
        (2 * of_step - place) * step AS queue_depth
    FROM ranked
)

SELECT ts, dur, node, dev, queue_depth, CASE WHEN queue_depth > 0 THEN dur ELSE 0 END AS busy_ns
FROM lasting
WHERE dur > 0

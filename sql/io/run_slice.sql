-- What was done over the run, cut into slices of equal time: one row a slice, call and file.
-- A call counts in the slice it began in. Unlike throughput's time buckets, slices begin with the run and end with
-- it, so that those of two runs lie on each other whatever their length. Waiting calls are in it, without a file.
--
-- @param time_slices BIGINT 1024: slices the run is cut into
-- @requires bare_op, sync_op, trail_span
-- @order slice, call, file
-- @dimension slice, call, kind, node, file
-- @measure n = sum(n); bytes = sum(bytes); errors = sum(errors); time_ns = sum(time_ns)
-- @column slice BIGINT: number of the slice, from 0
-- @column call VARCHAR: name of the call
-- @column kind VARCHAR: read, write, flush, meta or map; wait for calls that wait for something else
-- @column node VARCHAR: machine
-- @column file BIGINT: file; null unknown and for waiting calls
-- @column n BIGINT ops: operations
-- @column bytes BIGINT bytes: bytes they moved
-- @column errors BIGINT ops: operations that failed
-- @column time_ns BIGINT ns: time in those that returned
SELECT
    slice,
    call,
    kind,
    node,
    file,
    COUNT(*) AS n,
    CAST(SUM(moved) AS BIGINT) AS bytes,
    COUNT(*) FILTER (WHERE errno <> 0) AS errors,
    CAST(COALESCE(SUM(dur), 0) AS BIGINT) AS time_ns
FROM (
    SELECT
        o.call,
        o.kind,
        o.node,
        o.file,
        o.moved,
        o.errno,
        o.dur,
        CAST(
            LEAST(
                FLOOR(CAST(o.ts - s.start_ts AS DOUBLE) * p.time_slices / GREATEST(s.end_ts - s.start_ts, 1)),
                p.time_slices - 1
            ) AS BIGINT
        ) AS slice
    FROM (
        SELECT call, kind, node, file, moved, errno, ts, dur FROM bare_op
        UNION ALL
        SELECT call, 'wait', node, NULL, 0, errno, ts, dur FROM sync_op
    ) AS o
    CROSS JOIN trail_span AS s
    CROSS JOIN params AS p
) AS placed
GROUP BY slice, call, kind, node, file

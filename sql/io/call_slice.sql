-- Latency of each call in slices of equal numbers of its calls: one row a call and slice, in order of time.
-- The time of a thread between two calls, whatever it did then, is in it as if it were a call, '(between calls)'.
-- What `iotrail diff` compares: the i-th slices of two runs of one program did the same work, so that their
-- difference is noise or change, and how it varies over slices says how much noise. Calls that never returned
-- aren't in it. A call has at most `slices` slices and at least the root of an eighth of its calls in each, a power of
-- two if `slices` is one, so that slices of trails with different n can be merged.
--
-- A slice's calls are parted into the slowest `tail_share` and the rest: means and tails differ in their noise
-- by orders of magnitude. The border is one in the histogram of 32 buckets an octave; a bucket that lies on it
-- is divided in proportion. Slices of fewer calls than a tail needs have none.
--
-- @materialize
-- @param slices BIGINT 128: most slices a call's calls are cut into
-- @param tail_share DOUBLE 0.05 share: of a slice's calls, the slowest, that are its tail
-- @requires file_op, sync_op, call
-- @order call, slice
-- @dimension call, kind
-- @measure n = sum(n); body_ns = sum(body_ns); tail_ns = sum(tail_ns)
-- @column call VARCHAR: name of the call; '(between calls)' between two calls of a thread
-- @column kind VARCHAR: read, write, flush, meta, map; wait for calls that wait for something else; between
-- @column slice BIGINT: number of the slice, from 0
-- @column slices BIGINT: how many the call has
-- @column n BIGINT ops: calls in it
-- @column body_ns DOUBLE ns: time in all but its slowest
-- @column tail_ns DOUBLE ns: time in its slowest; 0 if it has too few calls for a tail
-- @column start_ts BIGINT ns: start of the first call
WITH called AS (
    SELECT call, thread, ts, dur FROM file_op WHERE dur IS NOT NULL
    UNION ALL
    SELECT call, thread, ts, dur FROM sync_op WHERE dur IS NOT NULL
),

returned AS (
    SELECT call, ts, dur FROM called
    UNION ALL
    SELECT '(between calls)', last_ts, ts - last_ts
    FROM (SELECT ts, lag(ts + dur) OVER (PARTITION BY thread ORDER BY ts NULLS LAST) AS last_ts FROM called) AS gap
    -- a call inside another (a barrier of MPI that reads a socket) begins before that ends
    WHERE ts > last_ts
),

counted AS (
    SELECT
        r.call,
        CASE WHEN r.call = '(between calls)' THEN 'between' ELSE COALESCE(c.kind, 'meta') END AS kind,
        r.n,
        -- the largest power of two whose square is at most 8n
        CAST(LEAST(POWER(2, FLOOR(LOG2(8 * r.n) / 2)), POWER(2, FLOOR(LOG2(r.n))), (SELECT slices FROM params)) AS BIGINT) AS slices
    FROM (SELECT call, COUNT(*) AS n FROM returned GROUP BY call) AS r
    LEFT JOIN call AS c ON c.call = r.call
),

numbered AS (
    SELECT call, ts, dur, ROW_NUMBER() OVER (PARTITION BY call ORDER BY ts NULLS LAST) - 1 AS number
    FROM returned
),

sliced AS (
    SELECT
        n.call,
        c.kind,
        c.slices,
        -- the number of the slice: floor(number * slices / n) without rounding
        CAST((n.number * c.slices - (n.number * c.slices) % c.n) / c.n AS BIGINT) AS slice,
        FLOOR(LOG2(GREATEST(n.dur, 1)) * 32) AS bucket,
        n.ts,
        n.dur
    FROM numbered AS n
    INNER JOIN counted AS c ON c.call = n.call
),

histogram AS (
    SELECT
        call,
        kind,
        slices,
        slice,
        bucket,
        COUNT(*) AS n,
        SUM(dur) AS time_ns,
        MIN(ts) AS start_ts
    FROM sliced
    GROUP BY call, kind, slices, slice, bucket
),

placed AS (
    SELECT
        *,
        SUM(n) OVER w - n AS faster,
        SUM(n) OVER (PARTITION BY call, slice) AS of_slice
    FROM histogram
    WINDOW w AS (PARTITION BY call, slice ORDER BY bucket NULLS LAST)
),

parted AS (
    SELECT
        p.*,
        -- calls of this bucket that belong to the body
        CASE
            WHEN p.of_slice * q.tail_share < 1 THEN p.n
            ELSE GREATEST(0, LEAST(p.n, p.of_slice * (1 - q.tail_share) - p.faster))
        END AS body
    FROM placed AS p
    CROSS JOIN params AS q
)

SELECT
    call,
    kind,
    slice,
    slices,
    CAST(SUM(n) AS BIGINT) AS n,
    CAST(SUM(time_ns * (body / n)) AS DOUBLE) AS body_ns,
    CAST(SUM(time_ns * (1 - body / n)) AS DOUBLE) AS tail_ns,
    MIN(start_ts) AS start_ts
FROM parted
GROUP BY call, kind, slice, slices

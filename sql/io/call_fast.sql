-- The fastest tenth of each call: how long it takes when nothing is in its way, one row a call.
-- Means and medians of a call that waits for a disk vary several-fold from run to run with what else the disk does;
-- its fastest calls by a few per cent, so that a delay added to each call shows in them first.
-- The border is one in the histogram of 32 buckets an octave; a bucket that lies on it is divided in proportion.
--
-- @param fast_share DOUBLE 0.1 share: of a call's calls, the fastest, that are averaged
-- @requires latency
-- @order call
-- @column call VARCHAR: name of the call
-- @column kind VARCHAR: read, write, flush, meta or map
-- @column n BIGINT ops: calls that returned, all of them
-- @column fast_n DOUBLE ops: calls in the fastest tenth: n * fast_share, at least 1
-- @column fast_ns DOUBLE ns: mean time of those
WITH histogram AS (
    SELECT call, MAX(kind) AS kind, latency, SUM(n) AS n, SUM(time_ns) AS time_ns
    FROM latency
    GROUP BY call, latency
),

placed AS (
    SELECT
        *,
        SUM(n) OVER (PARTITION BY call ORDER BY latency NULLS LAST
                     ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) - n AS faster,
        SUM(n) OVER (PARTITION BY call) AS of_call
    FROM histogram
),

parted AS (
    SELECT
        p.*,
        GREATEST(p.of_call * q.fast_share, 1) AS wanted,
        GREATEST(0, LEAST(p.n, GREATEST(p.of_call * q.fast_share, 1) - p.faster)) AS fast
    FROM placed AS p
    CROSS JOIN params AS q
)

SELECT
    call,
    MAX(kind) AS kind,
    CAST(MAX(of_call) AS BIGINT) AS n,
    CAST(MAX(wanted) AS DOUBLE) AS fast_n,
    CAST(SUM(time_ns * (fast / n)) AS DOUBLE) / CAST(MAX(wanted) AS DOUBLE) AS fast_ns
FROM parted
GROUP BY call

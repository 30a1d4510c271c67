-- The time buckets of the trail, one row each, those in which nothing happened included.
-- Every module over time uses them.
--
-- @materialize
-- @param every_ns BIGINT 0 ns: width of a time bucket; 0 takes the smallest of 1, 2, 5, 10 … ns that
--     cuts the trail into at most 200. At most 1,000,000 buckets: a narrower width is widened tenfold until it fits
-- @requires number, trail_span
-- @column ts BIGINT ns: start of the bucket, a multiple of every_ns
-- @column every_ns BIGINT ns: width
WITH span AS (
    SELECT start_ts, end_ts, end_ts - start_ts AS dur, (SELECT every_ns FROM params) AS asked
    FROM trail_span
    WHERE start_ts IS NOT NULL
),

-- what each candidate width is, so that the smallest that fits can be taken
width AS (
    SELECT MIN(w) AS every_ns
    FROM (
        SELECT
            CASE WHEN s.asked > 0 THEN s.asked ELSE m.m END
            * CAST(POWER(10, e.i) AS BIGINT) AS w,
            s.dur,
            CASE WHEN s.asked > 0 THEN 1000000 ELSE 200 END AS most
        FROM span AS s
        CROSS JOIN (VALUES (1), (2), (5)) AS m (m)
        CROSS JOIN (
            VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9), (10), (11), (12), (13), (14), (15), (16)
        ) AS e (i)
        -- up to 5e16 ns (19 months a bucket); a width that was asked for grows at most 1e6 times
        WHERE e.i <= CASE WHEN s.asked > 0 THEN 6 ELSE 16 END
    ) AS candidate
    -- divided, because w * most can overflow for a width that was asked for
    WHERE dur / (most - 1) < w
)

SELECT s.start_ts - s.start_ts % w.every_ns + i.i * w.every_ns AS ts, w.every_ns
FROM span AS s
CROSS JOIN width AS w
-- divided, for of the last of `number` the product can overflow
INNER JOIN number AS i ON i.i <= (s.end_ts - s.end_ts % w.every_ns - (s.start_ts - s.start_ts % w.every_ns)) / w.every_ns

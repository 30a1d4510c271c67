-- Times between arrivals as a log-linear histogram, one row a point of the system and bucket.
-- Histograms merge by adding n.
--
-- @requires interarrival
-- @order level, node, place, gap_ns
-- @dimension level, node, place, gap_ns
-- @measure n = sum(n); time_ns = sum(time_ns); max_ns = max(max_ns)
-- @column level VARCHAR: request, message or disk
-- @column node VARCHAR: machine
-- @column place VARCHAR: component, sender or disk
-- @column gap_ns BIGINT ns: smallest time of the bucket; the next bucket begins at most 1/32 above
-- @column n BIGINT ops: times between arrivals in the bucket
-- @column time_ns BIGINT ns: those together
-- @column max_ns BIGINT ns: the longest of them
WITH placed AS (
    SELECT
        level,
        node,
        place,
        gap_ns,
        -- log2 may round up just below a power of two: >> tells
        CAST(FLOOR(LOG2(GREATEST(gap_ns, 1))) AS INTEGER)
        - CASE WHEN GREATEST(gap_ns, 1) >> CAST(FLOOR(LOG2(GREATEST(gap_ns, 1))) AS INTEGER) = 0 THEN 1 ELSE 0 END
            AS octave
    FROM interarrival
    WHERE gap_ns IS NOT NULL
)

SELECT
    level,
    node,
    place,
    -- the bucket's lower bound (crates/format/src/hist.rs): the 5 bits below the highest one stay
    CASE WHEN gap_ns < 64 THEN gap_ns ELSE gap_ns - gap_ns % CAST(POWER(2, octave - 5) AS BIGINT) END AS gap_ns,
    COUNT(*) AS n,
    CAST(SUM(gap_ns) AS BIGINT) AS time_ns,
    MAX(gap_ns) AS max_ns
FROM placed
GROUP BY
    level,
    node,
    place,
    CASE WHEN gap_ns < 64 THEN gap_ns ELSE gap_ns - gap_ns % CAST(POWER(2, octave - 5) AS BIGINT) END

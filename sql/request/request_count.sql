-- How many requests arrived, one row a request, or one for many that were pruned: how long they took.
-- In a sample a request's row counts all that it stands for.
--
-- @requires request, request_rollup
-- @order ts
-- @dimension node, client, component, op, status
-- @measure n = sum(n); unfinished = sum(unfinished); time_ns = sum(time_ns); length = sum(length)
-- @column ts BIGINT ns: arrival, on the clock of its node; of what was pruned the start of the stretch it was in
-- @column node VARCHAR: machine it arrived at
-- @column client VARCHAR: user on whose behalf; null none
-- @column component VARCHAR: part of the system it arrived at
-- @column op VARCHAR: what was asked for
-- @column status BIGINT: 0 success, else an error number; null unfinished
-- @column n BIGINT ops: requests
-- @column unfinished BIGINT ops: those without a reply
-- @column time_ns BIGINT ns: time until the replies
-- @column length BIGINT bytes: bytes they were about
-- @column least BIGINT ns: smallest time of the histogram's bucket in which they all are; null without a reply
-- @column crumb BIGINT: its breadcrumb; null many that were pruned
WITH placed AS (
    SELECT
        *,
        -- log2 may round up just below a power of two: >> tells
        CAST(FLOOR(LOG2(GREATEST(dur, 1))) AS INTEGER)
        - CASE WHEN GREATEST(dur, 1) >> CAST(FLOOR(LOG2(GREATEST(dur, 1))) AS INTEGER) = 0 THEN 1 ELSE 0 END
            AS octave
    FROM request
)

SELECT
    ts,
    node,
    client,
    component,
    op,
    status,
    weight AS n,
    CASE WHEN dur IS NULL THEN weight ELSE 0 END AS unfinished,
    COALESCE(dur, 0) * weight AS time_ns,
    COALESCE(length, 0) * weight AS length,
    -- the bucket's lower bound (crates/format/src/hist.rs): the 5 bits below the highest one stay
    CASE WHEN dur < 64 THEN GREATEST(dur, 0) ELSE dur - dur % CAST(POWER(2, octave - 5) AS BIGINT) END AS least,
    crumb
FROM placed
UNION ALL
SELECT ts, node, client, component, op, status, n, CASE WHEN least IS NULL THEN n ELSE 0 END, time_ns, length, least, NULL
FROM request_rollup
WHERE n > 0

-- From where to where in a breadcrumb's points others wait for it: one row a breadcrumb with points.
--
-- @materialize
-- @requires point
-- @order node, crumb
-- @dimension node, crumb
-- @measure n = count(*)
-- @column node VARCHAR: machine
-- @column crumb BIGINT: breadcrumb
-- @column first_ts BIGINT ns: its first point
-- @column first_kind BIGINT: what that was, see point_kind
-- @column reply_seq BIGINT: its reply, or else the end of what it did; null if that is missing
-- @column reply_ts BIGINT ns: when that was
-- @column reply_kind BIGINT: what that was
-- @column call_seq BIGINT: its call of another component; null none
-- @column call_ts BIGINT ns: when that was
-- @column call_kind BIGINT: what that was
-- @column return_seq BIGINT: the return of that call; null none, or it is missing
-- @column return_ts BIGINT ns: when that was
-- @column return_kind BIGINT: what that was
WITH numbered AS (
    SELECT
        node,
        crumb,
        ts,
        role,
        -- one number to aggregate, as rows of points are many: below 2^23 kinds and 2^40 points of a breadcrumb
        seq * 8388608 + point_kind AS point
    FROM point
),

placed AS (
    SELECT
        node,
        crumb,
        MIN(ts) AS first_ts,
        MIN(point) AS first,
        MAX(CASE role WHEN 'arrival' THEN 3 WHEN 'begin' THEN 2 WHEN 'call' THEN 1 END) AS what,
        MIN(CASE WHEN role = 'reply' THEN point END) AS served,
        MIN(CASE WHEN role = 'reply' THEN ts END) AS served_ts,
        MAX(CASE WHEN role = 'end' THEN point END) AS done,
        MAX(CASE WHEN role = 'end' THEN ts END) AS done_ts,
        MIN(CASE WHEN role = 'call' THEN point END) AS called,
        MIN(CASE WHEN role = 'call' THEN ts END) AS call_ts,
        MIN(CASE WHEN role = 'return' THEN point END) AS returned,
        MIN(CASE WHEN role = 'return' THEN ts END) AS return_ts,
        MAX(point) AS last,
        MAX(ts) AS last_ts
    FROM numbered
    GROUP BY node, crumb
),

replied AS (
    SELECT
        *,
        CASE what WHEN 3 THEN served WHEN 2 THEN done WHEN 1 THEN returned ELSE last END AS reply,
        CASE what WHEN 3 THEN served_ts WHEN 2 THEN done_ts WHEN 1 THEN return_ts ELSE last_ts END AS reply_ts
    FROM placed
)

SELECT
    node,
    crumb,
    first_ts,
    first % 8388608 AS first_kind,
    reply >> 23 AS reply_seq,
    reply_ts,
    reply % 8388608 AS reply_kind,
    called >> 23 AS call_seq,
    call_ts,
    called % 8388608 AS call_kind,
    returned >> 23 AS return_seq,
    return_ts,
    returned % 8388608 AS return_kind
FROM replied

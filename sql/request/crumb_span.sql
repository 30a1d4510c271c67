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
WITH placed AS (
    SELECT
        node,
        crumb,
        MIN(ts) AS first_ts,
        MIN_BY(point_kind, seq) AS first_kind,
        COUNT(*) FILTER (WHERE role = 'arrival') AS arrivals,
        COUNT(*) FILTER (WHERE role = 'begin') AS begins,
        COUNT(*) FILTER (WHERE role = 'call') AS calls,
        MIN(seq) FILTER (WHERE role = 'reply') AS served_seq,
        MIN(ts) FILTER (WHERE role = 'reply') AS served_ts,
        MIN_BY(point_kind, seq) FILTER (WHERE role = 'reply') AS served_kind,
        MAX(seq) FILTER (WHERE role = 'end') AS done_seq,
        MAX(ts) FILTER (WHERE role = 'end') AS done_ts,
        MAX_BY(point_kind, seq) FILTER (WHERE role = 'end') AS done_kind,
        MIN(seq) FILTER (WHERE role = 'call') AS call_seq,
        MIN(ts) FILTER (WHERE role = 'call') AS call_ts,
        MIN_BY(point_kind, seq) FILTER (WHERE role = 'call') AS call_kind,
        MIN(seq) FILTER (WHERE role = 'return') AS return_seq,
        MIN(ts) FILTER (WHERE role = 'return') AS return_ts,
        MIN_BY(point_kind, seq) FILTER (WHERE role = 'return') AS return_kind,
        MAX(seq) AS last_seq,
        MAX(ts) AS last_ts,
        MAX_BY(point_kind, seq) AS last_kind
    FROM point
    GROUP BY node, crumb
)

SELECT
    node,
    crumb,
    first_ts,
    first_kind,
    CASE WHEN arrivals > 0 THEN served_seq WHEN begins > 0 THEN done_seq WHEN calls > 0 THEN return_seq ELSE last_seq END
    AS reply_seq,
    CASE WHEN arrivals > 0 THEN served_ts WHEN begins > 0 THEN done_ts WHEN calls > 0 THEN return_ts ELSE last_ts END
    AS reply_ts,
    CASE WHEN arrivals > 0 THEN served_kind WHEN begins > 0 THEN done_kind WHEN calls > 0 THEN return_kind ELSE last_kind END
    AS reply_kind,
    call_seq,
    call_ts,
    call_kind,
    return_seq,
    return_ts,
    return_kind
FROM placed

-- What a cluster consisted of: one row a member and change of it, which held until the next one.
--
-- @requires member
-- @order member, ts
-- @dimension member, role, node, host, rack, state
-- @measure n = count(*)
-- @column ts BIGINT ns: when it was seen
-- @column until_ts BIGINT ns: when the next change of the member was seen; null it is the newest
-- @column member VARCHAR: its name
-- @column role VARCHAR: part it plays
-- @column node VARCHAR: machine, or that which saw it
-- @column place VARCHAR: where it stands, from the outside in, separated by /; null unknown
-- @column host VARCHAR: last part of that; the node where the place is unknown
-- @column rack VARCHAR: the part before, in which the host stands; null unknown
-- @column state VARCHAR: up, standby, down, failed or left
-- @column detail VARCHAR: a sentence for people; null none
SELECT
    ts,
    LEAD(ts) OVER (PARTITION BY member ORDER BY ts NULLS LAST, state NULLS LAST) AS until_ts,
    member,
    role,
    node,
    place,
    COALESCE(NULLIF(regexp_replace(place, '^.*/', ''), ''), node) AS host,
    CASE
        WHEN place LIKE '%/%' THEN regexp_replace(regexp_replace(place, '/[^/]*$', ''), '^.*/', '')
    END AS rack,
    state,
    detail
FROM member

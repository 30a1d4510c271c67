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
-- @column host VARCHAR: last part of that, of a machine itself; the node where the place is unknown
-- @column rack VARCHAR: what the host stands in; null unknown
-- @column state VARCHAR: up, standby, down, failed or left
-- @column detail VARCHAR: a sentence for people; null none
WITH placed AS (
    SELECT
        *,
        -- of a machine the place may end with its own name or before it
        CASE
            WHEN role = 'host' AND place IS NULL THEN member
            WHEN role = 'host' AND place <> member AND place NOT LIKE concat('%/', member) THEN concat(place, '/', member)
            ELSE place
        END AS full_place
    FROM member
)

SELECT
    ts,
    LEAD(ts) OVER (PARTITION BY member ORDER BY ts NULLS LAST, state NULLS LAST) AS until_ts,
    member,
    role,
    node,
    place,
    COALESCE(NULLIF(regexp_replace(full_place, '^.*/', ''), ''), node) AS host,
    CASE
        WHEN full_place LIKE '%/%' THEN regexp_replace(regexp_replace(full_place, '/[^/]*$', ''), '^.*/', '')
    END AS rack,
    state,
    detail
FROM placed

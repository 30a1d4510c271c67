-- Requests: what arrived with a breadcrumb that works for no other one.
-- The record is the crumb's serving (kind server), or where it has none its own work (internal), or else its
-- calls (client). A crumb that served twice is two rows. Where a sample was collected, a request stands for as many
-- as its weight says; what was collected for the paths of others (weight 0) is no request.
--
-- @requires service_op, stitch
-- @order ts
-- @dimension node, client, component, op, status
-- @measure n = sum(weight); dur = sum(dur * weight); length = sum(length * weight)
-- @column ts BIGINT ns: arrival
-- @column dur BIGINT ns: time until the reply; null if there was none
-- @column node VARCHAR: machine it arrived at
-- @column crumb BIGINT: its breadcrumb
-- @column client VARCHAR: user on whose behalf; null none
-- @column component VARCHAR: part of the system it arrived at
-- @column op VARCHAR: what was asked for
-- @column status BIGINT: 0 success, else an error number; null unfinished
-- @column length BIGINT bytes: bytes it is about; null none
-- @column n BIGINT: rows its crumb has here: more than one where a crumb was used again
-- @column weight BIGINT ops: requests it stands for: more than 1 in a sample
WITH root AS (
    SELECT
        s.*,
        CASE s.kind WHEN 'server' THEN 0 WHEN 'internal' THEN 1 ELSE 2 END AS place
    FROM service_op AS s
    ANTI JOIN stitch AS t ON t.node = s.node AND t.crumb = s.crumb AND t.parent_crumb <> 0
    WHERE s.crumb <> 0 AND s.kind <> 'event' AND COALESCE(s.weight, 1) > 0
),

first_kind AS (
    SELECT node, crumb, place, COUNT(*) AS n
    FROM root
    GROUP BY node, crumb, place
)

SELECT
    r.ts,
    r.dur,
    r.node,
    r.crumb,
    r.client,
    r.component,
    r.op,
    r.status,
    r.length,
    f.n,
    COALESCE(r.weight, 1) AS weight
FROM root AS r
INNER JOIN first_kind AS f ON f.node = r.node AND f.crumb = r.crumb AND f.place = r.place
ANTI JOIN first_kind AS b ON b.node = r.node AND b.crumb = r.crumb AND b.place < r.place

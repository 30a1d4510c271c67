-- What bytes of which files requests were for, one row a request: the pattern of a client's accesses.
-- What an operation does is taken from its name: it reads, writes or appends, commits or syncs. Stardust (SIGMETRICS
-- 2006), figure 11.
--
-- @requires service_op, request
-- @order ts
-- @dimension client, component, op, kind, file
-- @measure n = count(*); length = sum(length); mean_length = CAST(sum(length) AS DOUBLE) / NULLIF(count(*), 0);
--     sequential = count(*) FILTER (WHERE gap_bytes = 0)
-- @column ts BIGINT ns: arrival, on the clock of its node
-- @column node VARCHAR: machine it arrived at
-- @column crumb BIGINT: its breadcrumb
-- @column client VARCHAR: user on whose behalf; null none
-- @column component VARCHAR: part of the system it arrived at
-- @column op VARCHAR: what was asked for
-- @column kind VARCHAR: read, write, or sync: what was written before is to be durable
-- @column file BIGINT: file
-- @column pos BIGINT bytes: where; null a sync
-- @column length BIGINT bytes: how much; null a sync
-- @column gap_bytes BIGINT bytes: from the end of the client's access of the file before it to here: 0 sequential,
--     negative backwards; null the first, and a sync
WITH named AS (
    SELECT
        s.*,
        CASE
            WHEN LOWER(s.op) LIKE '%read%' THEN 'read'
            WHEN LOWER(s.op) LIKE '%write%' OR LOWER(s.op) LIKE '%append%' THEN 'write'
            WHEN LOWER(s.op) LIKE '%sync%' OR LOWER(s.op) LIKE '%commit%' THEN 'sync'
        END AS access
    FROM service_op AS s
    SEMI JOIN request AS r
        ON r.node = s.node AND r.crumb = s.crumb AND r.ts = s.ts AND r.component = s.component AND r.op = s.op
    WHERE s.file IS NOT NULL
),

chosen AS (
    SELECT
        ts,
        node,
        crumb,
        client,
        component,
        op,
        access AS kind,
        file,
        CASE WHEN access <> 'sync' THEN pos END AS pos,
        CASE WHEN access <> 'sync' THEN length END AS length
    FROM named
    WHERE access = 'sync' OR (access IS NOT NULL AND pos IS NOT NULL AND length > 0)
)

SELECT
    ts,
    node,
    crumb,
    client,
    component,
    op,
    kind,
    file,
    pos,
    length,
    CASE
        WHEN kind <> 'sync'
            THEN pos - LAG(pos + length) OVER (
                PARTITION BY client, file, kind = 'sync' ORDER BY ts NULLS LAST, crumb NULLS LAST
            )
    END AS gap_bytes
FROM chosen

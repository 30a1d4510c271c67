-- What would be left of each client's requests if it had a cache of its own, which holds all it touched: one row a
-- client. Reads of pages that it read or wrote before are not sent; writes are, once for each run of neighbouring pages
-- that got dirty within write_back_ns and until the client syncs the file, in pieces of 1 MiB at most. It reads nothing
-- ahead, so that reads are no fewer than that. What others write to the same files it would have to be told: `shared`.
--
-- @param page_bytes BIGINT 4096 bytes: size of a page of a client's cache
-- @param write_back_ns BIGINT 5000000000 ns: a client's cache writes back what is dirty for so long
-- @requires request_access, number
-- @order reads + writes DESC
-- @dimension client
-- @measure reads = sum(reads); writes = sum(writes); bytes = sum(bytes); sent_reads = sum(sent_reads);
--     sent_writes = sum(sent_writes); small = sum(small); sequential = sum(sequential); shared = sum(shared)
-- @column client VARCHAR: user on whose behalf; null none
-- @column reads BIGINT ops: requests that read
-- @column writes BIGINT ops: requests that write
-- @column bytes BIGINT bytes: bytes of both
-- @column small BIGINT ops: of both, those shorter than a page
-- @column sequential BIGINT ops: of both, those that begin where the client's access of the file before them ended
-- @column shared BIGINT ops: of both, those to files that other clients write, or that it writes and others use
-- @column sent_reads BIGINT ops: reads that such a cache would send
-- @column sent_writes BIGINT ops: writes that such a cache would send
WITH width AS (
    SELECT page_bytes, write_back_ns
    FROM params
),

-- syncs of the file before an access, by ranks
counted AS (
    SELECT
        *,
        ROW_NUMBER() OVER (PARTITION BY client, file ORDER BY ts NULLS LAST, crumb NULLS LAST)
        - ROW_NUMBER() OVER (PARTITION BY client, file, kind = 'sync' ORDER BY ts NULLS LAST, crumb NULLS LAST)
            AS syncs
    FROM request_access
),

access AS (
    SELECT
        a.client,
        a.syncs,
        a.file,
        a.kind,
        a.ts,
        a.pos,
        a.length,
        a.gap_bytes,
        ROW_NUMBER() OVER (ORDER BY a.ts NULLS LAST, a.node NULLS LAST, a.crumb NULLS LAST) AS place,
        CAST((a.pos - a.pos % w.page_bytes) / w.page_bytes AS BIGINT) AS first_page,
        CAST((a.pos + a.length - 1 - (a.pos + a.length - 1) % w.page_bytes) / w.page_bytes AS BIGINT) AS last_page,
        CAST((a.ts - a.ts % w.write_back_ns) / w.write_back_ns AS BIGINT) AS period,
        CASE WHEN a.length < w.page_bytes THEN 1 ELSE 0 END AS small
    FROM counted AS a
    CROSS JOIN width AS w
    WHERE a.kind <> 'sync'
),

further AS (
    SELECT i
    FROM number
    WHERE i >= 1 AND i <= (SELECT MAX(last_page - first_page) FROM access)
),

page AS (
    SELECT client, file, kind, place, period, syncs, first_page AS page
    FROM access
    UNION ALL
    SELECT a.client, a.file, a.kind, a.place, a.period, a.syncs, a.first_page + n.i
    FROM access AS a
    INNER JOIN further AS n ON n.i <= a.last_page - a.first_page
    WHERE a.last_page > a.first_page
),

-- the first access of a page decides whether a read of it is sent
touched AS (
    SELECT client, MIN_BY(kind, place) AS kind, MIN(place) AS place
    FROM page
    GROUP BY client, file, page
),

sent_read AS (
    SELECT client, COUNT(DISTINCT place) AS n
    FROM touched
    WHERE kind = 'read'
    GROUP BY client
),

dirty AS (
    SELECT DISTINCT client, file, period, syncs, page
    FROM page
    WHERE kind = 'write'
),

-- a run begins where the page before isn't dirty, and each 1 MiB
sent_write AS (
    SELECT client, COUNT(*) AS n
    FROM (
        SELECT
            client,
            page,
            page - LAG(page) OVER (PARTITION BY client, file, period, syncs ORDER BY page NULLS LAST) AS step
        FROM dirty
    ) AS stepped
    CROSS JOIN width AS w
    WHERE step IS NULL OR step > 1 OR page * w.page_bytes % 1048576 = 0
    GROUP BY client
),

used AS (
    SELECT file, COUNT(DISTINCT COALESCE(client, '')) AS clients, MAX(CASE WHEN kind = 'write' THEN 1 ELSE 0 END) AS written
    FROM access
    GROUP BY file
),

total AS (
    SELECT
        a.client,
        COUNT(*) FILTER (WHERE a.kind = 'read') AS reads,
        COUNT(*) FILTER (WHERE a.kind = 'write') AS writes,
        CAST(SUM(a.length) AS BIGINT) AS bytes,
        CAST(SUM(a.small) AS BIGINT) AS small,
        COUNT(*) FILTER (WHERE a.gap_bytes = 0) AS sequential,
        COUNT(*) FILTER (WHERE u.clients > 1 AND u.written = 1) AS shared
    FROM access AS a
    INNER JOIN used AS u ON u.file = a.file
    GROUP BY a.client
)

SELECT
    t.client,
    t.reads,
    t.writes,
    t.bytes,
    t.small,
    t.sequential,
    t.shared,
    COALESCE(r.n, 0) AS sent_reads,
    COALESCE(w.n, 0) AS sent_writes
FROM total AS t
LEFT JOIN sent_read AS r ON COALESCE(r.client, '') = COALESCE(t.client, '')
LEFT JOIN sent_write AS w ON COALESCE(w.client, '') = COALESCE(t.client, '')

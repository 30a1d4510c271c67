-- The different blocks of devices that are used, over time: one row a time bucket, device, kind and time bucket of the use before.
-- A block of page_bytes counts once in each time bucket in which a request reads or writes any of its bytes, with the last time
-- bucket in which it was used before. What is used within a span from A to B is thus the sum of the rows with ts in the
-- span and before_ts null or before A; what is used up to B, the sum of those with before_ts null and ts before B.
--
-- Kind read counts blocks that are read, and looks at reads alone; write likewise; all both. Blocks only read in a span are
-- all - write, only written all - read, both read and written read + write - all.
--
-- Where requests touch more than about 4 million blocks, one block of a prime number is followed instead of all, and counts for as
-- many (spatial sampling: Waldspurger et al., "Efficient MRC Construction with SHARDS", USENIX FAST 2015): `followed` says so.
--
-- @materialize
-- @param page_bytes BIGINT 4096 bytes: page of the cache
-- @requires block_request, block_device, number, time_bucket
-- @order device, kind, ts, before_ts
-- @dimension node, dev, kind
-- @measure bytes = sum(bytes)
-- @column ts BIGINT ns: start of the time bucket
-- @column before_ts BIGINT ns: start of the last time bucket before in which the same block was used by this kind; null none
-- @column device BIGINT: number of the device
-- @column node VARCHAR: machine
-- @column dev VARCHAR: device
-- @column kind VARCHAR: all, read or write
-- @column bytes BIGINT bytes: blocks times their size
-- @column followed BIGINT: one block of so many was followed; 1 all: the bytes are exact
WITH every AS (
    SELECT MIN(m.m) AS m
    FROM (
        SELECT SUM(1e0 * (d.bytes_read + d.bytes_written) / p.page_bytes + d.reads + d.writes) AS pages
        FROM block_device AS d
        CROSS JOIN params AS p
    ) AS n
    CROSS JOIN (
        VALUES (1), (3), (7), (17), (37), (79), (163), (331), (673), (1361), (2729), (5471), (10949), (21911), (87719),
        (350899), (1403641)
    ) AS m (m)
    WHERE n.pages / m.m <= 4000000 OR m.m = 1403641
),

-- blocks of each request; the same ones of a time bucket once
span AS (
    SELECT
        r.device,
        r.ts - r.ts % b.every_ns AS ts,
        CAST((r.pos - r.pos % p.page_bytes) / p.page_bytes AS BIGINT) AS first_page,
        CAST((r.pos + r.length - 1 - (r.pos + r.length - 1) % p.page_bytes) / p.page_bytes AS BIGINT) AS last_page,
        MAX(CASE WHEN r.is_write THEN 0 ELSE 1 END) AS is_read,
        MAX(CASE WHEN r.is_write THEN 1 ELSE 0 END) AS is_write
    FROM block_request AS r
    CROSS JOIN params AS p
    CROSS JOIN (SELECT MAX(every_ns) AS every_ns FROM time_bucket) AS b
    WHERE r.pos IS NOT NULL
    GROUP BY 1, 2, 3, 4
),

-- the first of them that is followed, and how many are
followed AS (
    SELECT
        device,
        ts,
        page,
        CAST((last_page - page - (last_page - page) % m) / m AS BIGINT) + 1 AS pages,
        is_read,
        is_write,
        m
    FROM (
        SELECT
            s.device,
            s.ts,
            s.first_page + (e.m - (s.first_page + s.device * 7919) % e.m) % e.m AS page,
            s.last_page,
            s.is_read,
            s.is_write,
            e.m
        FROM span AS s
        CROSS JOIN every AS e
    ) AS f
    WHERE page <= last_page
),

-- the numbers below each number of blocks, of which there are few: joined by equality, which DuckDB does a hundred times as fast
-- as by inequality
counting AS (
    SELECT n.pages, i.i
    FROM (SELECT DISTINCT pages FROM followed) AS n
    INNER JOIN (SELECT i FROM number WHERE i < (SELECT MAX(pages) FROM followed)) AS i ON i.i < n.pages
),

touch AS (
    SELECT f.device, f.ts, f.page + i.i * f.m AS page, f.is_read, f.is_write
    FROM followed AS f
    INNER JOIN counting AS i ON i.pages = f.pages
),

used AS (
    SELECT device, page, ts, MAX(is_read) AS is_read, MAX(is_write) AS is_write
    FROM touch
    GROUP BY device, page, ts
),

seen AS (
    SELECT
        device,
        ts,
        is_read,
        is_write,
        LAG(ts) OVER w AS before_ts,
        MAX(CASE WHEN is_read = 1 THEN ts END) OVER earlier AS before_read,
        MAX(CASE WHEN is_write = 1 THEN ts END) OVER earlier AS before_write
    FROM used
    WINDOW
        w AS (PARTITION BY device, page ORDER BY ts NULLS LAST),
        earlier AS (
            PARTITION BY device, page ORDER BY ts NULLS LAST ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        )
),

counted AS (
    SELECT device, 'all' AS kind, ts, before_ts, COUNT(*) AS pages
    FROM seen
    GROUP BY device, ts, before_ts
    UNION ALL
    SELECT device, 'read', ts, before_read, COUNT(*)
    FROM seen
    WHERE is_read = 1
    GROUP BY device, ts, before_read
    UNION ALL
    SELECT device, 'write', ts, before_write, COUNT(*)
    FROM seen
    WHERE is_write = 1
    GROUP BY device, ts, before_write
)

SELECT
    c.ts,
    c.before_ts,
    c.device,
    d.node,
    d.dev,
    c.kind,
    CAST(c.pages * e.m * p.page_bytes AS BIGINT) AS bytes,
    CAST(e.m AS BIGINT) AS followed
FROM counted AS c
INNER JOIN block_device AS d ON d.device = c.device
CROSS JOIN every AS e
CROSS JOIN params AS p

-- What a cache would have served, by its size: one row a machine and size, up to the size that serves all it can.
-- The cache holds the pages used last (LRU) of all files of the machine, read or written; a read of a page
-- that is in it is served. Written pages make room for others and are not counted.
--
-- Hit ratios come from how many pages were used between two uses of the same page, by the model of average
-- eviction time (Hu et al., "Kinetic Modeling of Data Eviction in Cache", USENIX ATC 2016). Where there are
-- more than about a million uses, one page of a prime number is followed instead of all (spatial sampling:
-- Waldspurger et al., "Efficient MRC Construction with SHARDS", USENIX FAST 2015). Against the exact LRU the
-- share is off by some hundredths, at a cliff by as much as 0.12: of block traces the report has the exact curve. Pages of files
-- the recorder could not name are left out.
--
-- @materialize
-- @param page_bytes BIGINT 4096 bytes: page of the cache
-- @requires file_op, call, number, thread_file, step
-- @order node, size
-- @dimension node, size
-- @measure bytes = sum(bytes); hit_bytes = sum(hit_bytes);
--     hit_share = CAST(sum(hit_bytes) AS DOUBLE) / NULLIF(sum(bytes), 0)
-- @column node VARCHAR: machine
-- @column size BIGINT bytes: size of the cache
-- @column bytes BIGINT bytes: bytes read
-- @column hit_bytes BIGINT bytes: of them those that the cache would have served
-- @column hit_share DOUBLE share: hit_bytes / bytes
WITH every AS (
    -- one page of how many is followed
    SELECT MIN(m.m) AS m
    FROM (
        SELECT SUM(1e0 * s.bytes / p.page_bytes + s.ops) AS pages
        FROM step AS s
        CROSS JOIN params AS p
        WHERE s.file IS NOT NULL
    ) AS n
    CROSS JOIN (
        VALUES (1), (3), (7), (17), (37), (79), (163), (331), (673), (1361), (2729), (5471), (10949), (21911), (87719),
        (350899), (1403641)
    ) AS m (m)
    WHERE n.pages / m.m <= 1000000 OR m.m = 1403641
),

place AS (
    SELECT thread, file, CAST(file_number AS INTEGER) AS file_number
    FROM thread_file
    WHERE file IS NOT NULL
),

-- pages of each read and write
span AS (
    SELECT
        f.file_number,
        c.kind = 'read' AS is_read,
        o.ts,
        o.trace_row,
        CAST((o.pos - o.pos % p.page_bytes) / p.page_bytes AS BIGINT) AS first_page,
        CAST((o.pos + o.result - 1 - (o.pos + o.result - 1) % p.page_bytes) / p.page_bytes AS BIGINT) AS last_page,
        e.m
    FROM file_op AS o
    INNER JOIN call AS c ON c.call = o.call
    INNER JOIN place AS f ON f.thread = o.thread AND f.file = o.file
    CROSS JOIN params AS p
    CROSS JOIN every AS e
    WHERE c.kind IN ('read', 'write') AND o.pos IS NOT NULL AND o.result > 0
),

-- the first of them that is followed
followed AS (
    SELECT
        file_number,
        is_read,
        ts,
        trace_row,
        first_page + (m - (first_page + CAST(file_number AS BIGINT) * 7919) % m) % m AS page,
        last_page,
        m
    FROM span
    WHERE first_page + (m - (first_page + CAST(file_number AS BIGINT) * 7919) % m) % m <= last_page
),

-- and the further ones: a call moves less than 2^31 bytes (read(2)), half a million pages
touch AS (
    SELECT file_number, is_read, ts, trace_row, page
    FROM followed
    UNION ALL
    SELECT f.file_number, f.is_read, f.ts, f.trace_row, f.page + i.i * f.m
    FROM followed AS f
    -- one inequality: DuckDB takes several times as long for a join by two, and for one with many numbers
    INNER JOIN (
        SELECT i + 1 AS i
        FROM number
        WHERE i < (SELECT MAX((last_page - page) / m) FROM followed)
    ) AS i ON i.i <= (f.last_page - f.page) / f.m
    WHERE f.page + f.m <= f.last_page
),

machine AS (
    SELECT CAST(file_number AS INTEGER) AS file_number, MAX(node) AS node
    FROM thread_file
    GROUP BY file_number
),

numbered AS (
    SELECT
        m.node,
        t.file_number,
        t.is_read,
        t.page,
        ROW_NUMBER() OVER (
            PARTITION BY m.node
            ORDER BY t.ts NULLS LAST, t.trace_row NULLS LAST, t.file_number NULLS LAST, t.page NULLS LAST
        ) AS turn
    FROM touch AS t
    INNER JOIN machine AS m ON m.file_number = t.file_number
),

reuse AS (
    SELECT
        node,
        is_read,
        turn - LAG(turn) OVER (PARTITION BY file_number, page ORDER BY turn NULLS LAST) AS ago
    FROM numbered
),

-- log-linear buckets, 32 an octave, by their lower end
classed AS (
    SELECT
        node,
        CASE
            WHEN ago < 64 THEN ago
            ELSE ago - ago % CAST(POWER(2, FLOOR(LOG2(ago)) - 5) AS BIGINT)
        END AS ago,
        COUNT(*) AS n,
        COUNT(*) FILTER (WHERE is_read) AS reads
    FROM reuse
    GROUP BY 1, 2
),

total AS (
    SELECT node, CAST(SUM(n) AS BIGINT) AS n, CAST(SUM(reads) AS BIGINT) AS reads
    FROM classed
    GROUP BY node
),

-- pages that an LRU cache evicts in `ago` uses: the integral of the share of uses whose reuse takes longer
step_size AS (
    SELECT
        c.node,
        c.ago,
        c.reads,
        (c.ago - LAG(c.ago, 1, 0) OVER before)
        * (1 - 1e0 * COALESCE(SUM(c.n) OVER earlier, 0) / t.n) AS pages
    FROM classed AS c
    INNER JOIN total AS t ON t.node = c.node
    WHERE c.ago IS NOT NULL
    WINDOW
        before AS (PARTITION BY c.node ORDER BY c.ago NULLS LAST),
        earlier AS (
            PARTITION BY c.node ORDER BY c.ago NULLS LAST ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        )
),

curve AS (
    SELECT
        node,
        reads,
        SUM(pages) OVER (PARTITION BY node ORDER BY ago NULLS LAST ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
            AS pages
    FROM step_size
),

sized AS (
    SELECT
        c.node,
        s.size,
        CAST(COALESCE(SUM(c.reads) FILTER (WHERE c.pages * e.m * p.page_bytes <= s.size), 0) AS BIGINT) AS hits,
        CAST(SUM(c.reads) AS BIGINT) AS most
    FROM curve AS c
    CROSS JOIN (
        SELECT CAST(POWER(2, 16 + i) AS BIGINT) AS size
        FROM number
        WHERE i < 30
    ) AS s
    CROSS JOIN every AS e
    CROSS JOIN params AS p
    GROUP BY c.node, s.size
),

read_bytes AS (
    SELECT node, CAST(SUM(bytes) AS BIGINT) AS bytes
    FROM step
    WHERE kind = 'read' AND file IS NOT NULL
    GROUP BY node
)

SELECT
    s.node,
    s.size,
    b.bytes,
    CAST(FLOOR(1e0 * b.bytes * s.hits / t.reads) AS BIGINT) AS hit_bytes,
    1e0 * s.hits / t.reads AS hit_share
FROM sized AS s
INNER JOIN total AS t ON t.node = s.node AND t.reads > 0
INNER JOIN read_bytes AS b ON b.node = s.node
-- the next smaller size already served all
QUALIFY s.hits < s.most OR LAG(s.hits, 1, CAST(-1 AS BIGINT)) OVER (PARTITION BY s.node ORDER BY s.size NULLS LAST) < s.most

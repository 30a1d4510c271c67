-- Block traces in a few numbers: one row for reads and writes together, for reads and for writes.
-- Of all devices. Percentiles as in module percentiles, of the histogram of block_gap.
--
-- @requires block_size, block_sequential, block_gap, working_set
-- @order kind
-- @column kind VARCHAR: all, read or write
-- @column n BIGINT ops: requests
-- @column bytes BIGINT bytes: bytes they asked for
-- @column common_bytes BIGINT bytes: the power of two that most of their sizes are at or above, but below twice it; 0 no length
-- @column common_n BIGINT ops: requests of that size
-- @column placed BIGINT ops: requests at a known offset
-- @column sequential BIGINT ops: of those the ones that go on where another ended
-- @column sequential_share DOUBLE share: sequential / placed; null if none is placed
-- @column gaps BIGINT ops: times between requests of a device (and kind) that are known; null none
-- @column gap_p50_ns BIGINT ns: their median; null none
-- @column gap_p99_ns BIGINT ns: their 99th percentile; null none
-- @column working_set_bytes BIGINT bytes: bytes in different blocks of page_bytes that were used; null if none is placed
-- @column followed BIGINT: one block of so many was followed for it; 1 all: it is exact; null as working_set_bytes
WITH sized AS (
    SELECT CASE WHEN GROUPING(kind) = 1 THEN 'all' ELSE kind END AS kind, size, SUM(n) AS n, SUM(bytes) AS bytes
    FROM block_size
    GROUP BY GROUPING SETS ((kind, size), (size))
),

requests AS (
    SELECT
        kind,
        CAST(SUM(n) AS BIGINT) AS n,
        CAST(SUM(bytes) AS BIGINT) AS bytes,
        MAX_BY(size, concat(lpad(CAST(n AS VARCHAR), 20, '0'), lpad(CAST(size AS VARCHAR), 20, '0'))) AS common_bytes,
        CAST(MAX(n) AS BIGINT) AS common_n
    FROM sized
    GROUP BY kind
),

placed AS (
    SELECT
        CASE WHEN GROUPING(kind) = 1 THEN 'all' ELSE kind END AS kind,
        CAST(SUM(n) AS BIGINT) AS n,
        CAST(SUM(sequential) AS BIGINT) AS sequential
    FROM block_sequential
    GROUP BY GROUPING SETS ((kind), ())
),

histogram AS (
    SELECT kind, gap, SUM(n) AS n
    FROM block_gap
    GROUP BY kind, gap
),

running AS (
    SELECT
        kind,
        gap,
        SUM(n) OVER (PARTITION BY kind ORDER BY gap NULLS LAST ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
            AS until_here,
        SUM(n) OVER (PARTITION BY kind) AS of_all
    FROM histogram
),

spaced AS (
    SELECT
        kind,
        CAST(MAX(of_all) AS BIGINT) AS gaps,
        -- in integers, so that the 99th of 100 is exactly the 99th
        MIN(gap) FILTER (WHERE until_here * 1000 >= of_all * 500) AS p50_ns,
        MIN(gap) FILTER (WHERE until_here * 1000 >= of_all * 990) AS p99_ns
    FROM running
    GROUP BY kind
),

used AS (
    SELECT kind, CAST(SUM(bytes) FILTER (WHERE before_ts IS NULL) AS BIGINT) AS bytes, MAX(followed) AS followed
    FROM working_set
    GROUP BY kind
)

SELECT
    r.kind,
    r.n,
    r.bytes,
    r.common_bytes,
    r.common_n,
    COALESCE(p.n, 0) AS placed,
    COALESCE(p.sequential, 0) AS sequential,
    CAST(p.sequential AS DOUBLE) / NULLIF(p.n, 0) AS sequential_share,
    b.gaps,
    b.p50_ns AS gap_p50_ns,
    b.p99_ns AS gap_p99_ns,
    u.bytes AS working_set_bytes,
    u.followed
FROM requests AS r
LEFT JOIN placed AS p ON p.kind = r.kind
LEFT JOIN spaced AS b ON b.kind = r.kind
LEFT JOIN used AS u ON u.kind = r.kind

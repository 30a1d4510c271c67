-- Metrics of the members of a cluster over time: one row a member, metric and time bucket with a sample.
-- A sample counts in the bucket in which its stretch ended: at a row's ts all of it was known.
--
-- @param every_ns BIGINT 0 ns: width of a time bucket; 0 takes a second, as agents sample
-- @requires node_sample, member_state, metric
-- @order ts, member, metric, name, least
-- @dimension member, role, host, rack, metric, name, least
-- @measure value = CASE WHEN bool_or(level) THEN avg(value) ELSE sum(value) END
-- @column ts BIGINT ns: end of the bucket, a multiple of its width
-- @column member VARCHAR: whose it is
-- @column role VARCHAR: part it plays; null a member that no row of table member names
-- @column host VARCHAR: where it stands
-- @column rack VARCHAR: where that stands; null unknown
-- @column metric VARCHAR: what was measured: see module metric
-- @column name VARCHAR: of which of its kind; null all together
-- @column least BIGINT: smallest value of the histogram's bucket that value counts; null no histogram
-- @column level BOOLEAN: whether it is a level; else a sum
-- @column value DOUBLE: a level's mean, in the metric's unit; of a sum what it is a second: of time a share
WITH width AS (
    -- not that of time_bucket: who draws a moment of a long trail need not know where it ends
    SELECT COALESCE(NULLIF(every_ns, 0), 1000000000) AS every_ns
    FROM params
),

standing AS (
    SELECT member, role, host, rack
    FROM member_state
    WHERE until_ts IS NULL
),

placed AS (
    SELECT
        s.ts
        + COALESCE(s.dur, 0)
        + (w.every_ns - (s.ts + COALESCE(s.dur, 0)) % w.every_ns) % w.every_ns AS ts,
        s.member,
        s.node,
        s.metric,
        s.name,
        s.least,
        s.value,
        COALESCE(s.dur, w.every_ns) AS dur
    FROM node_sample AS s
    CROSS JOIN width AS w
),

counted AS (
    SELECT
        ts,
        member,
        MAX(node) AS node,
        metric,
        name,
        least,
        AVG(value) AS mean,
        SUM(value) * 1000000000 / NULLIF(SUM(dur), 0) AS rate
    FROM placed
    GROUP BY ts, member, metric, name, least
)

SELECT
    c.ts,
    c.member,
    m.role,
    COALESCE(m.host, c.node) AS host,
    m.rack,
    c.metric,
    c.name,
    c.least,
    -- what a metric of another version is shows in its rows: a level lasts no time
    COALESCE(k.level, c.rate IS NULL) AS level,
    CASE WHEN COALESCE(k.level, c.rate IS NULL) THEN c.mean ELSE c.rate END AS value
FROM counted AS c
LEFT JOIN standing AS m ON m.member = c.member
LEFT JOIN metric AS k ON k.metric = c.metric

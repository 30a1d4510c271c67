-- Bytes read more than once: one row a file. What a cache in front of its storage would have served.
-- again_bytes counts every byte exactly: bytes read less the different bytes read, which is what a cache
-- of unlimited size serves. How long ago the last read was is counted by whole reads, from the last one
-- that began in the same page of page_bytes. What the program
-- wrote before is not counted as cached.
--
-- @materialize
-- @param page_bytes BIGINT 4096 bytes: page of the cache
-- @requires file_op, call, file, thread_file
-- @order again_bytes DESC
-- @dimension path
-- @measure bytes = sum(bytes); again_bytes = sum(again_bytes);
--     again_share = CAST(sum(again_bytes) AS DOUBLE) / NULLIF(sum(bytes), 0)
-- @column node VARCHAR: machine
-- @column file BIGINT: file
-- @column path VARCHAR: its path; null unknown
-- @column n BIGINT ops: reads at a known offset that moved bytes
-- @column bytes BIGINT bytes: bytes they read
-- @column once_bytes BIGINT bytes: different bytes among them
-- @column again_bytes BIGINT bytes: bytes - once_bytes: those an unlimited cache would have served
-- @column again_share DOUBLE share: again_bytes / bytes
-- @column time_ns BIGINT ns: time in these reads
-- @column within_1s BIGINT ops: reads at most 1 s after the last one that began in the same page
-- @column within_10s BIGINT ops: more than 1 s, at most 10 s after
-- @column within_60s BIGINT ops: more than 10 s, at most 60 s after
-- @column later BIGINT ops: more than 60 s after
WITH access AS (
    SELECT
        CAST(f.file_number AS INTEGER) AS file_number,
        o.ts,
        o.dur,
        o.pos,
        o.result AS moved,
        o.pos - o.pos % p.page_bytes AS page
    FROM file_op AS o
    SEMI JOIN call AS c ON c.call = o.call AND c.kind = 'read'
    INNER JOIN thread_file AS f ON f.thread = o.thread AND f.file = o.file
    CROSS JOIN params AS p
    WHERE o.pos IS NOT NULL AND o.errno = 0 AND o.result > 0
),

-- reads by offset: what lies before the furthest end so far was read by another one
covered AS (
    SELECT
        file_number,
        GREATEST(
            0,
            end_pos - GREATEST(
                pos,
                COALESCE(
                    MAX(end_pos) OVER (
                        PARTITION BY file_number ORDER BY pos NULLS LAST
                        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
                    ),
                    pos
                )
            )
        ) AS once
    -- reads of the same range are one here
    FROM (SELECT file_number, pos, MAX(pos + moved) AS end_pos FROM access GROUP BY file_number, pos) AS different
),

since AS (
    SELECT
        file_number, dur, moved, ts - LAG(ts) OVER (PARTITION BY file_number, page ORDER BY ts NULLS LAST) AS ago
    FROM access
)

SELECT
    k.node,
    k.file,
    f.path,
    s.n,
    s.bytes,
    c.once_bytes,
    s.bytes - c.once_bytes AS again_bytes,
    CAST(s.bytes - c.once_bytes AS DOUBLE) / s.bytes AS again_share,
    s.time_ns,
    s.within_1s,
    s.within_10s,
    s.within_60s,
    s.later
FROM (
    SELECT
        file_number,
        COUNT(*) AS n,
        CAST(SUM(moved) AS BIGINT) AS bytes,
        CAST(SUM(dur) AS BIGINT) AS time_ns,
        COUNT(*) FILTER (WHERE ago <= 1000000000) AS within_1s,
        COUNT(*) FILTER (WHERE ago > 1000000000 AND ago <= 10000000000) AS within_10s,
        COUNT(*) FILTER (WHERE ago > 10000000000 AND ago <= 60000000000) AS within_60s,
        COUNT(*) FILTER (WHERE ago > 60000000000) AS later
    FROM since
    GROUP BY file_number
) AS s
INNER JOIN (
    SELECT file_number, CAST(SUM(once) AS BIGINT) AS once_bytes
    FROM covered
    GROUP BY file_number
) AS c ON c.file_number = s.file_number
INNER JOIN (SELECT DISTINCT file_number, node, file FROM thread_file) AS k ON k.file_number = s.file_number
LEFT JOIN (
    SELECT node, file, MAX(path) AS path
    FROM file
    GROUP BY node, file
) AS f ON f.node = k.node AND f.file = k.file

-- The different bytes that were read or written of each file: one row a file and kind.
-- The union of the ranges is exact: bytes less distinct_bytes were read, or written, more than once.
--
-- @materialize
-- @requires file_op, call, thread_file, step
-- @dimension file, path, kind
-- @measure ops = sum(ops); bytes = sum(bytes); distinct_bytes = sum(distinct_bytes); time_ns = sum(time_ns)
-- @column node VARCHAR: machine
-- @column file BIGINT: file
-- @column path VARCHAR: its path; '(unknown file)' without one
-- @column kind VARCHAR: read or write
-- @column ops BIGINT ops: reads or writes at a known offset that returned and moved bytes
-- @column bytes BIGINT bytes: bytes they moved
-- @column distinct_bytes BIGINT bytes: different bytes of the file among them
-- @column time_ns BIGINT ns: time in them
WITH used AS (
    SELECT
        node,
        file,
        MAX(path) AS path,
        kind,
        CAST(SUM(ops) AS BIGINT) AS ops,
        CAST(SUM(bytes) AS BIGINT) AS bytes,
        CAST(SUM(io_ns) AS BIGINT) AS time_ns
    FROM step
    WHERE file IS NOT NULL
    GROUP BY node, file, kind
),

-- Where one thread goes through the file in one run no byte comes twice.
several_runs AS (
    SELECT node, file
    FROM step
    WHERE file IS NOT NULL
    GROUP BY node, file
    HAVING MIN(thread) <> MAX(thread) OR SUM(ops) > SUM(consecutive_ops) + 1
),

place AS (
    SELECT f.thread, f.file, f.node, CAST(f.file_number AS INTEGER) AS file_number
    FROM thread_file AS f
    SEMI JOIN several_runs AS r ON r.node = f.node AND r.file = f.file
),

moved AS (
    SELECT
        p.file_number,
        CASE c.kind WHEN 'read' THEN 1 ELSE 2 END AS kind_number,
        o.pos,
        o.pos + o.result AS end_pos
    FROM file_op AS o
    INNER JOIN call AS c ON c.call = o.call
    INNER JOIN place AS p ON p.thread = o.thread AND p.file = o.file
    WHERE c.kind IN ('read', 'write') AND o.pos IS NOT NULL AND o.result > 0
),

-- Cut into slices of the file, because a running maximum over millions of rows costs twenty times as much
-- as many over some hundreds. One call moves less than 2^31 bytes (read(2)): 512 slices.
cut AS (
    SELECT file_number, kind_number, pos, pos - pos % 4194304 + LEAST(end_pos - pos + pos % 4194304, 4194304) AS end_pos
    FROM moved
    UNION ALL
    SELECT
        m.file_number,
        m.kind_number,
        m.pos - m.pos % 4194304 + i.i * 4194304,
        m.pos - m.pos % 4194304 + i.i * 4194304
            + LEAST(m.end_pos - m.pos + m.pos % 4194304 - i.i * 4194304, 4194304)
    FROM moved AS m
    INNER JOIN (
        SELECT CAST(a.d + 8 * b.d + 64 * c.d + 1 AS BIGINT) AS i
        FROM (VALUES (0), (1), (2), (3), (4), (5), (6), (7)) AS a (d)
        CROSS JOIN (VALUES (0), (1), (2), (3), (4), (5), (6), (7)) AS b (d)
        CROSS JOIN (VALUES (0), (1), (2), (3), (4), (5), (6), (7)) AS c (d)
    ) AS i ON m.end_pos - m.pos + m.pos % 4194304 > i.i * 4194304
    WHERE m.end_pos - m.pos + m.pos % 4194304 > 4194304
),

covered AS (
    SELECT
        file_number,
        kind_number,
        pos,
        end_pos,
        MAX(end_pos) OVER (
            PARTITION BY file_number, kind_number, pos - pos % 4194304 ORDER BY pos NULLS LAST
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS until_pos
    FROM (
        SELECT file_number, kind_number, pos, MAX(end_pos) AS end_pos
        FROM cut
        GROUP BY file_number, kind_number, pos
    ) AS longest
),

summed AS (
    SELECT
        file_number,
        kind_number,
        CAST(SUM(GREATEST(0, end_pos - GREATEST(pos, COALESCE(until_pos, pos)))) AS BIGINT) AS distinct_bytes
    FROM covered
    GROUP BY file_number, kind_number
)

SELECT
    u.node,
    u.file,
    u.path,
    u.kind,
    u.ops,
    u.bytes,
    COALESCE(s.distinct_bytes, u.bytes) AS distinct_bytes,
    u.time_ns
FROM used AS u
LEFT JOIN (SELECT DISTINCT node, file, file_number FROM place) AS p ON p.node = u.node AND p.file = u.file
LEFT JOIN summed AS s
    ON s.file_number = p.file_number AND s.kind_number = CASE u.kind WHEN 'read' THEN 1 ELSE 2 END

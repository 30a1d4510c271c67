-- Reads, writes and flushes of files by programs, a file as a device: what `iotrail model fit --files` fits. Left out are calls
-- that failed, moved nothing or have no known offset, mapped memory, and what is no storage: pipes, sockets, terminals, /proc, /sys,
-- /dev/null and its like. Disks that programs read and write by their names count as files.
-- Of copies the bytes that are read.
--
-- @requires bare_op, file
-- @order ts, device, pos
-- @column device BIGINT: number of the file, from 1, most reads and writes first
-- @column path VARCHAR: path of the file
-- @column ts BIGINT ns: start
-- @column dur BIGINT ns: time until it returned; null unknown
-- @column op BIGINT: 0 read, 1 write, 2 flush
-- @column pos BIGINT bytes: offset in the file; 0 of a flush
-- @column length BIGINT bytes: bytes moved; 0 of a flush
-- @column trace_row BIGINT: row in the imported trace; null if recorded
-- @column node VARCHAR: machine
WITH moved AS (
    SELECT o.*
    FROM bare_op AS o
    WHERE (o.kind IN ('read', 'write') AND o.moved > 0 AND o.pos IS NOT NULL) OR (o.kind = 'flush' AND o.errno = 0)
),

ranked AS (
    SELECT
        m.node,
        m.file,
        f.path,
        ROW_NUMBER() OVER (ORDER BY COUNT(*) DESC, m.node, f.path, m.file) AS device
    FROM moved AS m
    INNER JOIN (
        SELECT node, file, MAX(path) AS path
        FROM file
        GROUP BY node, file
    ) AS f ON f.node = m.node AND f.file = m.file
    WHERE m.kind <> 'flush'
        AND NOT (f.path LIKE '[%' OR f.path LIKE '/proc/%' OR f.path LIKE '/sys/%' OR f.path LIKE '/dev/pts/%' OR f.path LIKE '/dev/tty%')
        AND f.path NOT IN ('/dev/null', '/dev/zero', '/dev/full', '/dev/random', '/dev/urandom')
    GROUP BY m.node, m.file, f.path
)

SELECT
    CAST(r.device AS BIGINT) AS device,
    r.path,
    m.ts,
    m.dur,
    CAST(CASE m.kind WHEN 'read' THEN 0 WHEN 'write' THEN 1 ELSE 2 END AS BIGINT) AS op,
    CASE WHEN m.kind = 'flush' THEN 0 ELSE m.pos END AS pos,
    CASE WHEN m.kind = 'flush' THEN 0 ELSE m.moved END AS length,
    m.trace_row,
    m.node
FROM moved AS m
INNER JOIN ranked AS r ON r.node = m.node AND r.file = m.file

-- What was done, counted without its times: one row a call, file and whether timing decides the number.
-- What `iotrail diff` compares exactly. The same program with the same input makes the same calls on its files, so
-- that one more is a difference. Of some calls timing decides how many there are (`timed`): waiting calls and reads
-- and writes of pipes, sockets and terminals (as much as is there at the moment); files of /proc and /sys, terminals, /dev/null and /dev/urandom; calls that
-- ended with EINTR, EAGAIN, ETIMEDOUT, EALREADY or EINPROGRESS, because programs retry them.
--
-- @materialize
-- @requires bare_op, sync_op, file
-- @order n DESC
-- @dimension path, call, kind, timed
-- @measure n = sum(n); bytes = sum(bytes); errors = sum(errors)
-- @column call VARCHAR: name of the call
-- @column kind VARCHAR: read, write, flush, meta or map; wait for calls that wait for something else
-- @column waits_for VARCHAR: what a waiting call waits for (kind of sync_op); null for calls on files
-- @column node VARCHAR: machine
-- @column file BIGINT: file; null unknown and for waiting calls
-- @column path VARCHAR: its path; null unknown and for waiting calls
-- @column timed BOOLEAN: timing decides how many there are: the next run may make another number
-- @column n BIGINT ops: operations
-- @column bytes BIGINT bytes: bytes they moved; 0 for waiting calls
-- @column errors BIGINT ops: operations that failed
SELECT
    g.call,
    g.kind,
    g.waits_for,
    g.node,
    g.file,
    f.path,
    g.timed OR COALESCE(
        f.path LIKE '/proc/%' OR f.path LIKE '/sys/%' OR f.path LIKE '/dev/pts/%'
        OR f.path IN ('/dev/tty', '/dev/null', '/dev/random', '/dev/urandom'),
        FALSE
    ) AS timed,
    g.n,
    g.bytes,
    g.errors
FROM (
    SELECT
        o.call,
        o.kind,
        CAST(NULL AS VARCHAR) AS waits_for,
        o.node,
        o.file,
        -- EINTR, EAGAIN, ETIMEDOUT, EALREADY, EINPROGRESS (asm-generic/errno.h)
        COALESCE(o.errno IN (4, 11, 110, 114, 115), FALSE) AS timed,
        COUNT(*) AS n,
        CAST(SUM(o.moved) AS BIGINT) AS bytes,
        COUNT(*) FILTER (WHERE o.errno <> 0) AS errors
    FROM bare_op AS o
    GROUP BY o.call, o.kind, o.node, o.file, COALESCE(o.errno IN (4, 11, 110, 114, 115), FALSE)
    UNION ALL
    SELECT
        s.call,
        'wait',
        s.kind,
        s.node,
        NULL,
        -- how often all ranks meet, and how often a thread is waited for, is the program's own
        NOT (s.kind IN ('barrier', 'thread') OR (s.kind = 'mpi' AND s.call NOT IN ('MPI_Wait', 'MPI_Probe'))),
        COUNT(*),
        CAST(0 AS BIGINT),
        COUNT(*) FILTER (WHERE s.errno <> 0)
    FROM sync_op AS s
    GROUP BY s.call, s.kind, s.node
) AS g
LEFT JOIN (
    SELECT node, file, MAX(path) AS path
    FROM file
    GROUP BY node, file
) AS f ON f.node = g.node AND f.file = g.file

-- What threads waited for: one row a thread, what it waited for and object, by call.
-- The waiting of time_split opened: outermost calls only, cut to the life of the thread, so that the rows of a thread
-- add up to its sync_ns and idle_ns together.
--
-- The peer is known
--
--     of a child or MPI rank    where the call names one
--     of a file lock            the thread that released it, if in the last `release_ns` of the wait one other thread alone
--                               made a call that can release the lock (flock, lockf, fcntl, close, or its process ended),
--                               and its process had locked the file before; shorter waits than `lock_wait_ns` and those
--                               that failed have none
--     of a pipe                 the process at the other end, if one alone of those recorded made calls there
--     of a socket               the same, where the socket's name says both ends (strace -yy); a recorder's doesn't
--
-- and null of all else: of mutexes, read-write locks, conditions and semaphores only waits are recorded, not who unlocks.
--
-- @param lock_wait_ns BIGINT 100000 ns: a shorter call for a file lock waited for nobody
-- @param release_ns BIGINT 5000000 ns: longest time from the release of a file lock to the end of the wait for it
-- @materialize
-- @requires busy, thread_life, file, file_op, sync_op, process, call
-- @order time_ns DESC, thread, call
-- @dimension node, process, process_name, thread, waits_for, call, object
-- @measure n = sum(n); time_ns = sum(time_ns); max_ns = max(max_ns)
-- @column node VARCHAR: machine
-- @column process BIGINT: process that waited
-- @column process_name VARCHAR: name of its executable
-- @column thread BIGINT: thread that waited
-- @column thread_name VARCHAR: name; null none given
-- @column waits_for VARCHAR: what it waits for, as in module busy: lock, condition, poll, socket, pipe, process …
-- @column call VARCHAR: name of the call
-- @column object BIGINT: address of the lock, condition or futex, or id of the file, pipe or socket; null none or unknown
-- @column object_name VARCHAR: the file's path, the pipe's or socket's name; null none or unknown
-- @column peer BIGINT: who was waited for: pid of the child or of the process at the other end, MPI rank, or tid of the
--     thread that released the lock; null none or unknown
-- @column peer_name VARCHAR: name of the executable at the other end, or that released the lock; null none or unknown
-- @column n BIGINT ops: waits
-- @column time_ns BIGINT ns: time waited, each instant once
-- @column max_ns BIGINT ns: the longest
WITH locking AS (
    SELECT node, thread, object AS file, ts, ts + dur AS end_ts
    FROM sync_op
    WHERE kind = 'file_lock' AND errno = 0 AND dur IS NOT NULL AND object IS NOT NULL
    UNION ALL
    -- F_SETLK and F_OFD_SETLK, see fcntl(2)
    SELECT node, thread, file, ts, ts + dur
    FROM file_op
    WHERE call = 'fcntl' AND flags IN (6, 37) AND errno = 0 AND dur IS NOT NULL AND file IS NOT NULL
),

-- an exec keeps locks: by pid
locker AS (
    SELECT l.node, l.file, t.pid, MIN(l.end_ts) AS first_ts
    FROM locking AS l
    INNER JOIN thread_life AS t ON t.thread = l.thread
    GROUP BY l.node, l.file, t.pid
),

lock_wait AS (
    SELECT s.node, s.thread, s.object AS file, s.ts, s.ts + s.dur AS end_ts
    FROM sync_op AS s
    CROSS JOIN params AS p
    WHERE s.kind = 'file_lock' AND s.errno = 0 AND s.dur >= p.lock_wait_ns AND s.object IS NOT NULL
),

releasing AS (
    SELECT l.node, l.file, l.ts, t.tid, t.pid, t.process_name
    FROM locking AS l
    INNER JOIN thread_life AS t ON t.thread = l.thread
    UNION ALL
    SELECT o.node, o.file, o.ts, t.tid, t.pid, t.process_name
    FROM file_op AS o
    SEMI JOIN lock_wait AS w ON w.node = o.node AND w.file = o.file
    INNER JOIN thread_life AS t ON t.thread = o.thread
    WHERE o.call IN ('close', 'fclose') AND o.errno = 0
    UNION ALL
    -- the first thread has the process's id
    SELECT l.node, l.file, p.end_ts, p.pid, p.pid, p.name
    FROM locker AS l
    INNER JOIN process AS p ON p.node = l.node AND p.pid = l.pid
    WHERE p.end_ts IS NOT NULL
),

released AS (
    SELECT w.thread, w.end_ts, MIN(r.tid) AS tid, MAX(r.process_name) AS process_name
    FROM lock_wait AS w
    CROSS JOIN params AS p
    INNER JOIN thread_life AS t ON t.thread = w.thread
    INNER JOIN releasing AS r
        ON r.node = w.node AND r.file = w.file AND r.ts > w.ts AND r.ts <= w.end_ts AND r.ts >= w.end_ts - p.release_ns
        AND r.tid <> t.tid AND r.pid > 0
    INNER JOIN locker AS l ON l.node = r.node AND l.file = r.file AND l.pid = r.pid AND l.first_ts <= r.ts
    GROUP BY w.thread, w.end_ts
    HAVING MIN(r.tid) = MAX(r.tid)
),

-- who made calls on each pipe and socket, by direction
used AS (
    SELECT
        s.node,
        s.object,
        s.kind,
        CASE WHEN s.kind = 'pipe' THEN c.kind END AS direction,
        MIN(t.pid) AS pid,
        MAX(t.pid) AS last_pid,
        max_by(t.process_name, concat(lpad(CAST(s.ts AS VARCHAR), 20, '0'), t.process_name)) AS process_name
    FROM sync_op AS s
    INNER JOIN thread_life AS t ON t.thread = s.thread
    LEFT JOIN call AS c ON c.call = s.call
    -- an imported trace without pids has 0
    WHERE s.kind IN ('pipe', 'socket') AND s.object IS NOT NULL AND t.pid > 0
    GROUP BY s.node, s.object, s.kind, CASE WHEN s.kind = 'pipe' THEN c.kind END
),

-- a connection's name: TCP:[10.0.0.1:4000->10.0.0.2:80], UNIX-STREAM:[4711->4712,"/run/x"]
name AS (
    SELECT node, file, family, split_part(ends, '->', 1) AS own, split_part(split_part(ends, '->', 2), ',', 1) AS other
    FROM (
        SELECT
            node,
            file,
            split_part(path, ':[', 1) AS family,
            substr(path, length(split_part(path, ':[', 1)) + 3, length(path) - length(split_part(path, ':[', 1)) - 3) AS ends
        FROM file
        WHERE path LIKE '%:[%->%]' AND path NOT LIKE '/%'
        GROUP BY node, file, path
    ) AS connected
),

other_end AS (
    SELECT node, object, CASE direction WHEN 'read' THEN 'write' ELSE 'read' END AS direction, pid, process_name
    FROM used
    WHERE kind = 'pipe' AND direction IN ('read', 'write') AND pid = last_pid
    UNION ALL
    SELECT a.node, a.file, NULL, MIN(u.pid), MAX(u.process_name)
    FROM name AS a
    INNER JOIN name AS b ON b.node = a.node AND b.family = a.family AND b.own = a.other AND b.other = a.own
    INNER JOIN used AS u ON u.node = b.node AND u.object = b.file AND u.kind = 'socket'
    GROUP BY a.node, a.file
    HAVING MIN(u.pid) = MAX(u.last_pid)
),

wait AS (
    SELECT
        b.thread,
        b.waits_for,
        b.call,
        b.object,
        b.since_ts,
        b.until_ts,
        CASE
            WHEN b.waits_for IN ('process', 'mpi') AND b.peer >= 0 THEN b.peer
            WHEN b.waits_for = 'lock' THEN r.tid
            WHEN b.waits_for IN ('pipe', 'socket') THEN e.pid
        END AS peer,
        CASE
            WHEN b.waits_for = 'lock' THEN r.process_name
            WHEN b.waits_for IN ('pipe', 'socket') THEN e.process_name
        END AS peer_name
    FROM busy AS b
    INNER JOIN thread_life AS t ON t.thread = b.thread
    LEFT JOIN released AS r ON r.thread = b.thread AND r.end_ts = b.until_ts
    LEFT JOIN call AS c ON c.call = b.call
    LEFT JOIN other_end AS e
        ON e.node = t.node AND e.object = b.object
        AND (e.direction = c.kind OR (e.direction IS NULL AND b.waits_for = 'socket'))
    WHERE b.kind = 'wait'
)

SELECT
    t.node,
    t.process,
    t.process_name,
    t.thread,
    t.thread_name,
    b.waits_for,
    b.call,
    b.object,
    f.path AS object_name,
    b.peer,
    b.peer_name,
    COUNT(*) AS n,
    CAST(SUM(b.until_ts - b.since_ts) AS BIGINT) AS time_ns,
    MAX(b.until_ts - b.since_ts) AS max_ns
FROM wait AS b
INNER JOIN thread_life AS t ON t.thread = b.thread
LEFT JOIN (
    SELECT node, file, MAX(path) AS path
    FROM file
    GROUP BY node, file
) AS f ON f.node = t.node AND f.file = b.object
GROUP BY
    t.node, t.process, t.process_name, t.thread, t.thread_name, b.waits_for, b.call, b.object, f.path, b.peer, b.peer_name

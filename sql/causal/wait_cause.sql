-- What others did while a thread waited for them, of recordings with --causal: one row a wait, thread waited for and kind of work. Of a
-- wait with a cause that is who gave the last signal, of a wait for a lock who held it; what the cause itself waited for is nobody's work here.
--
-- excess_ns is what of it the cause did more than the one who waits, from that one's wait before on, or of a lock while each of them holds it;
-- computing and I/O each compared. Peers that do the same wait for each other too, because they share cores, disks and
-- locks, and nobody holds the others up. Cf. Böhme et al., "Identifying
-- the root causes of wait states in large-scale parallel applications" (ICPP 2010), who compare the times between meetings.
--
-- @materialize
-- @requires wait_state, sync_op, compute, file_op, thread_life, trail_span, number
-- @dimension node, thread, state, cause_thread, work, call, file
-- @measure waits = COUNT(DISTINCT CONCAT(thread, ' ', ts)); ns = CAST(SUM(ns) AS BIGINT); excess_ns = CAST(SUM(excess_ns) AS BIGINT)
-- @order excess_ns DESC
-- @column ts BIGINT ns: start of the wait
-- @column dur BIGINT ns: how long it was blocked by the cause
-- @column node VARCHAR: machine
-- @column thread BIGINT: thread that waited
-- @column state VARCHAR: as in wait_state; not begin or end
-- @column cause_thread BIGINT: thread that it waited for
-- @column work VARCHAR: io: calls on files; compute: on a CPU between calls
-- @column call VARCHAR: name of the call; null but for io
-- @column file BIGINT: file; null but for io, or unknown
-- @column ns BIGINT ns: of dur, in which the cause did that
-- @column excess_ns BIGINT ns: of it, more than the one who waits did itself
WITH slice AS (
    -- a few dozen calls each, so that intervals are compared with few others; at most as many as module number has, and of less than 2^59 ns, so
    -- that 64 bits hold the end of the last
    SELECT
        s.start_ts AS origin,
        1 + GREATEST(
            CAST((s.end_ts - s.start_ts - (s.end_ts - s.start_ts) % 1000000) / 1000000 AS BIGINT),
            LEAST(CAST((s.end_ts - s.start_ts - (s.end_ts - s.start_ts) % n.n) / n.n AS BIGINT), 9007199254740991) * 64
        ) AS width
    FROM trail_span AS s
    CROSS JOIN (SELECT (SELECT COUNT(*) FROM file_op) + (SELECT COUNT(*) FROM compute) + 1 AS n) AS n
),

lock_op AS (
    SELECT
        t.node,
        t.process,
        s.thread,
        s.object,
        s.call,
        s.ts,
        s.ts + s.dur AS end_ts,
        LEAD(s.ts) OVER one AS next_ts,
        LEAD(s.call) OVER one AS next_call
    FROM sync_op AS s
    INNER JOIN thread_life AS t ON t.thread = s.thread
    WHERE s.kind = 'lock' AND s.object IS NOT NULL
    WINDOW one AS (PARTITION BY s.thread, s.object ORDER BY s.ts NULLS LAST)
),

hold AS (
    SELECT node, process, object, thread, end_ts AS ts, next_ts AS end_ts
    FROM lock_op
    WHERE call NOT LIKE '%unlock' AND next_call LIKE '%unlock' AND next_ts > end_ts
),

-- waits with an edge; those for locks, once for each who held it meanwhile
blocked AS (
    SELECT node, thread, ts, state, cause_thread, ts AS from_ts, ts + blocked_ns AS until_ts, CAST(NULL AS BIGINT) AS since_ts
    FROM wait_state
    WHERE cause_thread <> thread AND blocked_ns > 0 AND state NOT IN ('begin', 'end')
    UNION ALL
    SELECT l.node, l.thread, l.ts, 'lock', h.thread, GREATEST(l.ts, h.ts), LEAST(l.end_ts, h.end_ts), h.ts
    FROM lock_op AS l
    SEMI JOIN (SELECT thread, ts FROM wait_state WHERE state = 'lock') AS w ON w.thread = l.thread AND w.ts = l.ts
    INNER JOIN hold AS h
        ON h.node = l.node AND h.process = l.process AND h.object = l.object AND h.thread <> l.thread AND h.ts < l.end_ts AND h.end_ts > l.ts
    WHERE l.call NOT LIKE '%unlock'
),

-- since_ts: when the one who waits went on the last time
waited AS (
    SELECT
        b.thread,
        b.ts,
        b.state,
        COALESCE(LAG(MAX(b.until_ts)) OVER (PARTITION BY b.thread ORDER BY b.ts NULLS LAST), MIN(t.start_ts)) AS since_ts
    FROM blocked AS b
    INNER JOIN thread_life AS t ON t.thread = b.thread
    GROUP BY b.thread, b.ts, b.state
),

-- what is compared: what the cause did meanwhile and before, and the one who waits itself
span AS (
    SELECT thread, ts, cause_thread, 'held' AS role, cause_thread AS on_thread, from_ts, until_ts
    FROM blocked
    UNION ALL
    SELECT b.thread, b.ts, b.cause_thread, 'before', b.cause_thread, COALESCE(b.since_ts, w.since_ts), b.from_ts
    FROM blocked AS b
    INNER JOIN waited AS w ON w.thread = b.thread AND w.ts = b.ts AND w.state = b.state
    UNION ALL
    SELECT thread, ts, CAST(NULL AS BIGINT), 'own', thread, since_ts, ts
    FROM waited
    WHERE state <> 'lock'
    UNION ALL
    SELECT l.thread, l.ts, CAST(NULL AS BIGINT), 'own', l.thread, l.end_ts, l.next_ts
    FROM lock_op AS l
    SEMI JOIN (SELECT thread, ts FROM waited WHERE state = 'lock') AS w ON w.thread = l.thread AND w.ts = l.ts
    WHERE l.next_call LIKE '%unlock' AND l.next_ts > l.end_ts
),

part AS (
    SELECT o.thread, 'io' AS work, o.call, o.file, o.ts AS from_ts, o.ts + o.dur AS until_ts, 1e0 AS share
    FROM file_op AS o
    SEMI JOIN span AS s ON s.on_thread = o.thread
    WHERE o.dur > 0
    UNION ALL
    SELECT thread, 'compute', CAST(NULL AS VARCHAR), CAST(NULL AS BIGINT), ts, ts + dur, CAST(cpu_ns AS DOUBLE) / dur
    FROM compute
    WHERE cpu_ns > 0
),

span_sliced AS (
    SELECT
        x.*,
        CAST((x.from_ts - w.origin - (x.from_ts - w.origin) % w.width) / w.width AS BIGINT) AS first,
        CAST((x.until_ts - 1 - w.origin - (x.until_ts - 1 - w.origin) % w.width) / w.width AS BIGINT) AS last
    FROM span AS x
    CROSS JOIN slice AS w
    WHERE x.until_ts > x.from_ts
),

part_sliced AS (
    SELECT
        x.*,
        CAST((x.from_ts - w.origin - (x.from_ts - w.origin) % w.width) / w.width AS BIGINT) AS first,
        CAST((x.until_ts - 1 - w.origin - (x.until_ts - 1 - w.origin) % w.width) / w.width AS BIGINT) AS last
    FROM part AS x
    CROSS JOIN slice AS w
    WHERE x.until_ts > x.from_ts
),

-- most reach over few slices, for which few numbers are compared
span_slice AS (
    SELECT *, first AS slice
    FROM span_sliced
    UNION ALL
    SELECT s.*, s.first + 1 + n.i
    FROM (SELECT * FROM span_sliced WHERE last > first) AS s
    INNER JOIN (SELECT i FROM number WHERE i < 16) AS n ON n.i < s.last - s.first
    UNION ALL
    SELECT s.*, s.first + 1 + n.i
    FROM (SELECT * FROM span_sliced WHERE last > first + 16) AS s
    INNER JOIN (SELECT i FROM number WHERE i >= 16) AS n ON n.i < s.last - s.first
),

part_slice AS (
    SELECT *, first AS slice
    FROM part_sliced
    UNION ALL
    SELECT p.*, p.first + 1 + n.i
    FROM (SELECT * FROM part_sliced WHERE last > first) AS p
    INNER JOIN (SELECT i FROM number WHERE i < 16) AS n ON n.i < p.last - p.first
    UNION ALL
    SELECT p.*, p.first + 1 + n.i
    FROM (SELECT * FROM part_sliced WHERE last > first + 16) AS p
    INNER JOIN (SELECT i FROM number WHERE i >= 16) AS n ON n.i < p.last - p.first
),

done AS (
    SELECT
        s.thread,
        s.ts,
        s.cause_thread,
        s.role,
        p.work,
        p.call,
        p.file,
        SUM(
            p.share * (
                LEAST(s.until_ts, p.until_ts, w.origin + (s.slice + 1) * w.width)
                - GREATEST(s.from_ts, p.from_ts, w.origin + s.slice * w.width)
            )
        ) AS ns
    FROM span_slice AS s
    CROSS JOIN slice AS w
    INNER JOIN part_slice AS p
        ON p.thread = s.on_thread AND p.slice = s.slice AND p.from_ts < s.until_ts AND p.until_ts > s.from_ts
    GROUP BY s.thread, s.ts, s.cause_thread, s.role, p.work, p.call, p.file
),

own AS (
    SELECT thread, ts, work, SUM(ns) AS ns
    FROM done
    WHERE role = 'own'
    GROUP BY thread, ts, work
),

before AS (
    SELECT thread, ts, cause_thread, work, SUM(ns) AS ns
    FROM done
    WHERE role = 'before'
    GROUP BY thread, ts, cause_thread, work
),

held AS (
    SELECT *, SUM(ns) OVER (PARTITION BY thread, ts, cause_thread, work) AS work_ns
    FROM done
    WHERE role = 'held'
),

cause AS (
    SELECT node, thread, ts, state, cause_thread, CAST(SUM(until_ts - from_ts) AS BIGINT) AS dur
    FROM blocked
    GROUP BY node, thread, ts, state, cause_thread
)

SELECT
    c.ts,
    c.dur,
    c.node,
    c.thread,
    c.state,
    c.cause_thread,
    h.work,
    h.call,
    h.file,
    CAST(ROUND(h.ns) AS BIGINT) AS ns,
    CAST(ROUND(
        h.ns * LEAST(h.work_ns, GREATEST(h.work_ns + COALESCE(b.ns, 0) - COALESCE(o.ns, 0), 0)) / NULLIF(h.work_ns, 0)
    ) AS BIGINT) AS excess_ns
FROM held AS h
INNER JOIN cause AS c ON c.thread = h.thread AND c.ts = h.ts AND c.cause_thread = h.cause_thread
LEFT JOIN before AS b ON b.thread = h.thread AND b.ts = h.ts AND b.cause_thread = h.cause_thread AND b.work = h.work
LEFT JOIN own AS o ON o.thread = h.thread AND o.ts = h.ts AND o.work = h.work
WHERE h.ns > 0

-- Waits of threads and what they waited for, of recordings with --causal: one row a wait. What a wait is for is known where calls of
-- others belong to it (its edge): until the last of their signals it was blocked, the rest it took to go on. Who sleeps before it looks
-- for a file again, itself or by a process that it waits for, waits for who makes or removes that file.
--
-- @requires wait, signal
-- @dimension node, thread, kind, state, cause_thread
-- @measure n = COUNT(*); blocked_ns = CAST(SUM(blocked_ns) AS BIGINT); after_ns = CAST(SUM(after_ns) AS BIGINT)
-- @order blocked_ns DESC
-- @column ts BIGINT ns: start
-- @column dur BIGINT ns: time until it returned; null if it never did
-- @column node VARCHAR: machine
-- @column thread BIGINT: thread that waited
-- @column edge BIGINT: number of the edge; null unexplained
-- @column kind VARCHAR: kind of the edge, or of the call
-- @column state VARCHAR: late sender, late receiver, late writer and late reader (of a pipe, connection), late post and late complete (of an
--     MPI window), collective, barrier,
--     semaphore, condition, connection, event, begin, end, missing file, hidden (found by pausing threads), signal, queue,
--     socket, futex and others of sync_op (found by who woke the thread), lock, timer, start of MPI (or its end), or unexplained
-- @column blocked_ns BIGINT ns: time until the last signal; all where who gave it is unknown
-- @column after_ns BIGINT ns: time from then on; null where that is unknown
-- @column cause_node VARCHAR: machine of the thread that gave the last signal; null unknown
-- @column cause_thread BIGINT: that thread; null unknown
-- @column cause_ts BIGINT ns: when; null unknown
WITH last AS (
    SELECT
        edge,
        MAX(ts) AS ts,
        MAX(kind) AS kind,
        MAX_BY(thread, CONCAT(LPAD(CAST(ts AS VARCHAR), 20, '0'), LPAD(CAST(thread AS VARCHAR), 20, '0'))) AS thread,
        MAX_BY(node, CONCAT(LPAD(CAST(ts AS VARCHAR), 20, '0'), LPAD(CAST(thread AS VARCHAR), 20, '0'))) AS node
    FROM signal
    GROUP BY edge
)

SELECT
    w.ts,
    w.dur,
    w.node,
    w.thread,
    w.edge,
    w.kind,
    CASE
        WHEN w.kind = 'name' OR u.edge IS NOT NULL THEN 'missing file'
        WHEN w.kind = 'message' THEN 'late sender'
        WHEN w.kind = 'rendezvous' THEN 'late receiver'
        WHEN w.kind = 'exposure' AND w.edge IS NOT NULL THEN 'late post'
        WHEN w.kind = 'access' AND w.edge IS NOT NULL THEN 'late complete'
        WHEN w.kind = 'stream' THEN 'late writer'
        WHEN w.kind = 'room' THEN 'late reader'
        WHEN w.kind IN ('sleep', 'timer') THEN 'timer'
        WHEN w.kind = 'start' THEN 'start of MPI'
        WHEN w.kind = 'lock' OR w.edge IS NOT NULL THEN w.kind
        ELSE 'unexplained'
    END AS state,
    CASE WHEN l.ts IS NULL THEN w.dur ELSE GREATEST(LEAST(l.ts - w.ts, w.dur), 0) END AS blocked_ns,
    CASE WHEN l.ts IS NOT NULL THEN w.dur - GREATEST(LEAST(l.ts - w.ts, w.dur), 0) END AS after_ns,
    l.node AS cause_node,
    l.thread AS cause_thread,
    l.ts AS cause_ts
FROM wait AS w
LEFT JOIN last AS u ON u.edge = w.until_edge AND u.kind = 'name' AND w.kind <> 'begin'
LEFT JOIN last AS l ON l.edge = COALESCE(u.edge, w.edge)

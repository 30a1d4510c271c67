-- A slow peer: the program waits for the other end of a socket or pipe, and nobody in the recording works meanwhile.
--
-- Waits for a socket count in processes that connected (clients; a server that waits for its next request is idle),
-- also those in poll, select or epoll of a thread that connected. Waits for a pipe count at both ends. What somebody
-- else of the recording did in that time explains the wait better than the peer: counted is at most the time of the
-- run in which nobody worked. Nor is a thread slow whose wait is over and that waits for a CPU: what the threads waited for
-- CPUs in calls (by the scheduler, `thread_time`) is taken off too. Of a chain of waits only the last counts, whose peer waits for no other.
--
-- @param min_share DOUBLE 0.01: a smaller share of the working time is no finding
-- @param medium_share DOUBLE 0.05: share of the working time from which a finding is medium
-- @param high_share DOUBLE 0.2: share of the working time from which a finding is high
-- @param peer_ns BIGINT 100000000 ns: waits for a peer of less in all are no finding
-- @param answer_ns BIGINT 1000000 ns: a peer that answers faster on average is not slow, however often it is asked
-- @requires sync_op, thread, thread_time, process, file, effort
WITH client AS (
    SELECT t.node, t.process, s.thread
    FROM sync_op AS s
    INNER JOIN thread AS t ON t.node = s.node AND t.thread = s.thread
    WHERE s.call = 'connect' AND s.errno IN (0, 115)
    GROUP BY t.node, t.process, s.thread
),

server AS (
    SELECT t.node, t.process
    FROM sync_op AS s
    INNER JOIN thread AS t ON t.node = s.node AND t.thread = s.thread
    WHERE s.call = 'accept' AND s.errno = 0
    GROUP BY t.node, t.process
),

waits AS (
    SELECT
        s.node,
        s.thread,
        t.process,
        CASE WHEN s.kind = 'pipe' THEN s.object END AS object,
        CASE s.kind WHEN 'pipe' THEN 'pipe' ELSE 'socket' END AS kind,
        s.call,
        s.dur,
        s.ts
    FROM sync_op AS s
    INNER JOIN thread AS t ON t.node = s.node AND t.thread = s.thread
    LEFT JOIN client AS c ON c.node = t.node AND c.thread = s.thread
    LEFT JOIN server AS v ON v.node = t.node AND v.process = t.process
    WHERE s.dur IS NOT NULL
        AND (s.kind = 'pipe' OR (s.kind IN ('socket', 'poll') AND c.thread IS NOT NULL AND v.process IS NULL))
),

-- the other end of a pipe: who else named it, and in other calls
ends AS (
    SELECT node, object, process, sum(dur) AS dur
    FROM waits
    WHERE kind = 'pipe'
    GROUP BY node, object, process
),

peers AS (
    SELECT w.node, w.object, w.process, max_by(o.process, concat(lpad(CAST(o.dur AS VARCHAR), 20, '0'), CAST(o.process AS VARCHAR))) AS peer
    FROM ends AS w
    INNER JOIN ends AS o ON o.node = w.node AND o.object = w.object AND o.process <> w.process
    GROUP BY w.node, w.object, w.process
),

lone_server AS (
    SELECT node, min(process) AS process FROM server GROUP BY node HAVING count(DISTINCT process) = 1
),

per_process AS (
    SELECT
        w.node,
        w.process,
        w.kind,
        w.object,
        max_by(w.call, concat(lpad(CAST(w.dur AS VARCHAR), 20, '0'), w.call)) AS call,
        count(*) AS ops,
        CAST(sum(w.dur) AS BIGINT) AS wait_ns,
        max(w.dur) AS max_ns,
        min(w.ts) AS start_ts,
        max(w.ts + w.dur) AS end_ts
    FROM waits AS w
    GROUP BY w.node, w.process, w.kind, w.object
),

-- work_ns has what was waited for CPUs between calls already
busy AS (
    SELECT
        e.wall_ns,
        CAST(e.work_ns + greatest(0, coalesce(q.queued_ns, 0) - coalesce(e.queued_ns, 0)) AS BIGINT) AS busy_ns
    FROM effort AS e
    CROSS JOIN (SELECT sum(queued_ns) AS queued_ns FROM thread_time WHERE source = 'scheduler') AS q
),

found AS (
    SELECT
        w.node, w.process, w.kind, w.object, w.call, w.ops, w.wait_ns, w.max_ns, w.start_ts, w.end_ts,
        coalesce(p.name, 'unknown process') AS process_name,
        least(w.wait_ns, b.wall_ns - b.busy_ns) AS cost_ns,
        b.busy_ns,
        f.path,
        coalesce(r.peer, v.process) AS peer
    FROM per_process AS w
    CROSS JOIN busy AS b
    LEFT JOIN process AS p ON p.node = w.node AND p.process = w.process
    LEFT JOIN (SELECT node, file, max(path) AS path FROM file GROUP BY node, file) AS f ON f.node = w.node AND f.file = w.object
    LEFT JOIN peers AS r ON r.node = w.node AND r.process = w.process AND r.object = w.object
    LEFT JOIN lone_server AS v ON v.node = w.node AND w.kind = 'socket' AND v.process <> w.process
)

SELECT
    'slow_peer' AS finding,
    CASE
        WHEN f.cost_ns >= p.high_share * (e.work_ns + f.cost_ns) THEN 'high'
        WHEN f.cost_ns >= p.medium_share * (e.work_ns + f.cost_ns) THEN 'medium'
        ELSE 'low'
    END AS severity,
    concat(
        f.process_name, ': waits ', printf('%,.3f', CAST(f.wait_ns / 1e9 AS DECIMAL(18, 3))), ' s for ',
        CASE
            WHEN o.process IS NOT NULL THEN concat(coalesce(o.name, 'unknown process'), ' (pid ', CAST(o.pid AS VARCHAR), ') at the other end of a ')
            ELSE 'the other end of a '
        END, f.kind, ', while nobody works.'
    ) AS title,
    f.process_name AS program,
    f.process AS process,
    CAST(NULL AS BIGINT) AS thread,
    CAST(NULL AS BIGINT) AS file,
    f.ops AS ops,
    CAST(NULL AS BIGINT) AS bytes,
    f.cost_ns AS cost_ns,
    f.start_ts AS start_ts,
    f.end_ts AS end_ts,
    concat(
        printf('%,d', f.ops), ' waits in ', f.call, CASE WHEN f.path IS NULL THEN '' ELSE concat(' for ', f.path) END, ', ',
        printf('%,.1f', CAST(f.wait_ns / NULLIF(f.ops, 0) / 1e6 AS DECIMAL(18, 1))), ' ms each, the longest ',
        printf('%,.1f', CAST(f.max_ns / 1e6 AS DECIMAL(18, 1))), ' ms; all threads of the recording worked ',
        printf('%,.3f', CAST(e.work_ns / 1e9 AS DECIMAL(18, 3))), ' s of its ',
        printf('%,.3f', CAST(e.wall_ns / 1e9 AS DECIMAL(18, 3))), ' s.'
    ) AS evidence,
    concat(
        'Look at the peer: record it too (iotrail record -p PID beside it, or both under one command), and see what it ',
        'waits for. Ask for several things at once (pipelining, batches, a pool of connections, asynchronous ',
        'requests), so that waits overlap; keep the connection; cache answers.'
    ) AS advice
FROM found AS f
LEFT JOIN process AS o ON o.node = f.node AND o.process = f.peer
LEFT JOIN (
    SELECT node, process, max(wait_ns) AS wait_ns FROM per_process GROUP BY node, process
) AS n ON n.node = f.node AND n.process = f.peer
CROSS JOIN params AS p
CROSS JOIN effort AS e
WHERE f.cost_ns >= p.peer_ns
    AND f.wait_ns >= p.answer_ns * f.ops
    AND f.cost_ns >= p.min_share * (e.work_ns + f.cost_ns)
    AND 2e0 * f.busy_ns <= e.wall_ns
    AND 2e0 * coalesce(n.wait_ns, 0) < f.wait_ns

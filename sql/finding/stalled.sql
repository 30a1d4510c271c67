-- Nothing moves: for a second or more no call of any program returned though calls were in flight. The
-- storage hung, or a journal commit, a write-back of everything dirty or a lost server held up all. One
-- row a stall.
--
-- A call that only waits for data that nobody has sent yet (a pipe, a socket) is no file operation and
-- doesn't count. Lists at most the ten longest.
--
-- @param medium_share DOUBLE 0.05: share of the working time from which a finding is medium
-- @param high_share DOUBLE 0.2: share of the working time from which a finding is high
-- @param stall_ns BIGINT 1000000000 ns: time without any call returning that counts as a stall; a disk
--     needs 10 ms for a request
-- @param moving_bytes_per_s BIGINT 4194304 bytes/s: a read or write that moves this much does not hang
-- @requires call, file_op, thread, process, file, effort, unseen
WITH ends AS (
    -- Of each slice only the first and the last return matter: a gap of stall_ns reaches over a slice's edge.
    SELECT
        o.ts + o.dur - (o.ts + o.dur) % p.stall_ns AS slice,
        min(o.ts + o.dur) AS first_end,
        max(o.ts + o.dur) AS last_end
    FROM file_op AS o
    CROSS JOIN params AS p
    WHERE o.dur IS NOT NULL
    GROUP BY o.ts + o.dur - (o.ts + o.dur) % p.stall_ns
),

gaps AS (
    SELECT lag(last_end) OVER (ORDER BY slice NULLS LAST) AS last_ts, first_end AS next_ts
    FROM ends
),

long AS (
    -- What never returned hangs until its thread ends.
    SELECT
        o.node,
        o.thread,
        o.file,
        o.call,
        o.ts,
        coalesce(o.ts + o.dur, t.end_ts, e.end_ts) AS end_ts
    FROM file_op AS o
    LEFT JOIN thread AS t ON t.node = o.node AND t.thread = o.thread
    -- of a request that never completes in a trace of requests nobody knows until when it hung
    LEFT JOIN (SELECT DISTINCT node FROM unseen WHERE kind = 'between_requests') AS r ON r.node = o.node
    CROSS JOIN params AS p
    CROSS JOIN effort AS e
    LEFT JOIN call AS c ON c.call = o.call
    WHERE (o.dur IS NULL AND o.result IS NULL AND r.node IS NULL)
        OR (
            o.dur >= p.stall_ns
            AND NOT coalesce(c.kind IN ('read', 'write') AND o.result >= p.moving_bytes_per_s * (o.dur / 1e9), FALSE)
        )
),

silences AS (
    SELECT coalesce(last_ts, 0) AS last_ts, next_ts FROM gaps
    UNION ALL
    SELECT max(g.last_end), max(e.end_ts) FROM ends AS g CROSS JOIN effort AS e
    UNION ALL
    SELECT 0, max(e.end_ts) FROM effort AS e WHERE NOT EXISTS (SELECT 1 FROM ends)
),

found AS (
    SELECT
        s.next_ts AS end_ts,
        greatest(s.last_ts, min(l.ts)) AS start_ts,
        count(*) AS ops,
        max_by(
            l.call, concat(lpad(CAST(least(l.end_ts, s.next_ts) - greatest(l.ts, s.last_ts) AS VARCHAR), 20, '0'), l.call)
        ) AS call,
        CASE WHEN min(t.process) = max(t.process) THEN min(t.process) END AS process,
        CASE WHEN min(l.thread) = max(l.thread) THEN min(l.thread) END AS thread,
        CASE WHEN min(l.file) = max(l.file) THEN min(l.file) END AS file,
        min(coalesce(p.name, 'unknown process')) AS process_name,
        min(coalesce(f.path, '(unknown file)')) AS path
    FROM silences AS s
    INNER JOIN long AS l ON l.ts < s.next_ts AND l.end_ts >= s.next_ts
    CROSS JOIN params AS k
    LEFT JOIN thread AS t ON t.node = l.node AND t.thread = l.thread
    LEFT JOIN process AS p ON p.node = t.node AND p.process = t.process
    LEFT JOIN file AS f ON f.node = l.node AND f.file = l.file
    WHERE s.next_ts - greatest(l.ts, s.last_ts) >= k.stall_ns
    GROUP BY s.last_ts, s.next_ts
)

SELECT
    'stalled' AS finding,
    CASE
        WHEN f.end_ts - f.start_ts >= p.high_share * e.wall_ns THEN 'high'
        WHEN f.end_ts - f.start_ts >= p.medium_share * e.wall_ns THEN 'medium'
        ELSE 'low'
    END AS severity,
    concat(
        f.process_name, ': no I/O returns for ',
        printf('%,.3f', CAST((f.end_ts - f.start_ts) / 1e9 AS DECIMAL(18, 3))), ' s while ',
        printf('%,d', f.ops), ' calls are in flight, ', f.call, ' of ', f.path, ' among them.'
    ) AS title,
    f.process_name AS program,
    f.process AS process,
    f.thread AS thread,
    f.file AS file,
    f.ops AS ops,
    CAST(NULL AS BIGINT) AS bytes,
    f.end_ts - f.start_ts AS cost_ns,
    f.start_ts AS start_ts,
    f.end_ts AS end_ts,
    concat(
        'From ', printf('%,.3f', CAST((f.start_ts - e.start_ts) / 1e9 AS DECIMAL(18, 3))), ' s to ',
        printf('%,.3f', CAST((f.end_ts - e.start_ts) / 1e9 AS DECIMAL(18, 3))),
        ' s after the start no call on a file returned; ', printf('%,d', f.ops), ' calls hung at least ',
        printf('%,.3f', CAST(p.stall_ns / 1e9 AS DECIMAL(18, 3))), ' s of it.'
    ) AS evidence,
    concat(
        'Look at what the system did then: dmesg (hung tasks, resets, timeouts), write-back (grep ',
        'Dirty /proc/meminfo; smaller vm.dirty_bytes and vm.dirty_background_bytes), the server’s ',
        'log for NFS or Ceph (slow requests), the volume’s throttling. If it is one fsync: bound ',
        'what it has to write by flushing earlier (sync_file_range).'
    ) AS advice
FROM found AS f
CROSS JOIN params AS p
CROSS JOIN effort AS e
ORDER BY cost_ns DESC NULLS LAST
LIMIT 10

-- The files that hold a thread up longest: one row a file, with the thread that spends most of its life on it.
-- run_share is how much of the whole run that one thread spends in calls on the file: what the run could
-- gain at most if the file's I/O took no time and nothing else waited.
--
-- @materialize
-- @requires busy, thread_life, file, trail_span
-- @order io_ns DESC
-- @column file BIGINT: file
-- @column path VARCHAR: its path; null unknown
-- @column process BIGINT: process of that thread
-- @column process_name VARCHAR: name of its executable; null unknown
-- @column thread BIGINT: the thread
-- @column io_ns BIGINT ns: its time in calls on the file, each instant once
-- @column life_ns BIGINT ns: its life
-- @column life_share DOUBLE share: io_ns / life_ns
-- @column run_share DOUBLE share: io_ns / duration of the run
-- @column threads BIGINT: threads that spend time on the file
-- @column all_ns BIGINT ns: their time on it together
WITH spent AS (
    SELECT file, thread, CAST(SUM(until_ts - since_ts) AS BIGINT) AS io_ns
    FROM busy
    WHERE file IS NOT NULL
    GROUP BY file, thread
),

longest AS (
    SELECT
        file,
        MAX_BY(thread, CONCAT(LPAD(CAST(io_ns AS VARCHAR), 20, '0'), CAST(thread AS VARCHAR))) AS thread,
        MAX(io_ns) AS io_ns,
        COUNT(*) AS threads,
        CAST(SUM(io_ns) AS BIGINT) AS all_ns
    FROM spent
    GROUP BY file
)

SELECT
    l.file,
    f.path,
    t.process,
    t.process_name,
    l.thread,
    l.io_ns,
    t.life_ns,
    CAST(l.io_ns AS DOUBLE) / NULLIF(t.life_ns, 0) AS life_share,
    CAST(l.io_ns AS DOUBLE) / NULLIF(s.end_ts - s.start_ts, 0) AS run_share,
    l.threads,
    l.all_ns
FROM longest AS l
INNER JOIN thread_life AS t ON t.thread = l.thread
LEFT JOIN (
    SELECT node, file, MAX(path) AS path
    FROM file
    GROUP BY node, file
) AS f ON f.file = l.file AND f.node = t.node
CROSS JOIN trail_span AS s

-- The files that hold a thread up longest: one row a file, with the thread that spends most of its life on it.
-- The same file id on two machines is two files. run_share is how much of the whole run that one thread spends
-- in calls on the file: what the run could gain at most if the file's I/O took no time and nothing else waited.
--
-- @materialize
-- @requires busy, thread_life, file, trail_span
-- @order io_ns DESC
-- @column node VARCHAR: machine
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
        t.node,
        s.file,
        MAX_BY(s.thread, CONCAT(LPAD(CAST(s.io_ns AS VARCHAR), 20, '0'), CAST(s.thread AS VARCHAR))) AS thread,
        MAX(s.io_ns) AS io_ns,
        COUNT(*) AS threads,
        CAST(SUM(s.io_ns) AS BIGINT) AS all_ns
    FROM spent AS s
    INNER JOIN thread_life AS t ON t.thread = s.thread
    GROUP BY t.node, s.file
)

SELECT
    l.node,
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
INNER JOIN thread_life AS t ON t.node = l.node AND t.thread = l.thread
LEFT JOIN (
    SELECT node, file, MAX(path) AS path
    FROM file
    GROUP BY node, file
) AS f ON f.node = l.node AND f.file = l.file
CROSS JOIN trail_span AS s

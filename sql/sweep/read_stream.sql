-- Sequential streams of reads: what a thread reads of a file, each read beginning where its last one of that file ended.
-- A run is a part of a stream that the thread reads without reading anything else (Shen, Zhong and Li, FAST 2005, section 3). Reads by
-- mappings of memory have no calls: their streams are not here.
--
-- @requires file_op, call
-- @order ts
-- @dimension node, thread, file
-- @measure n = count(*); bytes = sum(bytes); runs = sum(runs); whole = sum(whole)
-- @column ts BIGINT ns: start of its first read
-- @column node VARCHAR: machine
-- @column thread BIGINT: thread that read
-- @column file BIGINT: file
-- @column bytes BIGINT bytes: length of the stream
-- @column n BIGINT ops: reads
-- @column runs BIGINT: runs
-- @column think_ns BIGINT ns: time between the reads of its runs; null if it has one read a run, or durations are unknown
-- @column whole BIGINT: 1 if it begins at the file's first byte and gets to its end, as a read that got less than it asked for shows; else 0
WITH reads AS (
    SELECT
        o.node,
        o.thread,
        o.file,
        o.ts,
        o.dur,
        o.trace_row,
        o.pos,
        o.result,
        o.length,
        lag(o.pos + o.result) OVER (
            PARTITION BY o.thread, o.file ORDER BY o.ts NULLS LAST, o.trace_row NULLS LAST
        ) AS last_reached
    FROM file_op AS o
    INNER JOIN call AS c ON c.call = o.call
    WHERE c.kind = 'read' AND o.pos IS NOT NULL AND o.file IS NOT NULL AND o.result >= 0
),
numbered AS (
    SELECT
        *,
        CAST(sum(CASE WHEN pos = last_reached THEN 0 ELSE 1 END) OVER (
            PARTITION BY thread, file ORDER BY ts NULLS LAST, trace_row NULLS LAST
        ) AS BIGINT) AS stream
    FROM reads
),
followed AS (
    SELECT
        *,
        lag(file) OVER w AS last_file,
        lag(stream) OVER w AS last_stream,
        lag(ts + dur) OVER w AS last_end
    FROM numbered
    WINDOW w AS (PARTITION BY thread ORDER BY ts NULLS LAST, trace_row NULLS LAST)
)
SELECT
    min(ts) AS ts,
    node,
    thread,
    file,
    CAST(sum(result) AS BIGINT) AS bytes,
    count(*) AS n,
    CAST(sum(CASE WHEN file = last_file AND stream = last_stream THEN 0 ELSE 1 END) AS BIGINT) AS runs,
    CAST(sum(CASE WHEN file = last_file AND stream = last_stream THEN ts - last_end END) AS BIGINT) AS think_ns,
    CAST(CASE
        WHEN min(pos) = 0 AND max(CASE WHEN result < length THEN 1 ELSE 0 END) = 1 THEN 1 ELSE 0
    END AS BIGINT) AS whole
FROM followed
GROUP BY node, thread, file, stream
HAVING sum(result) > 0

-- What each thread did with what it computed and waited for, as "//TRACE" annotates traces (section 4.2, Figure 7), of recordings with
-- --causal: one row a step, in order. A thread gives a signal before the call that begins then, and waits until the one ends that
-- returns then.
--
-- @requires compute, signal, wait, file_op, file, thread_life
-- @dimension node, process, process_name, rank, thread, step, call, path, kind
-- @measure n = COUNT(*); dur = CAST(SUM(dur) AS BIGINT)
-- @order thread, at_ts, place
-- @column at_ts BIGINT ns: when: its end for waits, else its start
-- @column place BIGINT: order of steps with the same at_ts
-- @column node VARCHAR: machine
-- @column process BIGINT: process
-- @column process_name VARCHAR: name of the executable
-- @column rank BIGINT: MPI rank; null none
-- @column thread BIGINT: thread
-- @column step VARCHAR: wait, compute, signal, io
-- @column dur BIGINT ns: how long it took; of compute on a CPU, or in all if that isn't known; null of signals, and of what never ended
-- @column kind VARCHAR: kind of the edge or of the wait; null for compute and io
-- @column edge BIGINT: edge; null none
-- @column call VARCHAR: name of the call; null but for io
-- @column path VARCHAR: file; null but for io, or unknown
-- @column pos BIGINT bytes: offset; null none
-- @column length BIGINT bytes: bytes asked for; null none
-- @column result BIGINT: what it returned; null none
WITH step AS (
    SELECT
        ts + COALESCE(dur, 0) AS at_ts,
        1 AS place,
        thread,
        'wait' AS step,
        dur,
        kind,
        edge,
        CAST(NULL AS VARCHAR) AS call,
        CAST(NULL AS BIGINT) AS file,
        CAST(NULL AS BIGINT) AS pos,
        CAST(NULL AS BIGINT) AS length,
        CAST(NULL AS BIGINT) AS result
    FROM wait
    UNION ALL
    SELECT
        ts AS at_ts,
        2 AS place,
        thread,
        'compute' AS step,
        COALESCE(cpu_ns, dur) AS dur,
        CAST(NULL AS VARCHAR) AS kind,
        CAST(NULL AS BIGINT) AS edge,
        CAST(NULL AS VARCHAR) AS call,
        CAST(NULL AS BIGINT) AS file,
        CAST(NULL AS BIGINT) AS pos,
        CAST(NULL AS BIGINT) AS length,
        CAST(NULL AS BIGINT) AS result
    FROM compute
    UNION ALL
    SELECT
        ts AS at_ts,
        3 AS place,
        thread,
        'signal' AS step,
        CAST(NULL AS BIGINT) AS dur,
        kind,
        edge,
        CAST(NULL AS VARCHAR) AS call,
        CAST(NULL AS BIGINT) AS file,
        CAST(NULL AS BIGINT) AS pos,
        CAST(NULL AS BIGINT) AS length,
        CAST(NULL AS BIGINT) AS result
    FROM signal
    UNION ALL
    SELECT
        ts AS at_ts,
        4 AS place,
        thread,
        'io' AS step,
        dur,
        CAST(NULL AS VARCHAR) AS kind,
        CAST(NULL AS BIGINT) AS edge,
        call,
        file,
        pos,
        length,
        result
    FROM file_op
)

SELECT
    s.at_ts,
    CAST(s.place AS BIGINT) AS place,
    t.node,
    t.process,
    t.process_name,
    t.rank,
    s.thread,
    s.step,
    s.dur,
    s.kind,
    s.edge,
    s.call,
    f.path,
    s.pos,
    s.length,
    s.result
FROM step AS s
INNER JOIN thread_life AS t ON t.thread = s.thread
LEFT JOIN (
    SELECT node, file, MAX(path) AS path
    FROM file
    GROUP BY node, file
) AS f ON f.node = t.node AND f.file = s.file

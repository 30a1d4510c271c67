-- Random or small requests in a trail without durations: an imported trace that says what was asked for, but not how
-- long it took. What they cost can't be said, so that each is of low severity and has no cost; other findings need
-- times and are silent there.
--
-- One row a program, kind (read, write) and pattern. Terms and limits are those of `finding_random_reads` and
-- `finding_small_reads`, but a request counts as small only where it isn't the one that follows the last.
--
-- @param min_ops BIGINT 1000: fewer calls are no finding (Drishti, small_requests_absolute and
--     random_operations_absolute)
-- @param random_ratio DOUBLE 0.4: share of jumps that makes a pattern random; Drishti (random_operations)
--     takes 0.2 of backward steps, and half of random steps are backward
-- @param untimed_small_bytes BIGINT 16384 bytes: requests of fewer bytes on average are small in a trace without times
-- @requires file_op, step
WITH timed AS (
    SELECT count(dur) > 0 AS timed FROM file_op
),

used AS (
    SELECT
        process_name,
        kind,
        CASE WHEN min(process) = max(process) THEN min(process) END AS process,
        CASE WHEN min(file) = max(file) THEN min(file) END AS file,
        CASE WHEN count(DISTINCT file) = 1 THEN max(path) ELSE concat(printf('%,d', count(DISTINCT file)), ' files') END
            AS place,
        CAST(sum(ops) AS BIGINT) AS ops,
        CAST(sum(jump_ops) AS BIGINT) AS jump_ops,
        CAST(sum(jump_bytes) AS BIGINT) AS jump_bytes,
        CAST(sum(consecutive_ops) AS BIGINT) AS consecutive_ops,
        CAST(sum(bytes) AS BIGINT) AS bytes,
        min(start_ts) AS start_ts,
        max(end_ts) AS end_ts
    FROM step
    GROUP BY process_name, kind
),

found AS (
    SELECT 'random' AS pattern, u.jump_ops AS some, u.jump_bytes AS some_bytes, u.*
    FROM used AS u
    CROSS JOIN params AS p
    WHERE u.jump_ops >= p.min_ops AND u.jump_ops >= p.random_ratio * u.ops
    UNION ALL
    SELECT 'small', u.ops, u.bytes, u.*
    FROM used AS u
    CROSS JOIN params AS p
    WHERE u.ops >= p.min_ops AND u.bytes < p.untimed_small_bytes * u.ops AND 2 * u.consecutive_ops >= u.ops
)

SELECT
    'untimed_access' AS finding,
    'low' AS severity,
    concat(
        f.process_name, ': ', printf('%,d', f.some), ' ', CASE f.pattern WHEN 'small' THEN 'small ' ELSE '' END, f.kind,
        's', CASE f.pattern WHEN 'small' THEN ' in order, ' ELSE ' at random places, ' END,
        printf('%,d', CAST(round(1e0 * f.some_bytes / f.some) AS BIGINT)), ' bytes on average, of ', f.place,
        '; their time is not known.'
    ) AS title,
    f.process_name AS program,
    f.process AS process,
    CAST(NULL AS BIGINT) AS thread,
    f.file AS file,
    f.some AS ops,
    f.some_bytes AS bytes,
    CAST(NULL AS BIGINT) AS cost_ns,
    f.start_ts AS start_ts,
    f.end_ts AS end_ts,
    concat(
        printf('%,d', f.some), ' of ', printf('%,d', f.ops), ' ', f.kind, 's (',
        printf('%,d', CAST(round(1e2 * f.some / f.ops) AS BIGINT)), ' %); ',
        printf('%,d', CAST(round(1e2 * f.consecutive_ops / f.ops) AS BIGINT)),
        ' % begin where the one before ended. The trace has no response times: whether this costs anything is open.'
    ) AS evidence,
    CASE f.pattern
        WHEN 'random' THEN
            'Trace again with response times (blktrace, biosnoop, strace -T) to see what they cost. A larger cache or a layout in order of access makes fewer of them.'
        ELSE
            'Trace again with response times (blktrace, biosnoop, strace -T) to see what they cost. Requests that follow each other can be merged into larger ones.'
    END AS advice
FROM found AS f
CROSS JOIN timed AS t
WHERE NOT t.timed

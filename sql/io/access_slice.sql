-- How reads and writes follow each other, and their sizes, over the run cut into slices of equal time: one row a
-- slice, kind and power of two. Slices are those of run_slice, terms those of step.
--
-- @param time_slices BIGINT 1024: slices the run is cut into
-- @requires file_op, call, thread_file, trail_span
-- @order slice, kind, size
-- @dimension slice, kind, size
-- @measure n = sum(n); placed = sum(placed); consecutive = sum(consecutive); strided = sum(strided); jump = sum(jump)
-- @column slice BIGINT: number of the slice, from 0
-- @column kind VARCHAR: read or write
-- @column size BIGINT bytes: asked for from here to below twice this; 0 asked for nothing
-- @column n BIGINT ops: operations
-- @column placed BIGINT ops: of them, those that moved bytes at a known offset after another by this thread on this file
-- @column consecutive BIGINT ops: of those, began where the one before ended
-- @column strided BIGINT ops: began elsewhere, at the same distance as the step before
-- @column jump BIGINT ops: began elsewhere, at an irregular distance
WITH access AS (
    SELECT
        c.kind,
        CAST(f.thread_file AS INTEGER) AS thread_file,
        o.ts,
        o.trace_row,
        o.length,
        CASE WHEN o.result > 0 THEN o.pos END AS pos,
        o.pos + o.result AS reached
    FROM file_op AS o
    INNER JOIN call AS c ON c.call = o.call
    INNER JOIN thread_file AS f ON f.thread = o.thread AND COALESCE(f.file, 0) = COALESCE(o.file, 0)
    WHERE c.kind IN ('read', 'write') AND o.length IS NOT NULL
),

follow AS (
    SELECT
        kind,
        ts,
        length,
        pos,
        lag(reached) OVER w AS last_reached,
        lag(pos) OVER w AS last_pos,
        lag(pos, 2) OVER w AS last_pos2
    FROM access
    -- those without a place are a line of their own, so that they part no two others
    WINDOW w AS (PARTITION BY thread_file, pos IS NULL ORDER BY ts NULLS LAST, trace_row NULLS LAST)
),

judged AS (
    SELECT
        f.kind,
        -- exact for lengths below 2^48; programs may ask for 2^63 - 1, which is 63 as DOUBLE
        CASE WHEN f.length <= 0 THEN -1 ELSE CAST(LEAST(FLOOR(LOG2(f.length)), 62) AS INTEGER) END AS octave,
        CAST(
            LEAST(
                FLOOR(CAST(f.ts - s.start_ts AS DOUBLE) * p.time_slices / GREATEST(s.end_ts - s.start_ts, 1)),
                p.time_slices - 1
            ) AS BIGINT
        ) AS slice,
        f.pos IS NOT NULL AND f.last_pos IS NOT NULL AS placed,
        f.pos = f.last_reached AS consecutive,
        COALESCE(f.pos - f.last_pos = f.last_pos - f.last_pos2, FALSE) AS even
    FROM follow AS f
    CROSS JOIN trail_span AS s
    CROSS JOIN params AS p
)

SELECT
    slice,
    kind,
    CASE WHEN octave < 0 THEN 0 ELSE CAST(POWER(2, octave) AS BIGINT) END AS size,
    COUNT(*) AS n,
    COUNT(*) FILTER (WHERE placed) AS placed,
    COUNT(*) FILTER (WHERE placed AND consecutive) AS consecutive,
    COUNT(*) FILTER (WHERE placed AND NOT consecutive AND even) AS strided,
    COUNT(*) FILTER (WHERE placed AND NOT consecutive AND NOT even) AS jump
FROM judged
GROUP BY slice, kind, octave

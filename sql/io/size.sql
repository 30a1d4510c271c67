-- Sizes of reads and writes: one row a kind, process and power of two.
-- By the bytes asked for. Calls without a length aren't in it.
--
-- @materialize
-- @param block_bytes BIGINT 4096 bytes: block of the file system, for alignment
-- @requires op
-- @order kind, process, size
-- @dimension kind, process, process_name, size
-- @measure n = sum(n); bytes = sum(bytes); asked_bytes = sum(asked_bytes); time_ns = sum(time_ns);
--     short = sum(short); unaligned = sum(unaligned)
-- @column kind VARCHAR: read or write
-- @column process BIGINT: process; null unknown
-- @column process_name VARCHAR: name of its executable; null unknown
-- @column size BIGINT bytes: sizes from here to below twice this; 0 is for calls that asked for nothing
-- @column n BIGINT ops: operations
-- @column asked_bytes BIGINT bytes: bytes they asked for
-- @column bytes BIGINT bytes: bytes they moved
-- @column time_ns BIGINT ns: time in those that returned
-- @column short BIGINT ops: moved less than they asked for, without an error
-- @column unaligned BIGINT ops: at a known offset, and that or the length is no multiple of block_bytes
SELECT
    kind,
    process,
    process_name,
    CASE WHEN octave < 0 THEN 0 ELSE CAST(POWER(2, octave) AS BIGINT) END AS size,
    CAST(SUM(n) AS BIGINT) AS n,
    CAST(SUM(asked_bytes) AS BIGINT) AS asked_bytes,
    CAST(SUM(bytes) AS BIGINT) AS bytes,
    CAST(SUM(time_ns) AS BIGINT) AS time_ns,
    CAST(SUM(short) AS BIGINT) AS short,
    CAST(SUM(unaligned) AS BIGINT) AS unaligned
FROM (
    -- few different lengths are the rule: their logarithm is taken once each
    SELECT
        o.kind,
        o.process,
        o.process_name,
        -- exact for lengths below 2^48; programs may ask for 2^63 - 1, which is 63 as DOUBLE
        CASE WHEN o.length <= 0 THEN -1 ELSE CAST(LEAST(FLOOR(LOG2(o.length)), 62) AS INTEGER) END AS octave,
        COUNT(*) AS n,
        CAST(SUM(o.length) AS BIGINT) AS asked_bytes,
        CAST(SUM(o.moved) AS BIGINT) AS bytes,
        CAST(SUM(COALESCE(o.dur, 0)) AS BIGINT) AS time_ns,
        COUNT(*) FILTER (WHERE o.errno = 0 AND o.result IS NOT NULL AND o.moved < o.length) AS short,
        COUNT(*) FILTER (WHERE o.pos % p.block_bytes <> 0 OR (o.pos >= 0 AND o.length % p.block_bytes <> 0))
            AS unaligned
    FROM op AS o
    CROSS JOIN params AS p
    WHERE o.kind IN ('read', 'write') AND o.length IS NOT NULL
    GROUP BY o.kind, o.process, o.process_name, o.length
) AS by_length
GROUP BY kind, process, process_name, octave

-- How each thread goes through each file: one row a thread, file and kind, with the name of the pattern.
-- An access is sequential if it begins where the thread's last on the file ended, strided if it is as far
-- from the last as that was from the one before, else random. The first has no predecessor and counts
-- in n only. The pattern is the largest of the three; single where there was one access. Counted by
-- module step, which says more.
--
-- @requires step
-- @order n DESC
-- @dimension kind, path, file, process, process_name, thread, pattern
-- @measure n = sum(n); bytes = sum(bytes); sequential = sum(sequential); strided = sum(strided);
--     random = sum(random); unaligned = sum(unaligned); time_ns = sum(time_ns);
--     sequential_share = CAST(sum(sequential) AS DOUBLE)
--     / NULLIF(sum(sequential) + sum(strided) + sum(random), 0)
-- @column process BIGINT: process; null unknown
-- @column process_name VARCHAR: name of its executable
-- @column thread BIGINT: thread
-- @column file BIGINT: file; null unknown
-- @column path VARCHAR: its path
-- @column kind VARCHAR: read or write
-- @column pattern VARCHAR: sequential, strided, random or single
-- @column n BIGINT ops: accesses that moved bytes
-- @column bytes BIGINT bytes: bytes they moved
-- @column time_ns BIGINT ns: time in them
-- @column sequential BIGINT ops: began where the last ended
-- @column strided BIGINT ops: at the distance of the step before
-- @column random BIGINT ops: anywhere else
-- @column unaligned BIGINT ops: strided and random ones that don't begin and end at a block's boundary
-- @column sequential_share DOUBLE share: sequential / (sequential + strided + random); null for single
SELECT
    process,
    process_name,
    thread,
    file,
    path,
    kind,
    CASE
        WHEN consecutive_ops + strided_ops + jump_ops = 0 THEN 'single'
        WHEN consecutive_ops >= strided_ops AND consecutive_ops >= jump_ops THEN 'sequential'
        WHEN strided_ops >= jump_ops THEN 'strided'
        ELSE 'random'
    END AS pattern,
    ops AS n,
    bytes,
    io_ns AS time_ns,
    consecutive_ops AS sequential,
    strided_ops AS strided,
    jump_ops AS random,
    unaligned_ops AS unaligned,
    CAST(consecutive_ops AS DOUBLE) / NULLIF(consecutive_ops + strided_ops + jump_ops, 0) AS sequential_share
FROM step

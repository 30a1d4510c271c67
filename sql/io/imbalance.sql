-- How evenly processes of one program share the work: one row a program and measure.
-- Only programs that ran as at least two processes, and of compute_ns those whose CPU time is known of all. ratio is the largest share over the mean one: 1 is
-- even, the number of processes means that one does it all.
--
-- @requires process_summary
-- @order process_name, measure
-- @dimension process_name, measure
-- @measure ratio = max(ratio); processes = max(processes)
-- @column process_name VARCHAR: program
-- @column measure VARCHAR: bytes, ops, io_ns, sync_ns, compute_ns or life_ns
-- @column processes BIGINT: processes of the program
-- @column total BIGINT: sum over them, in the measure's unit
-- @column mean DOUBLE: total / processes
-- @column least BIGINT: smallest
-- @column most BIGINT: largest
-- @column most_process BIGINT: process with the largest
-- @column most_rank BIGINT: its MPI rank; null none
-- @column ratio DOUBLE: most / mean; null where all are 0
SELECT
    process_name,
    measure,
    COUNT(*) AS processes,
    CAST(SUM(v) AS BIGINT) AS total,
    CAST(SUM(v) AS DOUBLE) / COUNT(*) AS mean,
    MIN(v) AS least,
    MAX(v) AS most,
    MAX_BY(process, CONCAT(LPAD(CAST(v AS VARCHAR), 20, '0'), CAST(process AS VARCHAR))) AS most_process,
    MAX_BY(rank, CONCAT(LPAD(CAST(v AS VARCHAR), 20, '0'), CAST(process AS VARCHAR))) AS most_rank,
    CAST(MAX(v) AS DOUBLE) * COUNT(*) / NULLIF(CAST(SUM(v) AS DOUBLE), 0) AS ratio
FROM (
    SELECT
        p.process_name,
        p.process,
        p.rank,
        m.measure,
        CASE m.measure
            WHEN 'bytes' THEN p.bytes_read + p.bytes_written
            WHEN 'ops' THEN p.n
            WHEN 'io_ns' THEN p.io_ns
            WHEN 'sync_ns' THEN p.sync_ns
            WHEN 'compute_ns' THEN p.compute_ns
            ELSE p.life_ns
        END AS v
    FROM process_summary AS p
    CROSS JOIN (
        VALUES ('bytes'), ('ops'), ('io_ns'), ('sync_ns'), ('compute_ns'), ('life_ns')
    ) AS m (measure)
) AS measured
GROUP BY process_name, measure
HAVING COUNT(*) > 1 AND COUNT(v) = COUNT(*)

-- First and last moment of the trail: one row.
-- From the lives of its processes and threads, and the calls, requests and samples in case those are missing.
--
-- @materialize
-- @requires file_op, sync_op, service_op, buffer_op, network_transmit, disk_op, cpu_slice, process, thread, clock,
--     member, node_sample, pruned
-- @column start_ts BIGINT ns: first moment; null in an empty trail
-- @column end_ts BIGINT ns: last moment; null in an empty trail
WITH edge AS (
    SELECT MIN(ts) AS first_ts, MAX(ts + COALESCE(dur, 0)) AS last_ts FROM file_op
    UNION ALL
    SELECT MIN(ts), MAX(ts + COALESCE(dur, 0)) FROM sync_op
    UNION ALL
    SELECT MIN(ts), MAX(ts + COALESCE(dur, 0)) FROM service_op
    UNION ALL
    SELECT MIN(ts), MAX(ts + COALESCE(dur, 0)) FROM buffer_op
    UNION ALL
    SELECT MIN(ts), MAX(ts + COALESCE(dur, 0)) FROM network_transmit
    UNION ALL
    SELECT MIN(ts), MAX(ts + COALESCE(dur, 0)) FROM disk_op
    UNION ALL
    SELECT MIN(ts), MAX(ts + COALESCE(dur, 0)) FROM cpu_slice
    UNION ALL
    SELECT MIN(ts), MAX(ts) FROM member
    UNION ALL
    SELECT MIN(ts), MAX(ts + COALESCE(dur, 0)) FROM node_sample
    UNION ALL
    SELECT MIN(ts), MAX(ts + dur) FROM pruned WHERE record <> 'stitch'
    UNION ALL
    SELECT MIN(start_ts), MAX(COALESCE(end_ts, start_ts)) FROM process
    UNION ALL
    SELECT MIN(start_ts), MAX(COALESCE(end_ts, start_ts)) FROM thread
    UNION ALL
    SELECT NULL, MAX(ts) FROM clock WHERE event = 'end'
)

SELECT MIN(first_ts) AS start_ts, MAX(last_ts) AS end_ts
FROM edge

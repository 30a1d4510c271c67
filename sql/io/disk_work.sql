-- What disks had to do, one row a disk: how long requests are, how far apart, how long they take, and how long there was none.
-- A request that joined another one is part of it, and one that was cut is several. Which request a disk served after which is taken
-- from when they were done.
--
-- @requires disk_op
-- @order requests DESC, node, dev
-- @column node VARCHAR: Machine
-- @column dev VARCHAR: Disk
-- @column requests BIGINT ops: Requests that the disk got and completed
-- @column bytes BIGINT bytes: Bytes of them
-- @column asked_bytes DOUBLE bytes: Mean length of what was asked for at a time, before requests joined others or were cut
-- @column request_bytes DOUBLE bytes: Mean length of a request
-- @column seek_bytes DOUBLE bytes: Mean distance from the end of a request to the begin of the next one
-- @column service_ns DOUBLE ns: Time with a request at the disk, for each request
-- @column idle_ns DOUBLE ns: Time without one, for each request
-- @column cut_into DOUBLE: Requests that what was asked for at a time became on the mean, before they joined others; 1 none was cut
-- @column most_in_flight BIGINT: Most requests that the disk had at a time, of those that were not cut, as others may rest between their
--     parts; null if all were
WITH done AS (
  SELECT node, dev, pos, length, issued, ts + dur AS ended, coalesce(requests, 1 - merged) AS requests
  FROM disk_op
  WHERE kind = 'kernel' AND dur IS NOT NULL AND issued IS NOT NULL AND length > 0
), placed AS (
  SELECT node, dev, pos, length, issued, ended, requests,
    lag(pos + length) OVER (PARTITION BY node, dev ORDER BY ended NULLS LAST, pos NULLS LAST) AS before,
    max(ended) OVER (
      PARTITION BY node, dev
      ORDER BY issued NULLS LAST, ended NULLS LAST, pos NULLS LAST
      ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) AS busy_until
  FROM done
), work AS (
  SELECT node, dev,
    CAST(sum(requests) AS BIGINT) AS requests,
    CAST(sum(length) AS BIGINT) AS bytes,
    CAST(sum(length) AS DOUBLE) / count(*) AS asked_bytes,
    CAST(sum(greatest(requests, 1)) AS DOUBLE) / count(*) AS cut_into,
    CAST(sum(abs(pos - before)) AS DOUBLE) AS distance,
    CAST(sum(CASE
      WHEN busy_until IS NULL OR busy_until <= issued THEN ended - issued
      WHEN busy_until < ended THEN ended - busy_until
      ELSE 0
    END) AS DOUBLE) AS busy_ns,
    CAST(max(ended) - min(issued) AS DOUBLE) AS whole_ns
  FROM placed
  GROUP BY node, dev
), step AS (
  SELECT node, dev, issued AS ts, 1 AS more FROM done WHERE requests = 1
  UNION ALL
  SELECT node, dev, ended AS ts, -1 AS more FROM done WHERE requests = 1
), level AS (
  SELECT node, dev,
    sum(more) OVER (
      PARTITION BY node, dev ORDER BY ts NULLS LAST, more NULLS LAST ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    ) AS in_flight
  FROM step
), most AS (
  SELECT node, dev, CAST(max(in_flight) AS BIGINT) AS most_in_flight FROM level GROUP BY node, dev
)
SELECT work.node, work.dev, requests, bytes, asked_bytes,
  CAST(bytes AS DOUBLE) / NULLIF(requests, 0) AS request_bytes,
  distance / NULLIF(requests, 0) AS seek_bytes,
  busy_ns / NULLIF(requests, 0) AS service_ns,
  (whole_ns - busy_ns) / NULLIF(requests, 0) AS idle_ns,
  cut_into,
  most_in_flight
FROM work LEFT JOIN most ON most.node = work.node AND most.dev = work.dev

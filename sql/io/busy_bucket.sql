-- Module busy summed by thread, kind and time bucket: the one pass over all calls that both time splits share.
-- A call that reaches beyond the bucket of its begin says until when; there are few of those, so the rest
-- of the work is small.
--
-- @materialize
-- @requires busy, time_bucket
-- @dimension thread, kind, waits_for
-- @measure n = sum(n); time_ns = sum(time_ns); begun_ns = sum(begun_ns)
-- @column ts BIGINT ns: start of the time bucket in which the calls begin
-- @column thread BIGINT: thread
-- @column kind VARCHAR: read, write, flush, meta, map; wait for calls that wait for something else
-- @column waits_for VARCHAR: what they wait for, as in busy; null for calls on files
-- @column until_ts BIGINT ns: end of calls that reach beyond the bucket; null for those that end in it
-- @column n BIGINT ops: calls
-- @column time_ns BIGINT ns: time they add to their thread's
-- @column begun_ns BIGINT ns: of it in this bucket
WITH piece AS (
    SELECT
        b.thread,
        b.kind,
        b.waits_for,
        b.since_ts,
        b.until_ts,
        b.since_ts - b.since_ts % w.every_ns AS ts,
        b.since_ts - b.since_ts % w.every_ns + w.every_ns AS stop_ts
    FROM busy AS b
    CROSS JOIN (SELECT MAX(every_ns) AS every_ns FROM time_bucket) AS w
)

SELECT
    ts,
    thread,
    kind,
    waits_for,
    CASE WHEN until_ts > stop_ts THEN until_ts END AS until_ts,
    COUNT(*) AS n,
    CAST(SUM(until_ts - since_ts) AS BIGINT) AS time_ns,
    CAST(SUM(LEAST(until_ts, stop_ts) - since_ts) AS BIGINT) AS begun_ns
FROM piece
GROUP BY ts, thread, kind, waits_for, CASE WHEN until_ts > stop_ts THEN until_ts END

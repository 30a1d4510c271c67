-- Steps of pruned requests as module edge names them, counted by how long they took.
--
-- @requires point_kind, step_rollup
-- @dimension from_kind, to_kind, kind, across
-- @measure n = sum(n); time_ns = sum(time_ns); critical = sum(critical); critical_ns = sum(critical_ns)
-- @column ts BIGINT ns: start of the stretch of time in which the first of the requests arrived
-- @column workload BIGINT: the requests they were steps of, see table workload; 0 none is known
-- @column from_kind BIGINT: what they start from, see point_kind
-- @column to_kind BIGINT: what they lead to
-- @column kind VARCHAR: within, the stitch they follow (rpc, split, coalesce), or back
-- @column across BOOLEAN: whether they lead to another machine
-- @column least BIGINT ns: smallest time of the histogram's bucket; null in the row that has the times of all buckets
-- @column n BIGINT ops: how often they were taken, with a time in the bucket; where that is null, with an unknown time
-- @column time_ns BIGINT ns: the times of all buckets together; null unknown, or a bucket
-- @column max_ns BIGINT ns: the largest, exact; null unknown, or a bucket
-- @column critical BIGINT ops: how often a reply waited for them last
-- @column critical_ns BIGINT ns: the time they took then
SELECT
    s.ts,
    s.workload,
    f.point_kind AS from_kind,
    t.point_kind AS to_kind,
    s.kind,
    s.across = 1 AS across,
    s.least,
    s.n,
    s.time_ns,
    s.max_ns,
    s.critical,
    s.critical_ns
FROM step_rollup AS s
INNER JOIN point_kind AS f
    ON f.record = s.from_record AND f.component = s.from_component AND f.kind = s.from_kind
    AND COALESCE(f.op, '') = COALESCE(s.from_op, '') AND COALESCE(f.place, '') = COALESCE(s.from_place, '')
    AND f.moment_number = s.from_moment AND f.node IS NULL
INNER JOIN point_kind AS t
    ON t.record = s.to_record AND t.component = s.to_component AND t.kind = s.to_kind
    AND COALESCE(t.op, '') = COALESCE(s.to_op, '') AND COALESCE(t.place, '') = COALESCE(s.to_place, '')
    AND t.moment_number = s.to_moment AND t.node IS NULL

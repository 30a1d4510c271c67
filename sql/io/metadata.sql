-- Calls on names, attributes and descriptors over time: one row a time bucket and process.
-- storm marks buckets in which they come at storm_rate a second or more and are at least half of all calls.
--
-- @materialize
-- @param storm_rate BIGINT 1000 1/s: metadata calls a second, in one process, that make a storm
-- @requires op, time_bucket
-- @order ts, process
-- @dimension process, process_name, storm
-- @measure n = sum(n); all_n = sum(all_n); opens = sum(opens); stats = sum(stats); names = sum(names);
--     directories = sum(directories); failed = sum(failed); time_ns = sum(time_ns);
--     share = CAST(sum(n) AS DOUBLE) / NULLIF(sum(all_n), 0)
-- @column ts BIGINT ns: start of the time bucket
-- @column process BIGINT: process; null unknown
-- @column process_name VARCHAR: name of its executable; null unknown
-- @column n BIGINT ops: metadata calls that began in the bucket
-- @column all_n BIGINT ops: all calls on files that began in it
-- @column opens BIGINT ops: open, creat, fopen, mkstemp
-- @column stats BIGINT ops: stat, fstat, access, statfs, readlink, xattr
-- @column names BIGINT ops: rename, unlink, link, symlink, mkdir, rmdir, mknod
-- @column directories BIGINT ops: opendir, readdir, closedir
-- @column failed BIGINT ops: metadata calls that failed
-- @column time_ns BIGINT ns: time in metadata calls
-- @column rate DOUBLE 1/s: metadata calls a second
-- @column share DOUBLE share: n / all_n
-- @column storm BOOLEAN: whether this is a storm
SELECT
    c.ts,
    c.process,
    c.process_name,
    c.n,
    c.all_n,
    c.opens,
    c.stats,
    c.names,
    c.directories,
    c.failed,
    c.time_ns,
    CAST(c.n AS DOUBLE) * 1000000000 / w.every_ns AS rate,
    CAST(c.n AS DOUBLE) / c.all_n AS share,
    CAST(c.n AS DOUBLE) * 1000000000 / w.every_ns >= (SELECT storm_rate FROM params) AND c.n * 2 >= c.all_n
        AS storm
FROM (
    SELECT
        ts - ts % (SELECT MAX(every_ns) FROM time_bucket) AS ts,
        process,
        process_name,
        COUNT(*) FILTER (WHERE kind = 'meta') AS n,
        COUNT(*) AS all_n,
        COUNT(*) FILTER (WHERE call IN ('open', 'creat', 'fopen', 'mkstemp')) AS opens,
        COUNT(*) FILTER (WHERE call IN ('stat', 'fstat', 'access', 'statfs', 'readlink', 'xattr')) AS stats,
        COUNT(*) FILTER (
            WHERE call IN ('rename', 'unlink', 'link', 'symlink', 'mkdir', 'rmdir', 'mknod')
        ) AS names,
        COUNT(*) FILTER (WHERE call IN ('opendir', 'readdir', 'closedir')) AS directories,
        COUNT(*) FILTER (WHERE kind = 'meta' AND errno <> 0) AS failed,
        CAST(SUM(CASE WHEN kind = 'meta' THEN COALESCE(dur, 0) ELSE 0 END) AS BIGINT) AS time_ns
    FROM op
    GROUP BY ts - ts % (SELECT MAX(every_ns) FROM time_bucket), process, process_name
) AS c
CROSS JOIN (SELECT MAX(every_ns) AS every_ns FROM time_bucket) AS w
WHERE c.n > 0

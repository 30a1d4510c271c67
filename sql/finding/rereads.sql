-- The same data read more than once: a cache in front of the storage (in the program, or on the node)
-- would have served it. The kernel's page cache does so while memory lasts; with O_DIRECT, on a network
-- file system or beyond memory each read goes to the storage again.
--
-- Counted in bytes and exactly, for all programs together (module `reread`), then put down to the program
-- that read most of the file. The cost is the file's reading time in the same share. What a cache has to
-- hold comes from module `cache`. Drishti: P09.
--
-- @param min_share DOUBLE 0.01: a smaller share of the working time is no finding
-- @param medium_share DOUBLE 0.05: share of the working time from which a finding is medium
-- @param high_share DOUBLE 0.2: share of the working time from which a finding is high
-- @param reread_ratio DOUBLE 0.5: share of the bytes read from a file that were read before, from which it
--     counts; Drishti (P09) compares with the highest offset
-- @param reread_bytes BIGINT 1048576 bytes: fewer bytes read again are no finding
-- @requires reread, cache, activity, effort
WITH readers AS (
    SELECT node, file, process_name, min(process) AS process_min, max(process) AS process_max,
        CAST(sum(bytes) AS BIGINT) AS bytes, min(start_ts) AS start_ts, max(end_ts) AS end_ts
    FROM activity
    WHERE kind = 'read'
    GROUP BY node, file, process_name
),

per_file AS (
    SELECT
        r.file,
        r.path,
        r.n,
        r.bytes,
        r.again_bytes,
        CAST(floor(r.time_ns * r.again_share) AS BIGINT) AS cost_ns,
        max_by(a.process_name, concat(lpad(CAST(a.bytes AS VARCHAR), 20, '0'), a.process_name)) AS process_name,
        min(a.process_min) AS process_min,
        max(a.process_max) AS process_max,
        min(a.start_ts) AS start_ts,
        max(a.end_ts) AS end_ts
    FROM reread AS r
    INNER JOIN readers AS a ON a.node = r.node AND a.file = r.file
    WHERE r.again_share >= (SELECT reread_ratio FROM params)
    GROUP BY r.node, r.file, r.path, r.n, r.bytes, r.again_bytes, r.again_share, r.time_ns
),

found AS (
    SELECT
        process_name,
        CASE WHEN min(process_min) = max(process_max) THEN min(process_min) END AS process,
        CASE
            WHEN 2 * max(cost_ns) >= sum(cost_ns)
                THEN max_by(file, concat(lpad(CAST(cost_ns AS VARCHAR), 20, '0'), coalesce(path, '')))
        END AS file,
        CASE
            WHEN count(*) = 1 THEN coalesce(max(path), '(unknown file)')
            ELSE concat(
                printf('%,d', count(*)), ' files, most in ',
                coalesce(
                    max_by(path, concat(lpad(CAST(cost_ns AS VARCHAR), 20, '0'), coalesce(path, ''))), '(unknown file)'
                )
            )
        END AS place,
        CAST(sum(n) AS BIGINT) AS ops,
        CAST(sum(bytes) AS BIGINT) AS bytes,
        CAST(sum(again_bytes) AS BIGINT) AS again_bytes,
        CAST(sum(cost_ns) AS BIGINT) AS cost_ns,
        min(start_ts) AS start_ts,
        max(end_ts) AS end_ts
    FROM per_file
    GROUP BY process_name
),

-- the smallest cache that serves nearly what the largest does
enough AS (
    SELECT min(c.size) AS size, max(m.most) AS most
    FROM cache AS c
    INNER JOIN (SELECT node, max(hit_bytes) AS most FROM cache GROUP BY node) AS m ON m.node = c.node
    WHERE c.hit_bytes >= 0.9 * m.most
)

SELECT
    'rereads' AS finding,
    CASE
        WHEN f.cost_ns >= p.high_share * e.work_ns THEN 'high'
        WHEN f.cost_ns >= p.medium_share * e.work_ns THEN 'medium'
        ELSE 'low'
    END AS severity,
    concat(
        f.process_name, ': ', printf('%,.1f', CAST(f.again_bytes / 1048576e0 AS DECIMAL(18, 1))), ' MiB of ',
        printf('%,.1f', CAST(f.bytes / 1048576e0 AS DECIMAL(18, 1))), ' MiB read from ', f.place,
        ' had been read before, which takes ',
        printf('%,d', CAST(round(1e2 * f.cost_ns / e.work_ns) AS BIGINT)), ' % of the working time.'
    ) AS title,
    f.process_name AS program,
    f.process AS process,
    CAST(NULL AS BIGINT) AS thread,
    f.file AS file,
    f.ops AS ops,
    f.again_bytes AS bytes,
    f.cost_ns AS cost_ns,
    f.start_ts AS start_ts,
    f.end_ts AS end_ts,
    concat(
        printf('%,d', f.ops), ' reads for ',
        printf('%,.1f', CAST((f.bytes - f.again_bytes) / 1048576e0 AS DECIMAL(18, 1))),
        ' MiB of different data; ',
        CASE
            WHEN c.most > 0
                THEN concat(
                    'a cache of ', printf('%,.1f', CAST(c.size / 1048576e0 AS DECIMAL(18, 1))),
                    ' MiB would serve 90 % of what any can; '
                )
            ELSE ''
        END,
        printf('%,.3f', CAST(f.cost_ns / 1e9 AS DECIMAL(18, 3))), ' s for what was known.'
    ) AS evidence,
    concat(
        'Keep what was read: a larger cache of the program (PostgreSQL: shared_buffers, SQLite: ',
        'PRAGMA cache_size and mmap_size, RocksDB: block_cache), the result instead of the input, ',
        'one pass over the data instead of several. Without a cache of its own a program should not ',
        'use O_DIRECT. Epochs over a data set: copy it to node-local storage or memory first.'
    ) AS advice
FROM found AS f
CROSS JOIN params AS p
CROSS JOIN effort AS e
CROSS JOIN enough AS c
WHERE f.again_bytes >= p.reread_bytes
    AND f.cost_ns >= p.min_share * e.work_ns

-- What each program's patterns of I/O cost, over all its files: one row a program (processes of one name) and pattern.
-- The base of the findings that are about a program: they say which row is bad, how bad, and what to do.
--
-- A pattern is a set of calls (`ops`) on the files that show it, to be weighed against the calls it is among or
-- belongs to (`all_ops`):
--
--     pattern                           ops; all_ops; part_ops, part_ns; which files
--     small_reads, small_writes         moved less than small_bytes; reads or writes, stdio's left out
--     random_reads, random_writes       jumps (module step); reads or writes
--     backward_reads                    begin before the one before began; reads
--     unaligned_reads, unaligned_writes jumps and strides off the blocks' boundaries; reads or writes
--     strided                           strides; accesses of threads to files that have any
--     mixed                             accesses after one of the other kind; accesses; part_ops: reads. Files whose
--                                       accesses switch in switch_ratio, half of them not to write back
--     modified                          writes back of what was just read; writes of threads to files that
--                                       have any
--     retried                           ask for the rest of a short one; accesses of threads to files that
--                                       have any
--     overwritten                       writes; the same. Files with overwrite_ratio times the bytes that end up in them
--     direct                            small reads and writes; all; part_ops: unaligned. Files opened with
--                                       O_DIRECT
--     synchronous                       writes; the same. Files opened with O_SYNC or O_DSYNC
--     flush                             fsync and the like; writes. Files with any flush
--     flush_per_write                   the same. Files written with a flush for at least every second write
--     stdio, stdio_flush                reads and writes of stdio's buffers, or fflush; calls of the program
--     random_stdio                      jumps; reads; the cost with fseek's. Files of which half of the reads fill the
--                                       buffer of a stream, and half jump
--     system_sync                       sync; the same
--     seek                              lseek and fseek; reads and writes. Files with any seek
--     eof                               reads that return nothing; reads. Files where they are half or more
--     metadata                          names, attributes, descriptors; all calls
--     slow_metadata                     open, close, stat and the like; the same; part_ns: close. Files where they take
--                                       slow_ns on average, if slow_share of the program's on their mount are on
--                                       such files: fewer were held up by something else
--     small_files                       all calls; the same; part_ns: names and attributes. Files opened and of
--                                       which small_file_bytes or less were moved
--     reopened                          opens; the same; their cost with close, but for the first of each
--                                       process. Files opened reopen_times by a process
--     stat                              stat, fstat, access that succeed; all. Files asked about stat_times by a process
--     rewritten                         opens that empty; with them write and close, as in the cost. Files
--                                       emptied rewrite_times, written and not renamed
--     temporary                         all calls; the same; part_ns: flushes. Files created, written and removed
--                                       that nobody read, mapped, renamed, linked or ran
--
-- @materialize
-- @param switch_ratio DOUBLE 0.2: share of accesses that follow one of the other kind from which reads and
--     writes count as mixed
-- @param overwrite_ratio DOUBLE 2: bytes written for each byte that ends up in the file, from which it is a
--     finding
-- @param slow_ns BIGINT 1000000 ns: a call for names and attributes that takes this long on average is slow
-- @param slow_share DOUBLE 0.05: share of a program's calls for names and attributes on one mount that are on slow
--     files, below which something else held these up: no CPU was free, or others' requests came first
-- @param small_file_bytes BIGINT 65536 bytes: a file of which at most this much was moved is small
-- @param reopen_times BIGINT 10: opens of one file by one process from which they count as repeated
-- @param stat_times BIGINT 10: questions for the attributes of one file by one process from which they
--     count as repeated
-- @param rewrite_times BIGINT 10: truncating opens of one file from which it counts as rewritten
-- @requires activity, footprint, mount_file, process, step
-- @order cost_ns DESC
-- @dimension pattern, process_name
-- @measure ops = sum(ops); bytes = sum(bytes); cost_ns = sum(cost_ns)
-- @column process_name VARCHAR: program; 'unknown process' without a name
-- @column pattern VARCHAR: pattern, as listed above
-- @column process BIGINT: its process; null several or unknown
-- @column file BIGINT: file with at least half of the cost; null none
-- @column place VARCHAR: path of the file, or how many files and the path of the one that costs most
-- @column files BIGINT: files
-- @column ops BIGINT ops: calls of the pattern
-- @column all_ops BIGINT ops: calls they are among
-- @column bytes BIGINT bytes: moved by the calls of the pattern; for modified, retried and mixed by all_ops;
--     written for flushes, rewritten and temporary; read and written for small_files; 0 for others that move none
-- @column touched_bytes BIGINT bytes: blocks that unaligned ones touch; different bytes that overwritten files have
--     of it; null for others
-- @column part_ops BIGINT ops: part of the calls as listed above; null for others
-- @column part_ns BIGINT ns: part of cost_ns as listed above; null for others
-- @column consecutive_share DOUBLE share: for small_reads and small_writes, reads or writes of the program that
--     begin where the thread's access before ended; 0 if no place is known, null for others
-- @column cost_ns BIGINT ns: time the pattern takes
-- @column start_ts BIGINT ns: start of the first call
-- @column end_ts BIGINT ns: end of the last call
WITH unread AS (
    SELECT a.node, a.file
    FROM activity AS a
    ANTI JOIN process AS r ON r.exe = a.path
    GROUP BY a.node, a.file
    HAVING sum(a.creates) > 0
        AND sum(CASE WHEN a.call = 'unlink' THEN a.ops - a.failed ELSE 0 END) > 0
        AND sum(CASE WHEN a.kind = 'write' THEN a.bytes ELSE 0 END) > 0
        AND sum(CASE WHEN a.kind IN ('read', 'map') OR a.call IN ('rename', 'link') THEN a.ops ELSE 0 END) = 0
),

called AS (
    SELECT
        CASE kind WHEN 'read' THEN 'small_reads' ELSE 'small_writes' END AS pattern, process_name, process, file, path,
        small_ops AS ops, ops AS all_ops, small_bytes AS bytes, CAST(NULL AS BIGINT) AS touched_bytes,
        CAST(NULL AS BIGINT) AS part_ops, CAST(NULL AS BIGINT) AS part_ns, small_ns AS cost_ns,
        0 AS mark, start_ts, end_ts
    FROM activity
    WHERE kind IN ('read', 'write') AND call NOT IN ('fread', 'fwrite')
    UNION ALL
    SELECT
        CASE kind WHEN 'read' THEN 'random_reads' ELSE 'random_writes' END, process_name, process, file, path,
        jump_ops, ops, jump_bytes, NULL, NULL, NULL, jump_ns, 0, start_ts, end_ts
    FROM step
    UNION ALL
    SELECT
        'backward_reads', process_name, process, file, path,
        backward_ops, ops, backward_bytes, NULL, NULL, NULL, backward_ns, 0, start_ts, end_ts
    FROM step
    WHERE kind = 'read'
    UNION ALL
    SELECT
        CASE kind WHEN 'read' THEN 'unaligned_reads' ELSE 'unaligned_writes' END, process_name, process, file, path,
        unaligned_ops, ops, unaligned_bytes, unaligned_touched, NULL, NULL, unaligned_ns, 0, start_ts, end_ts
    FROM step
    UNION ALL
    SELECT
        'strided', process_name, process, file, path,
        strided_ops, ops, strided_bytes, NULL, NULL, NULL, strided_ns, 0, start_ts, end_ts
    FROM step
    WHERE strided_ops > 0
    UNION ALL
    SELECT
        'modified', process_name, process, file, path,
        modify_ops, ops, bytes, NULL, NULL, NULL, modify_ns, 0, start_ts, end_ts
    FROM step
    WHERE modify_ops > 0
    UNION ALL
    SELECT
        'retried', process_name, process, file, path,
        retry_ops, ops, bytes, NULL, NULL, NULL, retry_ns, 0, start_ts, end_ts
    FROM step
    WHERE retry_ops > 0
    UNION ALL
    SELECT
        'mixed', process_name, process, file, path,
        switch_ops, ops, bytes, NULL, CASE kind WHEN 'read' THEN ops ELSE 0 END, NULL, io_ns, modify_ops,
        start_ts, end_ts
    FROM step
    UNION ALL
    -- the different bytes of a file, put down to its writers by their share of the bytes written
    SELECT
        'overwritten', s.process_name, s.process, s.file, s.path,
        s.ops, s.ops, s.bytes, CAST(floor(1e0 * d.distinct_bytes * s.bytes / d.bytes) AS BIGINT), NULL, NULL,
        CAST(floor(s.io_ns * (1 - 1e0 * d.distinct_bytes / d.bytes)) AS BIGINT), 0, s.start_ts, s.end_ts
    FROM step AS s
    INNER JOIN footprint AS d ON d.node = s.node AND d.file = s.file AND d.kind = s.kind
    WHERE s.kind = 'write'
    UNION ALL
    SELECT
        'direct', process_name, process, file, path,
        small_ops, CASE WHEN kind IN ('read', 'write') THEN ops ELSE 0 END, small_bytes, NULL, unaligned_ops, NULL,
        small_ns, direct_opens, start_ts, end_ts
    FROM activity
    WHERE kind IN ('read', 'write') OR call = 'open'
    UNION ALL
    SELECT
        'synchronous', process_name, process, file, path,
        CASE kind WHEN 'write' THEN ops ELSE 0 END, CASE kind WHEN 'write' THEN ops ELSE 0 END,
        CASE kind WHEN 'write' THEN bytes ELSE 0 END, NULL, NULL, NULL, CASE kind WHEN 'write' THEN io_ns ELSE 0 END,
        sync_opens, start_ts, end_ts
    FROM activity
    WHERE kind = 'write' OR call = 'open'
    UNION ALL
    SELECT
        v.pattern, a.process_name, a.process, a.file, a.path,
        CASE a.kind WHEN 'write' THEN 0 ELSE a.ops END, CASE a.kind WHEN 'write' THEN a.ops ELSE 0 END,
        CASE a.kind WHEN 'write' THEN a.bytes ELSE 0 END, NULL, NULL, NULL,
        CASE a.kind WHEN 'write' THEN 0 ELSE a.io_ns END, 0, a.start_ts, a.end_ts
    FROM activity AS a
    CROSS JOIN (VALUES ('flush'), ('flush_per_write')) AS v (pattern)
    WHERE a.kind = 'write' OR a.call IN ('fsync', 'fdatasync', 'sync_file_range', 'msync')
    UNION ALL
    SELECT
        CASE call WHEN 'fflush' THEN 'stdio_flush' WHEN 'sync' THEN 'system_sync' ELSE 'stdio' END,
        process_name, process, file, path,
        ops, calls, bytes, NULL, NULL, NULL, io_ns, 0, start_ts, end_ts
    FROM activity
    WHERE call IN ('fread', 'fwrite', 'fflush', 'sync')
    UNION ALL
    SELECT
        'random_stdio', process_name, process, file, path,
        jump_ops, ops, jump_bytes, NULL, NULL, NULL, jump_ns, 0, start_ts, end_ts
    FROM step
    WHERE kind = 'read'
    UNION ALL
    SELECT
        'random_stdio', process_name, process, file, path,
        0, 0, 0, NULL, NULL, NULL, CASE call WHEN 'fseek' THEN io_ns ELSE 0 END, CASE call WHEN 'fread' THEN ops ELSE 0 END,
        start_ts, end_ts
    FROM activity
    WHERE call IN ('fread', 'fseek')
    UNION ALL
    SELECT
        'seek', process_name, process, file, path,
        CASE kind WHEN 'meta' THEN ops ELSE 0 END, CASE kind WHEN 'meta' THEN 0 ELSE ops END, 0, NULL, NULL, NULL,
        CASE kind WHEN 'meta' THEN io_ns ELSE 0 END, 0, start_ts, end_ts
    FROM activity
    WHERE kind IN ('read', 'write') OR call IN ('lseek', 'fseek')
    UNION ALL
    SELECT
        'eof', process_name, process, file, path,
        eof_ops, ops, 0, NULL, NULL, NULL, eof_ns, 0, start_ts, end_ts
    FROM activity
    WHERE kind = 'read'
    UNION ALL
    SELECT
        'metadata', process_name, process, file, path,
        CASE kind WHEN 'meta' THEN ops ELSE 0 END, ops, 0, NULL, NULL, NULL,
        CASE kind WHEN 'meta' THEN io_ns ELSE 0 END, 0, start_ts, end_ts
    FROM activity
    UNION ALL
    SELECT
        'slow_metadata', process_name, process, file, path,
        ops, ops, 0, NULL, NULL, CASE WHEN call IN ('close', 'fclose') THEN io_ns ELSE 0 END, io_ns, 0, start_ts, end_ts
    FROM activity
    WHERE call IN (
            'open', 'creat', 'fopen', 'close', 'fclose', 'stat', 'fstat', 'access', 'rename', 'unlink', 'mkdir',
            'opendir'
        )
    UNION ALL
    SELECT
        'small_files', process_name, process, file, path,
        ops, ops, CASE WHEN kind IN ('read', 'write') THEN bytes ELSE 0 END, NULL, NULL,
        CASE kind WHEN 'meta' THEN io_ns ELSE 0 END, io_ns,
        CASE WHEN call IN ('open', 'creat', 'fopen') THEN ops - failed ELSE 0 END, start_ts, end_ts
    FROM activity
    WHERE file IS NOT NULL
    UNION ALL
    SELECT
        'reopened', process_name, process, file, path,
        opens, opens, 0, NULL, NULL, NULL, CAST(floor(1e0 * io_ns * (opens - 1) / opens) AS BIGINT), 0, start_ts, end_ts
    FROM (
        SELECT
            process_name, process, file, path,
            CAST(sum(CASE WHEN call IN ('close', 'fclose') THEN 0 ELSE ops - failed END) AS BIGINT) AS opens,
            CAST(sum(io_ns) AS BIGINT) AS io_ns, min(start_ts) AS start_ts, max(end_ts) AS end_ts
        FROM activity
        WHERE call IN ('open', 'creat', 'fopen', 'close', 'fclose') AND file IS NOT NULL
        GROUP BY process_name, process, file, path
    ) AS opened
    WHERE opens >= (SELECT reopen_times FROM params)
    UNION ALL
    SELECT
        'stat', process_name, process, file, path,
        CAST(sum(ops - failed) AS BIGINT), CAST(sum(ops) AS BIGINT), 0, NULL, NULL, NULL, CAST(sum(io_ns) AS BIGINT), 0,
        min(start_ts), max(end_ts)
    FROM activity
    WHERE call IN ('stat', 'fstat', 'access') AND file IS NOT NULL
    GROUP BY process_name, process, file, path
    HAVING sum(ops - failed) >= (SELECT stat_times FROM params)
    UNION ALL
    SELECT
        'rewritten', process_name, process, file, path,
        truncates, ops, CASE kind WHEN 'write' THEN bytes ELSE 0 END, NULL, NULL, NULL, io_ns,
        CASE call WHEN 'rename' THEN ops ELSE 0 END, start_ts, end_ts
    FROM activity
    WHERE file IS NOT NULL AND (call IN ('open', 'creat', 'fopen', 'close', 'fclose', 'rename') OR kind = 'write')
    UNION ALL
    SELECT
        'temporary', a.process_name, a.process, a.file, a.path,
        a.ops, a.ops, a.bytes, NULL, NULL, CASE a.kind WHEN 'flush' THEN a.io_ns ELSE 0 END, a.io_ns, 0,
        a.start_ts, a.end_ts
    FROM activity AS a
    SEMI JOIN unread AS u ON u.node = a.node AND u.file = a.file
),

per_file AS (
    SELECT
        pattern,
        process_name,
        file,
        path,
        min(process) AS process_min,
        max(process) AS process_max,
        CAST(sum(ops) AS BIGINT) AS ops,
        CAST(sum(all_ops) AS BIGINT) AS all_ops,
        CAST(sum(bytes) AS BIGINT) AS bytes,
        CAST(sum(touched_bytes) AS BIGINT) AS touched_bytes,
        CAST(sum(part_ops) AS BIGINT) AS part_ops,
        CAST(sum(part_ns) AS BIGINT) AS part_ns,
        CAST(sum(cost_ns) AS BIGINT) AS cost_ns,
        CAST(sum(mark) AS BIGINT) AS mark,
        min(start_ts) AS start_ts,
        max(end_ts) AS end_ts
    FROM called
    GROUP BY pattern, process_name, file, path
),

slow AS (
    SELECT
        f.*,
        sum(f.ops) OVER one AS mount_ops,
        sum(CASE WHEN f.cost_ns >= p.slow_ns * f.ops THEN f.ops ELSE 0 END) OVER one AS slow_ops
    FROM per_file AS f
    CROSS JOIN params AS p
    LEFT JOIN (SELECT file, max(point) AS point FROM mount_file GROUP BY file) AS m ON m.file = f.file
    WHERE f.pattern = 'slow_metadata'
    WINDOW one AS (PARTITION BY f.process_name, m.point)
),

weighed AS (
    SELECT *, 0 AS mount_ops, 0 AS slow_ops
    FROM per_file
    WHERE pattern <> 'slow_metadata'
    UNION ALL
    SELECT * FROM slow
),

-- mark counts opens that make a file direct, synchronous or of its own; renames, or writes back, that take it out
shown AS (
    SELECT f.*, concat(lpad(CAST(f.cost_ns AS VARCHAR), 20, '0'), f.path) AS weight
    FROM weighed AS f
    CROSS JOIN params AS p
    WHERE CASE f.pattern
        WHEN 'mixed' THEN f.ops >= p.switch_ratio * f.all_ops AND 2 * f.mark < f.ops
        WHEN 'overwritten' THEN f.bytes >= p.overwrite_ratio * f.touched_bytes
        WHEN 'direct' THEN f.mark > 0
        WHEN 'synchronous' THEN f.mark > 0
        WHEN 'flush' THEN f.ops > 0
        WHEN 'flush_per_write' THEN 2 * f.ops >= f.all_ops AND f.all_ops > 0
        WHEN 'seek' THEN f.ops > 0
        WHEN 'random_stdio' THEN 2 * f.ops >= f.all_ops AND 2 * f.mark >= f.all_ops AND f.mark > 0
        WHEN 'eof' THEN 2 * f.ops >= f.all_ops
        WHEN 'slow_metadata' THEN f.cost_ns >= p.slow_ns * f.ops AND f.slow_ops >= p.slow_share * f.mount_ops
        WHEN 'small_files' THEN f.mark > 0 AND f.bytes BETWEEN 1 AND p.small_file_bytes
        WHEN 'rewritten' THEN f.ops >= p.rewrite_times AND f.bytes > 0 AND f.mark = 0
        ELSE TRUE
    END
),

summed AS (
    SELECT
        process_name,
        pattern,
        CASE WHEN min(process_min) = max(process_max) THEN min(process_min) END AS process,
        CASE WHEN 2 * max(cost_ns) >= sum(cost_ns) THEN max_by(file, weight) END AS file,
        CASE
            WHEN count(*) = 1 THEN max(path)
            ELSE concat(printf('%,d', count(*)), ' files, most in ', max_by(path, weight))
        END AS place,
        count(*) AS files,
        CAST(sum(ops) AS BIGINT) AS ops,
        CAST(sum(all_ops) AS BIGINT) AS all_ops,
        CAST(sum(bytes) AS BIGINT) AS bytes,
        CAST(sum(touched_bytes) AS BIGINT) AS touched_bytes,
        CAST(sum(part_ops) AS BIGINT) AS part_ops,
        CAST(sum(part_ns) AS BIGINT) AS part_ns,
        CAST(sum(cost_ns) AS BIGINT) AS cost_ns,
        min(start_ts) AS start_ts,
        max(end_ts) AS end_ts
    FROM shown
    GROUP BY process_name, pattern
),

consecutive AS (
    SELECT
        process_name,
        CASE kind WHEN 'read' THEN 'small_reads' ELSE 'small_writes' END AS pattern,
        CAST(sum(consecutive_ops) AS DOUBLE) / NULLIF(sum(ops), 0) AS share
    FROM step
    GROUP BY process_name, kind
)

SELECT
    s.process_name,
    s.pattern,
    s.process,
    s.file,
    s.place,
    s.files,
    s.ops,
    s.all_ops,
    s.bytes,
    s.touched_bytes,
    s.part_ops,
    s.part_ns,
    CASE WHEN s.pattern IN ('small_reads', 'small_writes') THEN coalesce(c.share, 0) END AS consecutive_share,
    s.cost_ns,
    s.start_ts,
    s.end_ts
FROM summed AS s
LEFT JOIN consecutive AS c ON c.process_name = s.process_name AND c.pattern = s.pattern

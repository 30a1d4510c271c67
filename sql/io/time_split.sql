-- Where each thread's life went: computing, in file I/O, waiting for something else; one row a thread.
-- Each instant counts once: where calls nest (a barrier of MPI that reads a socket), the outermost wins.
-- compute is the rest of the life: calls the recorder doesn't see and page faults of mapped files are
-- in it. An unfinished call lasts until its thread ends.
--
-- @materialize
-- @requires busy_bucket, thread_life
-- @dimension node, process, process_name, rank
-- @measure life_ns = sum(life_ns); compute_ns = sum(compute_ns); io_ns = sum(io_ns);
--     sync_ns = sum(sync_ns); read_ns = sum(read_ns); write_ns = sum(write_ns); flush_ns = sum(flush_ns);
--     meta_ns = sum(meta_ns); io_share = CAST(sum(io_ns) AS DOUBLE) / NULLIF(sum(life_ns), 0);
--     sync_share = CAST(sum(sync_ns) AS DOUBLE) / NULLIF(sum(life_ns), 0)
-- @column node VARCHAR: machine
-- @column process BIGINT: its process
-- @column process_name VARCHAR: name of the executable
-- @column rank BIGINT: MPI rank; null none
-- @column thread BIGINT: thread
-- @column thread_name VARCHAR: name; null none given
-- @column start_ts BIGINT ns: when it began
-- @column end_ts BIGINT ns: when it ended, or recording did
-- @column life_ns BIGINT ns: time between: compute_ns + io_ns + sync_ns
-- @column compute_ns BIGINT ns: time in no recorded call
-- @column io_ns BIGINT ns: time in file calls: read_ns + write_ns + flush_ns + meta_ns (map is in meta)
-- @column sync_ns BIGINT ns: time waiting for locks, sockets, processes …
-- @column read_ns BIGINT ns: time reading
-- @column write_ns BIGINT ns: time writing
-- @column flush_ns BIGINT ns: time making data durable
-- @column meta_ns BIGINT ns: time with names, attributes, descriptors and mappings
-- @column io_share DOUBLE share: io_ns / life_ns; null for a life of no length
-- @column sync_share DOUBLE share: sync_ns / life_ns; null for a life of no length
SELECT
    t.node,
    t.process,
    t.process_name,
    t.rank,
    t.thread,
    t.thread_name,
    t.start_ts,
    t.end_ts,
    t.life_ns,
    t.life_ns - COALESCE(b.io_ns, 0) - COALESCE(b.sync_ns, 0) AS compute_ns,
    COALESCE(b.io_ns, 0) AS io_ns,
    COALESCE(b.sync_ns, 0) AS sync_ns,
    COALESCE(b.read_ns, 0) AS read_ns,
    COALESCE(b.write_ns, 0) AS write_ns,
    COALESCE(b.flush_ns, 0) AS flush_ns,
    COALESCE(b.meta_ns, 0) AS meta_ns,
    CAST(COALESCE(b.io_ns, 0) AS DOUBLE) / NULLIF(t.life_ns, 0) AS io_share,
    CAST(COALESCE(b.sync_ns, 0) AS DOUBLE) / NULLIF(t.life_ns, 0) AS sync_share
FROM thread_life AS t
LEFT JOIN (
    SELECT
        thread,
        CAST(SUM(time_ns) FILTER (WHERE kind <> 'wait') AS BIGINT) AS io_ns,
        CAST(SUM(time_ns) FILTER (WHERE kind = 'wait') AS BIGINT) AS sync_ns,
        CAST(SUM(time_ns) FILTER (WHERE kind = 'read') AS BIGINT) AS read_ns,
        CAST(SUM(time_ns) FILTER (WHERE kind = 'write') AS BIGINT) AS write_ns,
        CAST(SUM(time_ns) FILTER (WHERE kind = 'flush') AS BIGINT) AS flush_ns,
        CAST(SUM(time_ns) FILTER (WHERE kind IN ('meta', 'map')) AS BIGINT) AS meta_ns
    FROM busy_bucket
    GROUP BY thread
) AS b ON b.thread = t.thread

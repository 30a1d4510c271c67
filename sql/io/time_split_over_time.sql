-- Where each thread's time went, over time: one row a thread and time bucket of its life.
-- Idle buckets included. Each instant counts once: the outermost call has it, and between calls the thread's CPU
-- clock says how much was computing. A call over several buckets counts in each with the part that lies in it.
--
-- CPU time is from table thread_time: what a thread read from its own clock at calls, spread over the time between
-- its calls; where it read nothing (killed, no recorder in it) what the scheduler said, or cpu_slice where the kernel
-- was recorded: what lies in no call of its slices, and as waiting for a CPU the time after those that ended runnable. Off the CPU and in no call a thread waited for a CPU (all of the time if it never gave its CPU away by
-- itself, else at most what the scheduler says), or for storage in page faults (the share of major faults in how often
-- it gave its CPU away; the kernel doesn't measure their time), and the rest is not known. Where nothing is known of a
-- thread's CPU time compute_ns, queued_ns and fault_ns are null and all its time between calls is unknown_ns. fault_ns
-- is null too where the thread read nothing itself: the scheduler counts no faults.
--
-- A thread is idle while it waits at a condition, futex, semaphore, queue or poll, or accepts, and nobody waits for it:
-- it isn't its process's first thread, and the process doesn't stand still (its first thread waiting for another one
-- while no thread works).
--
-- @materialize
-- @requires busy, busy_bucket, thread_life, thread_time, cpu_slice, time_bucket
-- @order thread, ts
-- @dimension node, process, process_name, thread
-- @measure life_ns = sum(life_ns); compute_ns = sum(compute_ns); queued_ns = sum(queued_ns); fault_ns = sum(fault_ns);
--     io_ns = sum(io_ns); sync_ns = sum(sync_ns); idle_ns = sum(idle_ns); unknown_ns = sum(unknown_ns);
--     spin_ns = sum(spin_ns); read_ns = sum(read_ns); write_ns = sum(write_ns); flush_ns = sum(flush_ns)
-- @column ts BIGINT ns: start of the time bucket
-- @column node VARCHAR: machine
-- @column process BIGINT: process
-- @column process_name VARCHAR: name of its executable
-- @column thread BIGINT: thread
-- @column life_ns BIGINT ns: part of the bucket in which the thread lived: compute_ns + queued_ns + fault_ns + io_ns +
--     sync_ns + idle_ns + unknown_ns
-- @column compute_ns BIGINT ns: of it on a CPU, in no recorded call; null unknown
-- @column queued_ns BIGINT ns: of it waiting for a CPU, in no recorded call; null unknown
-- @column fault_ns BIGINT ns: of it waiting for storage in page faults; null unknown
-- @column io_ns BIGINT ns: of it in file calls
-- @column sync_ns BIGINT ns: of it waiting for something else
-- @column idle_ns BIGINT ns: of it parked, with nobody waiting for it
-- @column unknown_ns BIGINT ns: of it in no recorded call, doing nobody knows what
-- @column spin_ns BIGINT ns: of sync_ns and idle_ns on a CPU: the wait spins; null unknown
-- @column io_cpu_ns BIGINT ns: of io_ns on a CPU; null unknown
-- @column read_ns BIGINT ns: of it reading
-- @column write_ns BIGINT ns: of it writing
-- @column flush_ns BIGINT ns: of it making data durable
-- @column condition_ns BIGINT ns: of sync_ns waiting at conditions, futexes, semaphores, queues
-- @column poll_ns BIGINT ns: of sync_ns waiting for any of several descriptors, or for connections
WITH width AS (SELECT MAX(every_ns) AS every_ns FROM time_bucket),

change AS (
    SELECT thread, kind, waits_for, ts, 0 AS step, begun_ns AS area FROM busy_bucket
    UNION ALL
    -- calls that reach further are an edge up at their bucket's end and one down at theirs; an edge counts
    -- from its instant to the end of its bucket, and for the whole width of all later buckets
    SELECT b.thread, b.kind, b.waits_for, b.ts + w.every_ns, b.n, b.n * w.every_ns
    FROM busy_bucket AS b
    CROSS JOIN width AS w
    WHERE b.until_ts IS NOT NULL
    UNION ALL
    SELECT
        b.thread,
        b.kind,
        b.waits_for,
        b.until_ts - b.until_ts % w.every_ns,
        -b.n,
        -b.n * (w.every_ns - b.until_ts % w.every_ns)
    FROM busy_bucket AS b
    CROSS JOIN width AS w
    WHERE b.until_ts IS NOT NULL
),

changed AS (
    SELECT
        thread,
        ts AS bucket_ts,
        SUM(step) FILTER (WHERE kind = 'wait') AS wait_step,
        SUM(step) FILTER (WHERE waits_for = 'condition') AS condition_step,
        SUM(step) FILTER (WHERE waits_for = 'poll') AS poll_step,
        SUM(step) FILTER (WHERE waits_for IN ('lock', 'thread', 'barrier')) AS inner_step,
        SUM(step) FILTER (WHERE kind = 'read') AS read_step,
        SUM(step) FILTER (WHERE kind = 'write') AS write_step,
        SUM(step) FILTER (WHERE kind = 'flush') AS flush_step,
        SUM(step) FILTER (WHERE kind IN ('meta', 'map')) AS meta_step,
        SUM(area) FILTER (WHERE kind = 'wait') AS wait_area,
        SUM(area) FILTER (WHERE waits_for = 'condition') AS condition_area,
        SUM(area) FILTER (WHERE waits_for = 'poll') AS poll_area,
        SUM(area) FILTER (WHERE waits_for IN ('lock', 'thread', 'barrier')) AS inner_area,
        SUM(area) FILTER (WHERE kind = 'read') AS read_area,
        SUM(area) FILTER (WHERE kind = 'write') AS write_area,
        SUM(area) FILTER (WHERE kind = 'flush') AS flush_area,
        SUM(area) FILTER (WHERE kind IN ('meta', 'map')) AS meta_area
    FROM change
    GROUP BY thread, ts
),

called AS (
    SELECT
        b.ts,
        t.node,
        t.process,
        t.process_name,
        t.thread,
        t.tid = t.pid AS is_first,
        LEAST(b.ts + b.every_ns, t.end_ts) - GREATEST(b.ts, t.start_ts) AS life_ns,
        COALESCE(SUM(c.wait_step) OVER before, 0) * b.every_ns + COALESCE(c.wait_area, 0) AS wait_ns,
        COALESCE(SUM(c.condition_step) OVER before, 0) * b.every_ns + COALESCE(c.condition_area, 0) AS condition_ns,
        COALESCE(SUM(c.poll_step) OVER before, 0) * b.every_ns + COALESCE(c.poll_area, 0) AS poll_ns,
        COALESCE(SUM(c.inner_step) OVER before, 0) * b.every_ns + COALESCE(c.inner_area, 0) AS inner_ns,
        COALESCE(SUM(c.read_step) OVER before, 0) * b.every_ns + COALESCE(c.read_area, 0) AS read_ns,
        COALESCE(SUM(c.write_step) OVER before, 0) * b.every_ns + COALESCE(c.write_area, 0) AS write_ns,
        COALESCE(SUM(c.flush_step) OVER before, 0) * b.every_ns + COALESCE(c.flush_area, 0) AS flush_ns,
        COALESCE(SUM(c.meta_step) OVER before, 0) * b.every_ns + COALESCE(c.meta_area, 0) AS meta_ns
    FROM thread_life AS t
    INNER JOIN time_bucket AS b ON b.ts < t.end_ts AND b.ts + b.every_ns > t.start_ts
    LEFT JOIN changed AS c ON c.thread = t.thread AND c.bucket_ts = b.ts
    WINDOW before AS (
        PARTITION BY t.thread ORDER BY b.ts NULLS LAST ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    )
),

gap AS (
    SELECT
        *,
        read_ns + write_ns + flush_ns + meta_ns AS io_ns,
        GREATEST(life_ns - wait_ns - read_ns - write_ns - flush_ns - meta_ns, 0) AS gap_ns
    FROM called
),

-- threads of which the kernel was asked have no slice where they don't run
sliced AS (SELECT DISTINCT thread FROM cpu_slice WHERE kind = 'kernel' AND dur > 0),

scheduled AS (
    SELECT thread, ts, ts + dur AS end_ts, state, LEAD(ts) OVER (PARTITION BY thread ORDER BY ts NULLS LAST) AS next_ts
    FROM cpu_slice
    WHERE kind = 'kernel' AND dur > 0
),

edge AS (
    SELECT thread, ts, 1 AS runs, 0 AS is_ready, 0 AS calls FROM scheduled
    UNION ALL
    SELECT thread, end_ts, -1, 0, 0 FROM scheduled
    UNION ALL
    SELECT thread, end_ts, 0, 1, 0 FROM scheduled WHERE state = 'runnable' AND next_ts > end_ts
    UNION ALL
    SELECT thread, next_ts, 0, -1, 0 FROM scheduled WHERE state = 'runnable' AND next_ts > end_ts
    UNION ALL
    SELECT b.thread, b.since_ts, 0, 0, 1 FROM busy AS b SEMI JOIN sliced AS s ON s.thread = b.thread
    UNION ALL
    SELECT b.thread, b.until_ts, 0, 0, -1 FROM busy AS b SEMI JOIN sliced AS s ON s.thread = b.thread
),

-- between two edges a thread runs or is ready to, in a call or not
between_edges AS (
    SELECT
        thread,
        ts,
        LEAD(ts) OVER (PARTITION BY thread ORDER BY ts NULLS LAST) AS end_ts,
        SUM(SUM(runs)) OVER so_far AS runs,
        SUM(SUM(is_ready)) OVER so_far AS is_ready,
        SUM(SUM(calls)) OVER so_far AS calls
    FROM edge
    GROUP BY thread, ts
    WINDOW so_far AS (PARTITION BY thread ORDER BY ts NULLS LAST ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
),

stretch AS (
    SELECT thread, source, ts, ts + dur AS end_ts, cpu_ns, outside_ns, away_ns, io_cpu_ns, wait_cpu_ns, queued_ns,
        major_faults, voluntary_switches
    FROM thread_time
    WHERE dur > 0
    UNION ALL
    SELECT thread, CASE WHEN runs > 0 THEN 'slice' ELSE 'ready' END, ts, end_ts, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
    FROM between_edges
    WHERE calls = 0 AND (runs > 0 OR is_ready > 0) AND end_ts > ts
),

-- each stretch cut at the buckets' edges; those that lie in one bucket, which are most of a long run's, join none
cut AS (
    SELECT s.*, s.ts - s.ts % w.every_ns AS bucket_ts,
        LEAST(s.end_ts, s.ts - s.ts % w.every_ns + w.every_ns) - s.ts AS part_ns
    FROM stretch AS s
    CROSS JOIN width AS w
    UNION ALL
    SELECT s.*, b.ts, LEAST(s.end_ts, b.ts + b.every_ns) - b.ts
    FROM (
        SELECT stretch.*
        FROM stretch
        CROSS JOIN width AS w
        WHERE stretch.end_ts > stretch.ts - stretch.ts % w.every_ns + w.every_ns
    ) AS s
    INNER JOIN time_bucket AS b ON b.ts > s.ts AND b.ts < s.end_ts
),

own AS (
    SELECT
        c.thread,
        c.bucket_ts,
        c.part_ns,
        c.outside_ns,
        c.away_ns,
        c.io_cpu_ns,
        c.wait_cpu_ns,
        c.major_faults,
        c.voluntary_switches,
        CAST(LEAST(g.gap_ns, c.part_ns) AS DOUBLE)
        / NULLIF(SUM(LEAST(g.gap_ns, c.part_ns)) OVER one, 0) AS gap_share,
        CAST(LEAST(g.io_ns, c.part_ns) AS DOUBLE)
        / NULLIF(SUM(LEAST(g.io_ns, c.part_ns)) OVER one, 0) AS io_share,
        CAST(LEAST(g.wait_ns, c.part_ns) AS DOUBLE)
        / NULLIF(SUM(LEAST(g.wait_ns, c.part_ns)) OVER one, 0) AS wait_share
    FROM cut AS c
    INNER JOIN gap AS g ON g.thread = c.thread AND g.ts = c.bucket_ts
    WHERE c.source = 'thread'
    WINDOW one AS (PARTITION BY c.thread, c.ts)
),

own_bucket AS (
    SELECT
        thread,
        bucket_ts,
        SUM(part_ns) AS covered_ns,
        SUM(COALESCE(outside_ns * gap_share, 0)) AS outside_ns,
        SUM(COALESCE(away_ns * gap_share, 0)) AS away_ns,
        SUM(CASE WHEN voluntary_switches = 0 THEN COALESCE(away_ns * gap_share, 0) ELSE 0 END) AS queued_ns,
        SUM(COALESCE(away_ns * gap_share * major_faults / NULLIF(GREATEST(major_faults, voluntary_switches), 0), 0))
            AS fault_ns,
        SUM(COALESCE(io_cpu_ns * io_share, 0)) AS io_cpu_ns,
        SUM(COALESCE(wait_cpu_ns * wait_share, 0)) AS wait_cpu_ns
    FROM own
    GROUP BY thread, bucket_ts
),

beside AS (
    SELECT
        thread,
        bucket_ts,
        SUM(CAST(cpu_ns AS DOUBLE) * part_ns / (end_ts - ts)) FILTER (WHERE source = 'scheduler') AS cpu_ns,
        SUM(CAST(queued_ns AS DOUBLE) * part_ns / (end_ts - ts)) FILTER (WHERE source = 'scheduler') AS queued_ns,
        SUM(part_ns) FILTER (WHERE source = 'slice') AS slice_ns,
        SUM(part_ns) FILTER (WHERE source = 'ready') AS ready_ns
    FROM cut
    WHERE source <> 'thread'
    GROUP BY thread, bucket_ts
),

-- a bucket has no more than its gap; what it has not goes to where the thread's other buckets have room, so that sums over
-- its life are what its clock said, whatever the width of buckets
fit AS (
    SELECT
        p.*,
        g.gap_ns,
        COALESCE(LEAST(1, CAST(g.gap_ns AS DOUBLE) / NULLIF(p.outside_ns + p.away_ns, 0)), 1) AS fit
    FROM own_bucket AS p
    INNER JOIN gap AS g ON g.thread = p.thread AND g.ts = p.bucket_ts
),

room AS (
    SELECT
        *,
        gap_ns - fit * (outside_ns + away_ns) AS room_ns,
        SUM(gap_ns - fit * (outside_ns + away_ns)) OVER one AS whole_room_ns,
        SUM((1 - fit) * (outside_ns + away_ns)) OVER one AS left_ns,
        SUM((1 - fit) * outside_ns) OVER one AS left_outside_ns,
        SUM((1 - fit) * away_ns) OVER one AS left_away_ns,
        SUM((1 - fit) * queued_ns) OVER one AS left_queued_ns,
        SUM((1 - fit) * fault_ns) OVER one AS left_fault_ns
    FROM fit
    WINDOW one AS (PARTITION BY thread)
),

fitted AS (
    SELECT
        thread,
        bucket_ts,
        covered_ns,
        io_cpu_ns,
        wait_cpu_ns,
        fit * outside_ns + COALESCE(room_ns / NULLIF(GREATEST(whole_room_ns, left_ns), 0), 0) * left_outside_ns AS outside_ns,
        fit * away_ns + COALESCE(room_ns / NULLIF(GREATEST(whole_room_ns, left_ns), 0), 0) * left_away_ns AS away_ns,
        fit * queued_ns + COALESCE(room_ns / NULLIF(GREATEST(whole_room_ns, left_ns), 0), 0) * left_queued_ns AS queued_ns,
        fit * fault_ns + COALESCE(room_ns / NULLIF(GREATEST(whole_room_ns, left_ns), 0), 0) * left_fault_ns AS fault_ns
    FROM room
),

known AS (
    SELECT
        g.*,
        o.covered_ns IS NOT NULL AS has_own,
        b.cpu_ns IS NOT NULL OR s.thread IS NOT NULL AS has_beside,
        COALESCE(CASE WHEN s.thread IS NULL THEN b.queued_ns ELSE b.ready_ns END, 0) AS said_queued_ns,
        COALESCE(o.io_cpu_ns, 0) AS in_io_ns,
        COALESCE(o.wait_cpu_ns, 0) AS in_wait_ns,
        -- in the part of the bucket that the thread's own clock doesn't cover
        COALESCE(CASE WHEN s.thread IS NULL THEN b.cpu_ns ELSE COALESCE(b.slice_ns, 0) END, 0)
        * GREATEST(1 - COALESCE(CAST(o.covered_ns AS DOUBLE) / NULLIF(g.life_ns, 0), 0), 0) AS beside_ns,
        o.outside_ns,
        o.away_ns,
        o.queued_ns AS own_queued_ns,
        o.fault_ns AS own_fault_ns
    FROM gap AS g
    LEFT JOIN fitted AS o ON o.thread = g.thread AND o.bucket_ts = g.ts
    LEFT JOIN beside AS b ON b.thread = g.thread AND b.bucket_ts = g.ts
    LEFT JOIN sliced AS s ON s.thread = g.thread
),

computed AS (
    SELECT
        *,
        COALESCE(outside_ns, 0) + LEAST(GREATEST(gap_ns - COALESCE(outside_ns, 0) - COALESCE(away_ns, 0), 0), beside_ns)
            AS on_ns
    FROM known
),

placed AS (
    SELECT
        *,
        COALESCE(own_queued_ns, 0)
        + LEAST(
            GREATEST(gap_ns - on_ns - COALESCE(own_queued_ns, 0), 0),
            GREATEST(said_queued_ns - COALESCE(own_queued_ns, 0), 0)
        ) AS for_cpu_ns
    FROM computed
),

split AS (
    SELECT
        ts,
        node,
        process,
        process_name,
        thread,
        is_first,
        life_ns,
        gap_ns,
        wait_ns,
        condition_ns,
        poll_ns,
        inner_ns,
        io_ns,
        read_ns,
        write_ns,
        flush_ns,
        CASE WHEN has_own OR has_beside THEN CAST(ROUND(on_ns) AS BIGINT) END AS compute_ns,
        CASE WHEN has_own OR has_beside THEN CAST(ROUND(for_cpu_ns) AS BIGINT) END AS queued_ns,
        CASE
            WHEN has_own
                THEN CAST(ROUND(LEAST(GREATEST(gap_ns - on_ns - for_cpu_ns, 0), COALESCE(own_fault_ns, 0))) AS BIGINT)
        END AS fault_ns,
        CASE WHEN has_own THEN CAST(ROUND(LEAST(in_wait_ns, wait_ns)) AS BIGINT) END AS spin_ns,
        CASE WHEN has_own THEN CAST(ROUND(LEAST(in_io_ns, io_ns)) AS BIGINT) END AS io_cpu_ns
    FROM placed
),

-- whether each process stands still: its first thread waits for another one, and none works
process_bucket AS (
    SELECT
        process,
        ts,
        SUM(CASE WHEN is_first THEN inner_ns + condition_ns ELSE 0 END) AS first_ns,
        SUM(life_ns - condition_ns - poll_ns - inner_ns) AS working_ns,
        SUM(CASE WHEN is_first THEN life_ns ELSE 0 END) AS first_life_ns
    FROM split
    GROUP BY process, ts
),

idle AS (
    SELECT
        s.*,
        CASE
            WHEN COALESCE(s.is_first, TRUE) THEN 0
            WHEN p.first_ns > 0.5 * p.first_life_ns AND p.working_ns < 0.05 * p.first_life_ns THEN 0
            ELSE 1
        END AS parks
    FROM split AS s
    LEFT JOIN process_bucket AS p ON p.process = s.process AND p.ts = s.ts
)

SELECT
    ts,
    node,
    process,
    process_name,
    thread,
    life_ns,
    compute_ns,
    queued_ns,
    fault_ns,
    CAST(io_ns AS BIGINT) AS io_ns,
    CAST(wait_ns - parks * (condition_ns + poll_ns) AS BIGINT) AS sync_ns,
    CAST(parks * (condition_ns + poll_ns) AS BIGINT) AS idle_ns,
    CAST(
        life_ns - wait_ns - io_ns - COALESCE(compute_ns, 0) - COALESCE(queued_ns, 0) - COALESCE(fault_ns, 0) AS BIGINT
    ) AS unknown_ns,
    spin_ns,
    io_cpu_ns,
    CAST(read_ns AS BIGINT) AS read_ns,
    CAST(write_ns AS BIGINT) AS write_ns,
    CAST(flush_ns AS BIGINT) AS flush_ns,
    CAST((1 - parks) * condition_ns AS BIGINT) AS condition_ns,
    CAST((1 - parks) * poll_ns AS BIGINT) AS poll_ns
FROM idle

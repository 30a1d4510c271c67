-- Which findings are one cause: one row a finding, with the card it stands on. Findings over the same calls of a
-- program are one card, led by the one that names the cause best; module `diagnosis` has the cards.
--
-- A finding claims its time from classes of calls (module `cause`), by the program's time in each. It joins the
-- card of a better one of its program, if both are of one family over a shared class, or claim so much of a class that
-- at least half of it must be the same calls; unless both name a file and the files differ. Better is what saves
-- more time, weighed by how near to the cause the finding is. Time that two cards claim counts for the better only.
--
-- @materialize
-- @param copy_bytes_per_s BIGINT 10000000000 bytes/s: how fast bytes move in large calls from and to the page cache: a third of
--     what reading a cached file of 64 MiB by the MiB was measured at, for memory is seldom as idle
-- @param device_ns BIGINT 20000 ns: a read or write that takes this long on average reached the storage
-- @param task_ns BIGINT 200000 ns: a call for names that takes less on average is a look-up in the kernel's caches
-- @requires all_findings, cause, program_kind, activity, effort
-- @order card, leads DESC, gain_ns DESC
-- @dimension card, finding, program, family
-- @measure findings = count(*); counted_ns = sum(counted_ns)
-- @column card BIGINT: card, the place of its leader
-- @column leads BOOLEAN: whether it leads the card
-- @column finding VARCHAR: name of the finding
-- @column family VARCHAR: findings of one cause
-- @column severity VARCHAR: its own severity
-- @column title VARCHAR: its sentence
-- @column program VARCHAR: program; null all
-- @column process BIGINT: process it is about; null several
-- @column thread BIGINT: thread it is about; null several
-- @column file BIGINT: file it is about; null several
-- @column ops BIGINT: calls concerned; null none
-- @column bytes BIGINT bytes: bytes concerned; null none
-- @column cost_ns BIGINT ns: time it accounts for; null unknown
-- @column counted_ns BIGINT ns: part of cost_ns that no better card has; null for those that don't lead, or unknown
-- @column gain_ns BIGINT ns: time of the run that mending it saves, by itself; null unknown
-- @column start_ts BIGINT ns: start of the first call concerned
-- @column end_ts BIGINT ns: end of the last call concerned
-- @column evidence VARCHAR: the figures, in words
-- @column advice VARCHAR: what to do about it, in general
WITH weighed AS (
    SELECT
        f.*,
        c.family,
        c.covers,
        c.specific,
        CASE
            WHEN c.mode = 'none' OR f.cost_ns IS NULL THEN NULL
            -- the few reads or writes of small files are small because the files are
            WHEN s.program IS NOT NULL THEN 0
            WHEN c.mode = 'task' AND k.program IS NOT NULL THEN 0
            WHEN c.mode = 'slow' AND f.cost_ns < p.task_ns * f.ops THEN 0
            WHEN c.mode IN ('all', 'slow') OR (c.mode = 'overlap' AND f.cost_ns >= p.device_ns * f.ops) THEN c.saves * f.cost_ns
            ELSE c.saves * greatest(0, f.cost_ns - 1e9 * coalesce(f.bytes, 0) / p.copy_bytes_per_s)
        END AS saved_ns,
        CASE WHEN c.family IN ('lock', 'peer', 'sleep') THEN e.work_ns + coalesce(f.cost_ns, 0) ELSE e.work_ns END AS base_ns,
        e.wall_ns
    FROM all_findings AS f
    INNER JOIN cause AS c ON c.finding = f.finding
    LEFT JOIN (SELECT program FROM program_kind WHERE kind = 'tree' GROUP BY program) AS k ON k.program = f.program
    LEFT JOIN (SELECT program, max(ops) AS ops FROM all_findings WHERE finding = 'small_files' GROUP BY program) AS s
        ON s.program = f.program AND 2 * f.ops <= s.ops
        AND f.finding IN ('small_reads', 'readahead_reads', 'small_writes', 'tiny_appends', 'stdio_buffer')
    CROSS JOIN effort AS e
    CROSS JOIN params AS p
),

-- of time that several threads spend beside each other, the run saves its share
gained AS (
    SELECT
        *,
        CAST(floor(
            CASE
                WHEN family IN ('balance', 'symptom') THEN least(saved_ns, wall_ns)
                ELSE least(saved_ns, saved_ns / NULLIF(base_ns, 0) * wall_ns)
            END
        ) AS BIGINT) AS own_gain_ns
    FROM weighed
),

-- What a program does to a file between opening and closing it goes away with the opening: reads and writes as few
-- as the opens, seeks and questions for attributes.
followed AS (
    SELECT o.program, o.file, CAST(sum(f.own_gain_ns) AS BIGINT) AS more_ns
    FROM gained AS o
    INNER JOIN gained AS f ON f.program = o.program AND f.file = o.file AND f.ops <= 4 * o.ops
    WHERE o.finding = 'reopened_files'
        AND f.finding IN ('tiny_appends', 'small_writes', 'small_reads', 'seek_per_access', 'repeated_stat', 'stdio_flush')
    GROUP BY o.program, o.file
),

whole AS (
    SELECT g.*, g.own_gain_ns + coalesce(w.more_ns, 0) AS gain_ns
    FROM gained AS g
    LEFT JOIN followed AS w ON g.finding = 'reopened_files' AND w.program = g.program AND w.file = g.file
),

placed AS (
    SELECT
        *,
        row_number() OVER (
            ORDER BY
                gain_ns * specific DESC NULLS LAST, specific DESC NULLS LAST, cost_ns DESC NULLS LAST, finding NULLS LAST, title NULLS LAST, start_ts NULLS LAST
        ) AS place
    FROM whole
),

spent AS (
    SELECT
        process_name AS program,
        CASE
            WHEN kind IN ('read', 'write', 'flush') THEN kind
            WHEN call IN ('open', 'creat', 'fopen', 'close', 'fclose', 'mkstemp', 'opendir', 'closedir') THEN 'open'
            WHEN call IN ('stat', 'fstat', 'access', 'readlink', 'statfs', 'xattr', 'getxattr', 'listxattr') THEN 'attribute'
            WHEN call IN ('lseek', 'fseek') THEN 'seek'
            ELSE 'name'
        END AS class,
        CAST(sum(io_ns) AS BIGINT) AS time_ns
    FROM activity
    GROUP BY ALL
),

classes AS (
    SELECT * FROM (VALUES
        ('read'), ('write'), ('flush'), ('open'), ('attribute'), ('seek'), ('name'), ('fault'), ('lock'), ('file_lock'),
        ('peer'), ('sleep'), ('cpu'), ('error')
    ) AS t(class)
),

covered AS (
    SELECT f.place, f.program, c.class, s.time_ns, coalesce(f.cost_ns, 0) AS cost_ns
    FROM placed AS f
    INNER JOIN classes AS c ON f.covers LIKE concat('% ', c.class, ' %')
    LEFT JOIN spent AS s ON s.program = f.program AND s.class = c.class
),

claims AS (
    SELECT
        place,
        program,
        class,
        time_ns,
        CASE
            WHEN sum(time_ns) OVER (PARTITION BY place) > 0
                THEN 1e0 * cost_ns * coalesce(time_ns, 0) / sum(time_ns) OVER (PARTITION BY place)
            ELSE 1e0 * cost_ns / count(*) OVER (PARTITION BY place)
        END AS claim_ns
    FROM covered
),

shared AS (
    SELECT
        w.place AS better,
        f.place,
        sum(
            greatest(0, f.claim_ns + w.claim_ns - coalesce(NULLIF(f.time_ns, 0), greatest(f.claim_ns, w.claim_ns)))
        ) AS same_ns
    FROM claims AS f
    INNER JOIN claims AS w ON w.class = f.class AND coalesce(w.program, '') = coalesce(f.program, '') AND w.place < f.place
    GROUP BY w.place, f.place
),

pairs AS (
    SELECT f.place, w.place AS better, coalesce(s.same_ns, 0) AS same_ns, s.place IS NOT NULL AS shares
    FROM placed AS f
    INNER JOIN placed AS w ON w.place < f.place
    LEFT JOIN shared AS s ON s.place = f.place AND s.better = w.place
    WHERE s.place IS NOT NULL
        OR (
            w.finding = 'reopened_files' AND w.program = f.program AND w.file = f.file AND f.ops <= 4 * w.ops
            AND f.finding IN ('tiny_appends', 'small_writes', 'small_reads', 'seek_per_access', 'repeated_stat', 'stdio_flush')
        )
),

joined AS (
    SELECT f.place, min(s.better) AS better
    FROM pairs AS s
    INNER JOIN placed AS f ON f.place = s.place
    INNER JOIN placed AS w ON w.place = s.better
    WHERE NOT coalesce(f.file <> w.file, FALSE)
        AND (f.family NOT IN ('error', 'descriptors') OR f.family = w.family)
        AND (
            NOT s.shares
            OR (f.family = w.family AND (f.family IN ('access', 'flush', 'descriptors', 'balance', 'symptom') OR f.specific <= 0.6))
            OR f.specific <= 0.3
            OR (f.cost_ns > 0 AND 2e0 * s.same_ns >= f.cost_ns)
            OR (f.family = w.family AND f.file = w.file)
        )
    GROUP BY f.place
),

-- who joined one that joined another: three steps reach the leader, or at least a better one
led AS (
    SELECT p.place, coalesce(d.better, c.better, b.better, a.better, p.place) AS card
    FROM placed AS p
    LEFT JOIN joined AS a ON a.place = p.place
    LEFT JOIN joined AS b ON b.place = a.better
    LEFT JOIN joined AS c ON c.place = b.better
    LEFT JOIN joined AS d ON d.place = c.better
),

counted AS (
    SELECT place, CAST(floor(sum(own_ns)) AS BIGINT) AS counted_ns
    FROM (
        SELECT
            c.place,
            CASE
                WHEN c.time_ns > 0 THEN greatest(
                        0, least(c.claim_ns, c.time_ns - coalesce(sum(c.claim_ns) OVER (
                            PARTITION BY c.program, c.class ORDER BY c.place NULLS LAST
                            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
                        ), 0))
                    )
                ELSE c.claim_ns
            END AS own_ns
        FROM claims AS c
        INNER JOIN led AS l ON l.place = c.place AND l.card = l.place
    ) AS owned
    GROUP BY place
)

SELECT
    l.card,
    l.card = p.place AS leads,
    p.finding,
    p.family,
    p.severity,
    p.title,
    p.program,
    p.process,
    p.thread,
    p.file,
    p.ops,
    p.bytes,
    p.cost_ns,
    CASE WHEN p.cost_ns IS NOT NULL THEN c.counted_ns END AS counted_ns,
    p.gain_ns,
    p.start_ts,
    p.end_ts,
    p.evidence,
    p.advice
FROM placed AS p
INNER JOIN led AS l ON l.place = p.place
LEFT JOIN counted AS c ON c.place = p.place

-- What holds the run up: one row a cause (a card), the one first whose mending saves most of the run's time. Module
-- `diagnosis_finding` has the findings behind each; here the leading one speaks for all.
--
-- The gain is an estimate: what the needless calls take, or what fewer, larger or overlapping ones would not take, as
-- `cause` says, as a share of the run's time. Severity follows from it: from `high_share` and `high_gain_ns`
-- on high, from `medium_share` and `medium_gain_ns` on medium. Data that was lost or can't be opened keeps the
-- severity of its finding, as does what has no known cost. `storage_idle` is a card only if no other is medium or high.
--
-- @materialize
-- @param medium_share DOUBLE 0.05: share of the working time from which a finding is medium
-- @param high_share DOUBLE 0.2: share of the working time from which a finding is high
-- @param medium_gain_ns BIGINT 100000000 ns: what saves less is low
-- @param high_gain_ns BIGINT 400000000 ns: what saves less is at most medium
-- @requires diagnosis_finding, program_kind, program_advice, activity, file, mount_file, process, thread, effort
-- @order place
-- @dimension cause, severity, program
-- @measure cards = count(*); gain_ns = sum(gain_ns)
-- @column place BIGINT: order of the cards, 1 first
-- @column card BIGINT: number of the card in module diagnosis_finding
-- @column cause VARCHAR: name of the leading finding
-- @column severity VARCHAR: high, medium or low, by what mending it saves
-- @column title VARCHAR: cause, in one sentence with the numbers
-- @column program VARCHAR: program; null all
-- @column kind VARCHAR: what the program is, if the advice is for it; null general advice
-- @column process BIGINT: process; null several
-- @column thread BIGINT: thread; null several
-- @column file BIGINT: file; null several
-- @column location VARCHAR: file, mount, process and thread in words; null all of the recording
-- @column ops BIGINT: calls concerned; null none
-- @column bytes BIGINT bytes: bytes concerned; null none
-- @column cost_ns BIGINT ns: time the calls take in all threads, what better cards have taken off; null unknown
-- @column gain_ns BIGINT ns: time of the run that mending it saves; null unknown
-- @column gain_share DOUBLE share: gain_ns of the run's time; null unknown
-- @column start_ts BIGINT ns: start of the first call concerned
-- @column end_ts BIGINT ns: end of the last call concerned
-- @column evidence VARCHAR: the figures, in words
-- @column advice VARCHAR: what to do, for this program if it is known
-- @column findings BIGINT: findings behind it, with the leading one
WITH led AS (
    SELECT
        f.card,
        f.finding,
        f.family,
        f.severity,
        f.title,
        f.program,
        f.process,
        f.thread,
        f.file,
        f.ops,
        f.bytes,
        f.counted_ns AS cost_ns,
        -- what better cards have taken off is not saved twice
        CASE
            WHEN f.cost_ns > 0 THEN CAST(floor(1e0 * f.gain_ns * f.counted_ns / f.cost_ns) AS BIGINT)
            ELSE f.gain_ns
        END AS gain_ns,
        f.start_ts,
        f.end_ts,
        f.evidence,
        f.advice,
        n.findings,
        i.path
    FROM diagnosis_finding AS f
    INNER JOIN (SELECT card, count(*) AS findings FROM diagnosis_finding GROUP BY card) AS n ON n.card = f.card
    LEFT JOIN (SELECT file, max(path) AS path FROM file GROUP BY file) AS i ON i.file = f.file
    WHERE f.leads
),

judged AS (
    SELECT
        l.*,
        1e0 * l.gain_ns / NULLIF(e.wall_ns, 0) AS gain_share,
        CASE
            WHEN l.family IN ('error', 'descriptors') OR l.gain_ns IS NULL THEN l.severity
            WHEN l.gain_ns >= p.high_share * e.wall_ns AND l.gain_ns >= p.high_gain_ns THEN 'high'
            WHEN l.gain_ns >= p.medium_share * e.wall_ns AND l.gain_ns >= p.medium_gain_ns THEN 'medium'
            ELSE 'low'
        END AS weight
    FROM led AS l
    CROSS JOIN effort AS e
    CROSS JOIN params AS p
),

-- files that SQLite keeps: those with a journal or a write-ahead log beside them, and these
kept AS (
    SELECT path FROM activity WHERE path LIKE '%-journal' OR path LIKE '%-wal'
    UNION
    SELECT regexp_replace(path, '-(journal|wal)$', '') FROM activity WHERE path LIKE '%-journal' OR path LIKE '%-wal'
),

advised AS (
    SELECT
        j.card,
        min_by(k.kind, concat(lpad(CAST(k.place AS VARCHAR), 3, '0'), k.kind)) AS kind,
        min_by(a.advice, concat(lpad(CAST(k.place AS VARCHAR), 3, '0'), k.kind)) AS advice
    FROM judged AS j
    INNER JOIN program_kind AS k ON k.program = j.program
    INNER JOIN program_advice AS a ON a.kind = k.kind AND a.finding = j.finding
    LEFT JOIN kept AS s ON s.path = j.path
    WHERE k.kind <> 'sqlite' OR j.path IS NULL OR s.path IS NOT NULL
    GROUP BY j.card
),

grave AS (
    SELECT count(*) AS cards FROM judged WHERE weight IN ('high', 'medium')
)

SELECT
    row_number() OVER (
        ORDER BY
            CASE j.weight WHEN 'high' THEN 0 WHEN 'medium' THEN 1 ELSE 2 END,
            CASE WHEN j.family IN ('error', 'descriptors') OR j.finding = 'storage_idle' THEN 0 ELSE 1 END,
            j.gain_ns DESC NULLS LAST, j.card
    ) AS place,
    j.card,
    j.finding AS cause,
    j.weight AS severity,
    j.title,
    j.program,
    v.kind,
    j.process,
    j.thread,
    j.file,
    NULLIF(concat_ws(
        ', ',
        j.path,
        CASE WHEN m.point IS NOT NULL THEN concat('on ', m.point, CASE WHEN m.type IS NULL THEN '' ELSE concat(' (', m.type, ')') END) END,
        CASE
            WHEN r.process IS NOT NULL THEN concat(coalesce(r.name, 'process'), ' (pid ', CAST(r.pid AS VARCHAR), ')')
            ELSE j.program
        END,
        CASE WHEN t.thread IS NOT NULL THEN concat('thread ', coalesce(t.name, CAST(t.tid AS VARCHAR))) END
    ), '') AS location,
    j.ops,
    j.bytes,
    j.cost_ns,
    j.gain_ns,
    j.gain_share,
    j.start_ts,
    j.end_ts,
    j.evidence,
    coalesce(v.advice, j.advice) AS advice,
    j.findings
FROM judged AS j
CROSS JOIN grave AS g
LEFT JOIN advised AS v ON v.card = j.card
LEFT JOIN (SELECT file, max(point) AS point, max(type) AS type FROM mount_file GROUP BY file) AS m ON m.file = j.file
LEFT JOIN (SELECT process, max(pid) AS pid, max(name) AS name FROM process GROUP BY process) AS r ON r.process = j.process
LEFT JOIN (SELECT thread, max(tid) AS tid, max(name) AS name FROM thread GROUP BY thread) AS t ON t.thread = j.thread
WHERE j.finding <> 'storage_idle' OR g.cards = 0

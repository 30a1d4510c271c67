-- How reads and writes follow each other: one row a thread, file and kind.
--
-- Each read or write that moved bytes is compared with the one before it by the same thread on the same
-- file, in one window pass. The first access of a thread to a file has no predecessor and counts in `ops`
-- only. The terms are Darshan's (darshan-util, POSIX_CONSEC_*, POSIX_SEQ_*, POSIX_STRIDE*): consecutive
-- begins where the last one ended; a step elsewhere is a jump; a jump of the same distance as the step
-- before it is strided.
--
-- @materialize
-- @param block_bytes BIGINT 4096 bytes: block of the file system, for alignment
-- @requires file_op, call, thread_file
-- @dimension process_name, process, thread, path, file, kind
-- @measure ops = sum(ops); consecutive_ops = sum(consecutive_ops); jump_ops = sum(jump_ops); strided_ops = sum(strided_ops)
-- @column node VARCHAR: machine (one boot of it)
-- @column process BIGINT: process of the thread; null unknown
-- @column process_name VARCHAR: name of its executable; 'unknown process' without one
-- @column thread BIGINT: thread that called
-- @column file BIGINT: file; null unknown
-- @column path VARCHAR: path of the file; '(unknown file)' without one
-- @column kind VARCHAR: read or write
-- @column ops BIGINT: reads or writes with a position that moved bytes
-- @column bytes BIGINT bytes: moved
-- @column io_ns BIGINT ns: time in them; null if that of none is known, and so are the times below
-- @column consecutive_ops BIGINT: began where the one before (of either kind) ended
-- @column jump_ops BIGINT: began elsewhere, at an irregular distance
-- @column jump_bytes BIGINT bytes: moved by jumps
-- @column jump_ns BIGINT ns: time in jumps
-- @column strided_ops BIGINT: began elsewhere, at the same distance as the step before
-- @column strided_bytes BIGINT bytes: moved by strided ones
-- @column strided_ns BIGINT ns: time in strided ones
-- @column backward_ops BIGINT: began before the one before began
-- @column backward_bytes BIGINT bytes: moved by those
-- @column backward_ns BIGINT ns: time in those
-- @column unaligned_ops BIGINT: jumps and strides that don't begin and end at a block's boundary
-- @column unaligned_bytes BIGINT bytes: moved by those
-- @column unaligned_ns BIGINT ns: time in those
-- @column unaligned_touched BIGINT bytes: size of the blocks that those touch
-- @column switch_ops BIGINT: came after one of the other kind
-- @column modify_ops BIGINT: writes to where the read just before began, and no longer than it
-- @column modify_ns BIGINT ns: time in those writes and the reads before them
-- @column retry_ops BIGINT: asked for the rest of the one before, which moved less than it was asked
-- @column retry_ns BIGINT ns: time in those
-- @column start_ts BIGINT ns: start of the first
-- @column end_ts BIGINT ns: end of the last
WITH access AS (
    SELECT
        CAST(f.thread_file AS INTEGER) AS thread_file,
        CASE c.kind WHEN 'read' THEN 1 ELSE 2 END AS kind_id,
        o.ts,
        o.trace_row,
        o.dur,
        o.pos,
        o.pos + o.result AS reached,
        o.pos + o.length AS asked
    FROM file_op AS o
    INNER JOIN call AS c ON c.call = o.call
    INNER JOIN thread_file AS f ON f.thread = o.thread AND COALESCE(f.file, 0) = COALESCE(o.file, 0)
    WHERE c.kind IN ('read', 'write') AND o.pos IS NOT NULL AND o.result > 0
),

follow AS (
    SELECT
        thread_file,
        kind_id,
        ts,
        dur,
        pos,
        reached,
        asked,
        lag(kind_id) OVER w AS last_kind,
        lag(dur) OVER w AS last_dur,
        lag(pos) OVER w AS last_pos,
        lag(pos, 2) OVER w AS last_pos2,
        lag(reached) OVER w AS last_reached,
        lag(asked) OVER w AS last_asked
    FROM access
    WINDOW w AS (PARTITION BY thread_file ORDER BY ts NULLS LAST, trace_row NULLS LAST)
),

judged AS (
    SELECT
        thread_file,
        kind_id,
        ts,
        dur,
        reached - pos AS bytes,
        pos = last_reached AS consecutive,
        pos <> last_reached AND coalesce(pos - last_pos <> last_pos - last_pos2, TRUE) AS jump,
        pos <> last_reached AND pos - last_pos = last_pos - last_pos2 AS strided,
        pos < last_pos AS backward,
        pos <> last_reached AND (pos % p.block_bytes <> 0 OR reached % p.block_bytes <> 0) AS unaligned,
        ((reached - 1) - (reached - 1) % p.block_bytes - (pos - pos % p.block_bytes)) + p.block_bytes AS touched,
        kind_id <> last_kind AS switched,
        kind_id = 2 AND last_kind = 1 AND pos = last_pos AND reached <= last_reached AS modified,
        last_dur,
        kind_id = last_kind AND pos = last_reached AND last_reached < last_asked AND asked = last_asked AS retried
    FROM follow
    CROSS JOIN params AS p
),

grouped AS (
    SELECT
        thread_file,
        kind_id,
        count(*) AS ops,
        CAST(sum(bytes) AS BIGINT) AS bytes,
        CAST(sum(dur) AS BIGINT) AS io_ns,
        count(dur) > 0 AS timed,
        count(*) FILTER (WHERE consecutive) AS consecutive_ops,
        count(*) FILTER (WHERE jump) AS jump_ops,
        CAST(coalesce(sum(bytes) FILTER (WHERE jump), 0) AS BIGINT) AS jump_bytes,
        CAST(coalesce(sum(dur) FILTER (WHERE jump), 0) AS BIGINT) AS jump_ns,
        count(*) FILTER (WHERE strided) AS strided_ops,
        CAST(coalesce(sum(bytes) FILTER (WHERE strided), 0) AS BIGINT) AS strided_bytes,
        CAST(coalesce(sum(dur) FILTER (WHERE strided), 0) AS BIGINT) AS strided_ns,
        count(*) FILTER (WHERE backward) AS backward_ops,
        CAST(coalesce(sum(bytes) FILTER (WHERE backward), 0) AS BIGINT) AS backward_bytes,
        CAST(coalesce(sum(dur) FILTER (WHERE backward), 0) AS BIGINT) AS backward_ns,
        count(*) FILTER (WHERE unaligned) AS unaligned_ops,
        CAST(coalesce(sum(bytes) FILTER (WHERE unaligned), 0) AS BIGINT) AS unaligned_bytes,
        CAST(coalesce(sum(dur) FILTER (WHERE unaligned), 0) AS BIGINT) AS unaligned_ns,
        CAST(coalesce(sum(touched) FILTER (WHERE unaligned), 0) AS BIGINT) AS unaligned_touched,
        count(*) FILTER (WHERE switched) AS switch_ops,
        count(*) FILTER (WHERE modified) AS modify_ops,
        CAST(coalesce(sum(dur + last_dur) FILTER (WHERE modified), 0) AS BIGINT) AS modify_ns,
        count(*) FILTER (WHERE retried) AS retry_ops,
        CAST(coalesce(sum(dur) FILTER (WHERE retried), 0) AS BIGINT) AS retry_ns,
        min(ts) AS start_ts,
        max(ts + coalesce(dur, 0)) AS end_ts
    FROM judged
    GROUP BY thread_file, kind_id
)

SELECT
    f.node,
    f.process,
    f.process_name,
    f.thread,
    f.file,
    f.path,
    CASE g.kind_id WHEN 1 THEN 'read' ELSE 'write' END AS kind,
    g.ops,
    g.bytes,
    g.io_ns,
    g.consecutive_ops,
    g.jump_ops,
    g.jump_bytes,
    CASE WHEN g.timed THEN g.jump_ns END AS jump_ns,
    g.strided_ops,
    g.strided_bytes,
    CASE WHEN g.timed THEN g.strided_ns END AS strided_ns,
    g.backward_ops,
    g.backward_bytes,
    CASE WHEN g.timed THEN g.backward_ns END AS backward_ns,
    g.unaligned_ops,
    g.unaligned_bytes,
    CASE WHEN g.timed THEN g.unaligned_ns END AS unaligned_ns,
    g.unaligned_touched,
    g.switch_ops,
    g.modify_ops,
    CASE WHEN g.timed THEN g.modify_ns END AS modify_ns,
    g.retry_ops,
    CASE WHEN g.timed THEN g.retry_ns END AS retry_ns,
    g.start_ts,
    g.end_ts
FROM grouped AS g
INNER JOIN thread_file AS f ON f.thread_file = g.thread_file

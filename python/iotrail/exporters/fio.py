"""fio: a folder with a job file, one iolog (version 3: µs since the start) a thread, and the files they act on.

fio replays an iolog on the very names in it, so that a log with the recorded names would write over somebody's data.
Names here are those of sparse files made in the folder, as large as the trace needs; the job file says which is which.
`fio job.fio`, run in the folder, keeps the recorded times; `replay_no_stall=1` in it drops them.
Reads, writes and flushes of named files are in it. Waiting, names and attributes have no form in an iolog.
"""

from pathlib import Path

from iotrail.errors import IotrailError
from iotrail.trail import Trail

README = """Written by iotrail export fio. Run it with: cd into this folder, then: fio job.fio
The files here stand for the recorded ones; job.fio says which is which. They are sparse: reads of what was
never written cost no device time. To fill them: fio --name=fill --rw=write --bs=1m --filename=file-1 …
"""


def write(trail: Trail, output: Path, **_: object) -> None:
    """Write the folder."""
    trail.prepare("bare_op file thread_life trail_span")
    connection = trail.connection
    kinds = "kind IN ('read', 'write', 'flush') AND errno = 0 AND COALESCE(dur, result) IS NOT NULL AND file IS NOT NULL"
    acts = f"(({kinds}) AND (kind = 'flush' OR (pos IS NOT NULL AND length > 0)))"
    prepare = f"""
        CREATE OR REPLACE TEMP TABLE _fio_file AS
        SELECT
            o.node, o.file, 'file-' || ROW_NUMBER() OVER (ORDER BY MIN(o.ts), o.file) AS name, MAX(f.path) AS path,
            -- fio refuses a file without any bytes
            GREATEST(COALESCE(MAX(o.pos + o.length), 0), 4096) AS size
        FROM (SELECT * FROM bare_op WHERE {acts}) AS o
        LEFT JOIN file AS f ON f.node = o.node AND f.file = o.file
        GROUP BY o.node, o.file"""
    with trail.errors(prepare):
        connection.execute(prepare)
        files = connection.execute(
            "SELECT name, COALESCE(path, '(unknown file)'), size FROM _fio_file ORDER BY LENGTH(name), name"
        ).fetchall()
        threads = connection.execute(
            f"SELECT thread, COUNT(*) FROM bare_op WHERE {acts} GROUP BY thread ORDER BY MIN(ts), thread"
        ).fetchall()
    if not threads:
        raise IotrailError(
            f"{trail.path}: no read, write or flush of a named file, so nothing for fio to replay"
        )
    output.mkdir()
    (output / "README").write_text(README)
    for name, _path, size in files:
        with (output / name).open("wb") as file:
            file.truncate(size)
    job = [
        f"; {trail.path.name}, by iotrail export fio",
        *(f"; {name} = {path!r}" for name, path, _ in files),
    ]
    job += ["", "[global]", "ioengine=psync", "allow_file_create=0", ""]
    for number, (thread, count) in enumerate(threads, 1):
        log = f"thread-{number}.iolog"
        job += [f"; {count:,} operations", f"[thread-{number}]", f"read_iolog={log}", ""]
        _write_log(trail, output / log, thread, acts)
    (output / "job.fio").write_text("\n".join(job))


def _write_log(trail: Trail, log: Path, thread: int, acts: str) -> None:
    """One thread's iolog: its files are added and opened first, closed last."""
    query = f"""
        WITH act AS (
            SELECT
                (o.ts - s.start_ts) // 1000 AS us, f.name, o.ts, o.trace_row, o.pos, o.length,
                CASE o.kind WHEN 'flush' THEN CASE o.call WHEN 'fdatasync' THEN 'datasync' ELSE 'sync' END ELSE o.kind END AS action
            FROM (SELECT * FROM bare_op WHERE thread = $thread AND {acts}) AS o
            JOIN _fio_file AS f ON f.node = o.node AND f.file = o.file
            CROSS JOIN trail_span AS s
        )
        SELECT line FROM (
            SELECT 0 AS part, 0 AS ts, 0 AS trace_row, '0 ' || name || ' add' AS line FROM (SELECT DISTINCT name FROM act)
            UNION ALL SELECT 1, 0, 0, '0 ' || name || ' open' FROM (SELECT DISTINCT name FROM act)
            UNION ALL SELECT
                2, ts, trace_row, us || ' ' || name || ' ' || action || ' ' || COALESCE(pos, 0) || ' ' || COALESCE(length, 0) FROM act
            UNION ALL SELECT 3, 0, 0, MAX(us) OVER () || ' ' || name || ' close' FROM (SELECT name, MAX(us) AS us FROM act GROUP BY name)
        ) ORDER BY part, ts, trace_row, line"""
    relation = trail.query(query, {"thread": thread})
    with trail.errors(query), log.open("w") as file:
        file.write("fio version 3 iolog\n")
        for batch in relation.to_arrow_reader(1 << 16):
            file.write("\n".join(batch.column(0).to_pylist()))
            file.write("\n" * bool(batch.num_rows))

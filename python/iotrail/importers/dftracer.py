"""DFTracer's events (.pfw, usually gzipped): a JSON object a line, between `[` and `]`, in Chrome's trace format.

https://dftracer.readthedocs.io. Times and durations are µs since 1970, numbers or texts. Calls on files have category
POSIX or STDIO and in `args` what they were called with: `fname`, or in newer versions `fhash`, which an event of
metadata (`ph` M, name FH) explains. Events of other layers (the program's own functions) have no rows. Where in a file
`read` and `write` were follows from the opens, seeks and reads of a descriptor before them; null where none is.

The events are kept in DuckDB until all are read: metadata may come after what it explains.
"""

import json
import tempfile
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from iotrail.importers.base import Actor, BlockRows, Job
from iotrail.importers.calls import CALLS
from iotrail.importers.ids import process_id, thread_id
from iotrail.importers.source import Source

# 2001 in µs: what counts from less has no date.
_WALL = 10**15
_TOP = (1 << 62) // 1000
_COLUMNS = """
    line BIGINT, name VARCHAR, pid BIGINT, tid BIGINT, ts BIGINT, dur BIGINT, host VARCHAR, fname VARCHAR, fhash VARCHAR,
    ret BIGINT, size BIGINT, place BIGINT, fd BIGINT, flags BIGINT, whence BIGINT"""
_TAKEN = """
    SELECT
        line,
        regexp_replace(regexp_replace(json ->> '$.name', '^_+', ''), '64(_nocancel)?$|_nocancel$', '') AS name,
        TRY_CAST(json ->> '$.pid' AS BIGINT) AS pid,
        TRY_CAST(json ->> '$.tid' AS BIGINT) AS tid,
        TRY_CAST(json ->> '$.ts' AS BIGINT) AS ts,
        TRY_CAST(json ->> '$.dur' AS BIGINT) AS dur,
        COALESCE(json ->> '$.args.hostname', json ->> '$.args.hhash') AS host,
        json ->> '$.args.fname' AS fname,
        json ->> '$.args.fhash' AS fhash,
        TRY_CAST(json ->> '$.args.ret' AS BIGINT) AS ret,
        TRY_CAST(COALESCE(json ->> '$.args.count', json ->> '$.args.size') AS BIGINT) AS size,
        TRY_CAST(json ->> '$.args.offset' AS BIGINT) AS place,
        TRY_CAST(json ->> '$.args.fd' AS BIGINT) AS fd,
        TRY_CAST(json ->> '$.args.flags' AS BIGINT) AS flags,
        TRY_CAST(json ->> '$.args.whence' AS BIGINT) AS whence,
        json ->> '$.cat' AS cat,
        json ->> '$.ph' AS ph,
        json ->> '$.args.name' AS meta_name,
        json ->> '$.args.value' AS meta_value
    FROM line"""


def looks_like(head: bytes) -> bool:
    """The first object has what each event has."""
    for line in head.split(b"\n")[:20]:
        text = line.strip().rstrip(b",")
        if text.startswith(b"{"):
            try:
                event = json.loads(text)
            except (ValueError, RecursionError):
                return False
            return isinstance(event, dict) and {"name", "cat", "pid", "tid", "ph"} <= event.keys()
        if text not in (b"", b"["):
            return False
    return False


def read(job: Job) -> None:
    """Import events."""
    with tempfile.TemporaryDirectory(prefix="iotrail-") as folder, duckdb.connect() as connection:
        connection.execute(f"SET temp_directory = '{folder}'")
        connection.execute("SET memory_limit = '800MB'")
        connection.execute("SET enable_progress_bar = false")
        connection.execute(f"CREATE TABLE event ({_COLUMNS}, call VARCHAR)")
        connection.execute("CREATE TABLE meta (kind VARCHAR, name VARCHAR, value VARCHAR)")
        connection.register("call_of", pa.table({"name": list(CALLS), "call": list(CALLS.values())}))
        others = sum(_take(job, source, connection) for source in job.sources)
        job.facts["events_without_rows"] = others
        if others:
            job.note(
                f"{others:,} events are of other layers than POSIX and STDIO, or no I/O: they have no rows"
            )
        _write(job, connection)


def _take(job: Job, source: Source, connection: Any) -> int:
    """Put a file's events into the tables; returns how many are no calls on files."""
    [[taken]] = connection.execute("SELECT COUNT(*) FROM event").fetchall()
    others = 0
    for number, block in job.lines(source):
        lines = [line.strip().rstrip(b",") for line in block.split(b"\n")[: block.count(b"\n") or None]]
        at = [place for place, line in enumerate(lines) if line not in (b"", b"[", b"]")]
        job.read += len(at)
        # numbers that go on from file to file
        [[before]] = connection.execute("SELECT COALESCE(MAX(line) + 1, 0) FROM event").fetchall()
        if not at:
            continue
        texts = pa.array([lines[place].decode("utf-8", "replace") for place in at])
        connection.register("raw", pa.table({"line": np.array(at) + before, "text": texts}))
        # not valid JSON, or no event
        connection.execute("""
            CREATE OR REPLACE TEMP TABLE line AS
            SELECT line, CASE WHEN json_valid(text) THEN CAST(text AS JSON) END AS json FROM raw""")
        connection.execute(f"CREATE OR REPLACE TEMP TABLE taken AS {_TAKEN}")
        bad = connection.execute(f"""
            SELECT line FROM taken
            WHERE name IS NULL OR ph IS NULL
                OR (ph = 'X' AND cat IN ('POSIX', 'STDIO')
                    AND (ts IS NULL OR ts < 0 OR ts > {_TOP} OR dur < 0 OR dur > {_TOP} OR ts + COALESCE(dur, 0) > {_TOP}))
            ORDER BY line""").fetchall()
        for (line,) in bad:
            place = int(line) - before
            job.skipped.line(source, number + place, lines[place], "not understood")
        connection.execute(f"""
            INSERT INTO event SELECT t.* EXCLUDE (cat, ph, meta_name, meta_value), c.call
            FROM taken AS t JOIN call_of AS c ON c.name = t.name
            WHERE ph = 'X' AND cat IN ('POSIX', 'STDIO') AND ts BETWEEN 0 AND {_TOP}
                AND COALESCE(dur, 0) BETWEEN 0 AND {_TOP} AND ts + COALESCE(dur, 0) <= {_TOP}""")
        connection.execute("""
            INSERT INTO meta SELECT name, meta_name, meta_value FROM taken
            WHERE ph = 'M' AND name IN ('FH', 'HH') AND meta_value IS NOT NULL""")
        [[rows]] = connection.execute("SELECT COUNT(*) FROM event").fetchall()
        others += len(at) - len(bad) - (rows - taken)
        taken = rows
    job.read += job.long_lines
    return others


def _write(job: Job, connection: Any) -> None:
    """Join names, follow positions, write rows."""
    query = """
        WITH hash AS (
            SELECT kind, value, MAX(name) AS name FROM meta GROUP BY kind, value
        ),
        named AS (
            SELECT e.* EXCLUDE (host), COALESCE(e.fname, f.name, 'fhash ' || e.fhash) AS path, COALESCE(h.name, e.host) AS host
            FROM event AS e
            LEFT JOIN hash AS f ON f.kind = 'FH' AND f.value = e.fhash
            LEFT JOIN hash AS h ON h.kind = 'HH' AND h.value = e.host
        ),
        -- a descriptor's position is known from an open or a seek on
        settled AS (
            SELECT *,
                CASE
                    WHEN call IN ('lseek', 'fseek') AND call = 'lseek' AND ret >= 0 THEN ret
                    WHEN call IN ('open', 'creat') AND ret >= 0 AND COALESCE(flags, 0) & 1024 = 0 THEN 0
                END AS settles,
                CASE WHEN call IN ('open', 'creat') THEN ret ELSE fd END AS number
            FROM named
        ),
        counted AS (
            SELECT *, COUNT(*) FILTER (WHERE settles IS NOT NULL OR call IN ('open', 'creat', 'close', 'lseek')) OVER w AS turn
            FROM settled
            WINDOW w AS (PARTITION BY host, pid, number ORDER BY ts, line ROWS UNBOUNDED PRECEDING)
        ),
        moved AS (
            SELECT *,
                MAX(settles) OVER v AS base,
                COALESCE(SUM(CASE WHEN call IN ('read', 'readv', 'write', 'writev') AND ret > 0 THEN ret END) OVER b, 0) AS before
            FROM counted
            WINDOW
                v AS (PARTITION BY host, pid, number, turn),
                b AS (PARTITION BY host, pid, number, turn ORDER BY ts, line ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
        )
        SELECT
            ts, dur, host, pid, tid, call, path, fd, ret, size, flags,
            CASE
                WHEN call IN ('pread', 'preadv', 'pwrite', 'pwritev', 'fallocate') THEN place
                WHEN call IN ('read', 'readv', 'write', 'writev') AND number IS NOT NULL THEN CAST(base + before AS BIGINT)
            END AS pos
        FROM moved ORDER BY line"""
    rows = BlockRows(job, of_calls=True)
    actors: dict[tuple[str, int, int], Actor] = {}
    [[first]] = connection.execute("SELECT MIN(ts) FROM event").fetchall()
    if (first or 0) < _WALL:
        job.relative("us")
        base = 946_684_800 * 10**9
    else:
        job.absolute("us since 1970")
        base = 0
    codes = {name: job.output.call[name] for name in set(CALLS.values())}
    for batch in connection.sql(query).to_arrow_reader(1 << 16):
        if not batch.num_rows:
            continue
        column = {name: batch.column(name) for name in batch.schema.names}

        def number(name: str, missing: int = -1, column: dict[str, Any] = column) -> Any:
            return column[name].fill_null(missing).to_numpy(zero_copy_only=False).astype(np.int64)

        names = column["call"].dictionary_encode()
        call = np.array([codes[name] for name in names.dictionary.to_pylist()])[names.indices.to_numpy()]
        paths = column["path"].dictionary_encode()
        ids = pa.array(
            [None if path is None else rows.file(path) for path in paths.dictionary.to_pylist()], pa.int64()
        )
        file = ids.take(paths.indices)
        keys = list(
            zip(column["host"].to_pylist(), column["pid"].to_pylist(), column["tid"].to_pylist(), strict=True)
        )
        for host, pid, tid in set(keys) - actors.keys():
            actors[host, pid, tid] = _actor(job, len(actors), host or job.node, pid or 0, tid or 0)
        who = np.fromiter((actors[key].code for key in keys), np.int64, len(keys))
        dur = number("dur")
        returned = number("ret")
        moves = np.isin(names.indices.to_numpy(), [
            at for at, name in enumerate(names.dictionary.to_pylist())
            if name in ("read", "pread", "readv", "preadv", "fread", "write", "pwrite", "writev", "pwritev", "fwrite")
        ])  # fmt: skip
        known = column["ret"].is_valid().to_numpy(zero_copy_only=False)
        # what a call returned isn't in every version: then nothing says that it moved bytes
        result = pa.array(np.where(known, returned, 0), mask=~known & moves)
        size = number("size")
        rows.add_calls(
            {
                "ts": base + number("ts") * 1000,
                "dur": np.where(dur < 0, -1, dur * 1000),
                "call": call,
                "file": file,
                "fd": column["fd"],
                "pos": pa.array(
                    number("pos"),
                    mask=~column["pos"].is_valid().to_numpy(zero_copy_only=False) | (number("pos") < 0),
                ),
                "length": pa.array(size, mask=size < 0),
                "result": result,
                "flags": column["flags"],
            },
            batch.num_rows,
            who,
            {actor.code: actor.thread for actor in actors.values()},
        )
    rows.finish(actors.values())


def _actor(job: Job, code: int, host: str, pid: int, tid: int) -> Actor:
    process = process_id(host, pid)
    name = f"pid {pid} on {host}" if pid else host
    return Actor(code, process, thread_id(process, tid), pid, tid, name, None)

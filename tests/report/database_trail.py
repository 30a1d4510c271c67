"""Make a trail as a database under load would leave it: for tests of the report and its benchmark.

Six backends run transactions (page reads at random, a WAL write, its fdatasync, then a wait for the
client), a checkpointer writes pages in phases and syncs them beside a thread that keeps the control file,
a client waits on sockets. No two calls of a thread overlap, as in a real program. Everything is drawn from
hashes of row numbers, so that a trail of the same size is the same each time.
"""

from pathlib import Path

import duckdb
import pyarrow as pa

START = 1_760_000_000_123_456_789
BACKENDS = 6
CLIENTS = 4
# Rows of file_op a transaction leaves: five reads, a write, a sync.
PER_TRANSACTION = 7

_HELPERS = """
CREATE MACRO u(i, salt) AS ((hash(i * 1000003 + salt) % 1048573) + 1) / 1048575.0;
CREATE MACRO lognormal(i, salt, median, sigma) AS
    median * exp(sigma * sqrt(-2 * ln(u(i, salt))) * cos(6.283185307 * u(i, salt + 1)));
"""


def tables(ops: int = 60_000, seconds: float = 60.0, markup: bool = True) -> dict[str, pa.Table]:
    """The tables of a trail of about `ops` file operations within `seconds`. With `markup`, a path holds HTML."""
    transactions = max(1, round(ops * 0.95 / BACKENDS / PER_TRANSACTION))
    pages = max(1, ops - transactions * BACKENDS * PER_TRANSACTION)
    length = round(seconds * 1e9)
    db = duckdb.connect(config={"memory_limit": "2GB"})
    db.execute(_HELPERS)
    odd = "/srv/pg/base/<img src=x onerror=alert(1)></script>&amp;" if markup else "/srv/pg/base/16384/2619"
    paths = [
        "/srv/pg/pg_wal/000000010000000000000001",
        "/srv/pg/base/16384/16397",
        "/srv/pg/base/16384/16402",
        "/srv/pg/base/16384/16405",
        odd,
        "/srv/pg/global/pg_control",
    ]
    files = pa.table(
        {"node": ["db1"] * len(paths), "file": list(range(1001, 1001 + len(paths))), "path": paths}
    )
    backends = f"SELECT CAST(b AS BIGINT) AS b FROM range({BACKENDS}) AS r(b)"
    # One transaction takes `slot` ns; within it reads, write and sync have places that can't overlap.
    slot = length // (transactions + 1)
    file_op = db.sql(f"""
    WITH backend AS ({backends}),
    txn AS (
        SELECT b, k, b * 100000000 + k AS id,
            {START} + CAST(k AS BIGINT) * {slot} + CAST(u(b * 100000000 + k, 1) * {slot} * 0.05 AS BIGINT) AS t0,
            -- every sixth of the run a checkpoint makes reads and syncs slower
            CASE WHEN (k * 6.0 / {transactions}) % 1 > 0.7 THEN 3.0 ELSE 1.0 END AS slow
        FROM backend, range({transactions}) AS r(k)
    ),
    read AS (
        SELECT b, id * 8 + s AS id, t0 + CAST(s * 0.07 * {slot} AS BIGINT) AS ts,
            CAST(least(lognormal(id * 8 + s, 11, CASE WHEN u(id * 8 + s, 15) < 0.8 THEN 3000 ELSE 180000 END, 0.5)
                * slow, 0.06 * {slot}) AS BIGINT) AS dur,
            'pread' AS call, 1002 + CAST(floor(3.4 * pow(u(id * 8 + s, 3), 2)) AS BIGINT) AS file,
            8192 * CAST(floor(16000 * pow(u(id * 8 + s, 4), 3)) AS BIGINT) AS pos, 8192 AS length, 8192 AS result,
            0 AS errno
        FROM txn, range(5) AS r(s)
    ),
    wal AS (
        SELECT b, id * 8 + 5 AS id, t0 + CAST(0.36 * {slot} AS BIGINT) AS ts,
            CAST(least(lognormal(id, 21, 9000, 0.4), 0.04 * {slot}) AS BIGINT) AS dur,
            'pwrite' AS call, 1001 AS file, 8192 * (k * {BACKENDS} + b) % 16777216 AS pos, 8192 AS length,
            8192 AS result, 0 AS errno
        FROM txn
    ),
    sync AS (
        SELECT b, id * 8 + 6 AS id, t0 + CAST(0.41 * {slot} AS BIGINT) AS ts,
            CAST(least(lognormal(id, 31, 900000, 0.5) * slow, 0.35 * {slot}) AS BIGINT) AS dur,
            'fdatasync' AS call, 1001 AS file, NULL AS pos, NULL AS length, 0 AS result, 0 AS errno
        FROM txn
    ),
    checkpoint AS (
        SELECT {BACKENDS} AS b, 700000000000 + i AS id,
            {START} + CAST({length} / 6.0 * (floor(i * 6.0 / {pages}) + 0.7 + 0.29 * ((i * 6.0 / {pages}) % 1)) AS BIGINT)
                AS ts,
            CAST(least(lognormal(i, 41, 25000, 0.6), 0.04 * {length} / {pages}) AS BIGINT) AS dur,
            CASE WHEN i % 97 = 96 THEN 'fsync' ELSE 'pwrite' END AS call, 1002 + i % 3 AS file,
            CASE WHEN i % 97 = 96 THEN NULL ELSE 8192 * CAST(floor(16000 * ((i * 6.0 / {pages}) % 1)) AS BIGINT) END
                AS pos,
            CASE WHEN i % 97 = 96 THEN NULL ELSE 8192 END AS length,
            CASE WHEN i % 97 = 96 THEN 0 ELSE 8192 END AS result, 0 AS errno
        FROM range({pages}) AS r(i)
    ),
    control AS (
        SELECT {BACKENDS} + 1 AS b, 800000000000 + i AS id, {START} + {length} // 100 * i AS ts, 1500 + i AS dur,
            CASE i % 3 WHEN 0 THEN 'open' WHEN 1 THEN 'fstat' ELSE 'close' END AS call,
            CASE WHEN i % 7 = 0 THEN 1005 ELSE 1006 END AS file, NULL AS pos, NULL AS length,
            CASE WHEN i % 14 = 0 THEN -1 ELSE 0 END AS result, CASE WHEN i % 14 = 0 THEN 2 ELSE 0 END AS errno
        FROM range(60) AS r(i)
    ),
    call AS (
        SELECT * FROM read UNION ALL SELECT * FROM wal UNION ALL SELECT * FROM sync
        UNION ALL SELECT * FROM checkpoint UNION ALL SELECT * FROM control
    )
    SELECT ts, dur, 'db1' AS node, CAST(11 + b AS BIGINT) AS thread, CAST(0 AS BIGINT) AS crumb, call,
        CAST(file AS BIGINT) AS file, CAST(pos AS BIGINT) AS pos, CAST(length AS BIGINT) AS length,
        CAST(result AS BIGINT) AS result, CAST(errno AS BIGINT) AS errno, CAST(1 AS BIGINT) AS calls
    FROM call
    """).to_arrow_table()
    sync_op = db.sql(f"""
    WITH wait AS (
        SELECT CAST(11 + b AS BIGINT) AS thread, {START} + CAST(k AS BIGINT) * {slot} + CAST(0.82 * {slot} AS BIGINT) AS ts,
            CAST(0.15 * {slot} AS BIGINT) AS dur, 'recv' AS call, 'socket' AS kind
        FROM range({BACKENDS}) AS r(b), range({transactions}) AS q(k)
        UNION ALL
        SELECT CAST(31 + c AS BIGINT), {START} + CAST(k AS BIGINT) * {slot}, CAST(0.9 * {slot} AS BIGINT), 'epoll_wait', 'poll'
        FROM range({CLIENTS}) AS r(c), range({transactions}) AS q(k)
        UNION ALL
        SELECT 11 + {BACKENDS}, {START} + CAST({length} / 6.0 * i AS BIGINT), CAST({length} / 6.0 * 0.65 AS BIGINT), 'sleep', 'sleep'
        FROM range(6) AS r(i)
    )
    SELECT CAST(ts AS BIGINT) AS ts, dur, 'db1' AS node, CAST(thread AS BIGINT) AS thread, CAST(0 AS BIGINT) AS crumb,
        call, kind, CAST(0 AS BIGINT) AS result, CAST(0 AS BIGINT) AS errno
    FROM wait
    """).to_arrow_table()
    stop = START + length + 40_000_000
    names = ["postgres"] * (BACKENDS + 1) + ["pgbench"]
    commands = [f"postgres: bench bench [local] backend {i}" for i in range(BACKENDS)]
    commands += ["postgres: checkpointer", "pgbench -c 6 -j 4 -T 60 bench"]
    process = pa.table(
        {
            "node": ["db1"] * 8,
            "process": [101 + i for i in range(8)],
            "pid": [4200 + i for i in range(8)],
            "name": names,
            "start_ts": [START - 30_000_000] * 8,
            "end_ts": [stop] * 8,
            "exe": ["/usr/lib/postgresql/15/bin/postgres"] * 7 + ["/usr/bin/pgbench"],
            "cmd": commands,
            "ended": ["exit"] * 8,
            "status": [0] * 8,
        }
    )
    threads = [11 + i for i in range(BACKENDS + 2)] + [31 + i for i in range(CLIENTS)]
    thread = pa.table(
        {
            "node": ["db1"] * len(threads),
            "thread": threads,
            "pid": [4200 + i for i in range(BACKENDS + 1)] + [4206] + [4207] * CLIENTS,
            "tid": [4200 + i for i in range(BACKENDS + 1)] + [4216] + [4207 + i for i in range(CLIENTS)],
            "process": [101 + i for i in range(BACKENDS + 1)] + [107] + [108] * CLIENTS,
            "start_ts": [START - 30_000_000] * len(threads),
            "end_ts": [stop] * len(threads),
        }
    )
    recording = {
        "command": "pgbench -c 6 -j 4 -T 60 bench",
        "host": "db1.example",
        "kernel": "Linux 6.1.0-13-amd64 x86_64",
        "cpus": "8",
        "memory": "33675751424",
        "version": "iotrail 0.1.0",
        "mount /srv/pg": "ext4 /dev/nvme0n1p2 rw,noatime",
        "dropped": "0",
        "exit_status": "0",
    }
    unseen = pa.table(
        {
            "node": ["db1", "db1"],
            "kind": ["mapped_file", "static_program"],
            "process": pa.array([101, None], pa.int64()),
            "file": pa.array([1006, None], pa.int64()),
            "amount": [1_048_576, 1],
            "detail": ["Page faults of mapped files are not calls.", "busybox is linked statically."],
        }
    )
    return {
        "file_op": file_op,
        "sync_op": sync_op,
        "process": process,
        "thread": thread,
        "file": files,
        "clock": pa.table(
            {
                "ts": [START - 30_000_000, stop],
                "node": ["db1", "db1"],
                "wall": [START - 30_000_000, stop],
                "event": ["start", "end"],
            }
        ),
        "recording": pa.table(
            {"node": ["db1"] * len(recording), "name": list(recording), "value": list(recording.values())}
        ),
        "unseen": unseen,
    }


def streams(made: dict[str, pa.Table], folder: Path) -> list[str]:
    """Write the tables as Arrow streams; returns the arguments `iotrail-native ingest` takes."""
    folder.mkdir(parents=True, exist_ok=True)
    arguments = []
    for name, table in made.items():
        path = folder / f"{name}.arrows"
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        arguments.append(f"{name}={path}")
    return arguments

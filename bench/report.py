"""How long a report of ten million operations takes, in what memory, and how large its page is."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from measure import ROOT, Spread, console, keep, scratch, table
from recorders import NATIVE

sys.path.insert(0, str(ROOT))
from tests.report import database_trail

OPERATIONS = 10_000_000
ROUNDS = 3

# The worst case for sums by thread, file and call: 4 processes of 4 threads, each of which uses each of 200 files
# as often as any other, at random. Everything follows from the row's number, so that each run makes the same trail.
THREADS, FILES = 16, 200
START = 1_700_000_000_000_000_000
OPERATION = f"""
    WITH drawn AS (
        SELECT i, i % {THREADS} AS t,
            hash(i) % 100 AS what, hash(i, 1) % 1000000 AS luck, hash(i, 2) AS place
        FROM range({{operations}}) AS numbers(i)
    )
    SELECT {START} + i // {THREADS} * 60000 + t * 100 AS ts,
        CAST(CASE WHEN what < 4 THEN 50000 + luck % 9000 WHEN luck < 500 THEN 45000
            ELSE 800 + luck // 100 END AS BIGINT) AS dur,
        'bench' AS node, t + 1 AS thread, 0 AS crumb,
        CASE WHEN what < 4 THEN 'fdatasync' WHEN what < 64 THEN 'pread' WHEN what < 90 THEN 'pwrite'
            WHEN what < 94 THEN 'open' WHEN what < 98 THEN 'close' ELSE 'stat' END AS call,
        CAST(place % {FILES} + 1 AS BIGINT) AS file,
        CASE WHEN what BETWEEN 4 AND 89 THEN CAST(place // 1000 % 131072 * 8192 AS BIGINT) END AS pos,
        CASE WHEN what BETWEEN 4 AND 89 THEN 8192 END AS length,
        CASE WHEN what BETWEEN 4 AND 89 THEN 8192 ELSE 0 END AS result,
        CAST(place % {FILES} + 3 AS BIGINT) AS fd, 0 AS errno, 1 AS calls
    FROM drawn ORDER BY thread, ts
"""
PROCESS = f"""
    SELECT 'bench' AS node, p + 1 AS process, 1000 + p AS pid, 'server' AS name, {START} AS start_ts,
        {START} + 60000::BIGINT * ({{operations}} // {THREADS}) AS end_ts, 'exit' AS ended, 0 AS status
    FROM range(4) AS numbers(p)
"""
THREAD = f"""
    SELECT 'bench' AS node, t + 1 AS thread, 1000 + t % 4 AS pid, 1000 + t AS tid, t % 4 + 1 AS process,
        {START} AS start_ts, {START} + 60000::BIGINT * ({{operations}} // {THREADS}) AS end_ts
    FROM range({THREADS}) AS numbers(t)
"""
FILE = f"""
    SELECT 'bench' AS node, f + 1 AS file, printf('/data/base/%05d', f) AS path
    FROM range({FILES}) AS numbers(f)
"""


def database(folder: Path) -> list[str]:
    """Streams of a database under load: a few files have most of the calls."""
    return database_trail.streams(database_trail.tables(OPERATIONS, 600, markup=False), folder)


def scattered(folder: Path) -> list[str]:
    """Streams of the worst case."""
    streams = []
    for name, query in {"file_op": OPERATION, "process": PROCESS, "thread": THREAD, "file": FILE}.items():
        path = folder / f"{name}.arrows"
        reader = duckdb.sql(query.format(operations=OPERATIONS)).to_arrow_reader(1 << 17)
        # DuckDB gives small numbers smaller types; all integers of a trail are 64-bit.
        schema = pa.schema(
            [pa.field(f.name, pa.int64() if pa.types.is_integer(f.type) else f.type) for f in reader.schema]
        )
        with pa.ipc.new_stream(str(path), schema) as stream:
            for batch in reader:
                stream.write_batch(batch.cast(schema))
        streams.append(f"{name}={path}")
    return streams


def measure(trail: Path, page: Path) -> dict[str, Any]:
    """Report a trail ROUNDS times."""
    seconds, cpu, memory = [], [], []
    for _ in range(ROUNDS):
        page.unlink(missing_ok=True)
        began = time.monotonic()
        process = subprocess.Popen(
            [sys.executable, "-m", "iotrail", "report", str(trail), "-o", str(page)],
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
        )
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            raise SystemExit(f"bench: error: iotrail report ended with status {process.returncode}")
        seconds.append(time.monotonic() - began)
        cpu.append(used.ru_utime + used.ru_stime)
        memory.append(used.ru_maxrss * 1024)
    return {"seconds": seconds, "cpu": cpu, "memory": memory, "page": page.stat().st_size}


def bench() -> None:
    """Measure and print."""
    shape = table(
        f"Report of {OPERATIONS:,} operations, median of {ROUNDS} rounds (least–most)",
        ["trail", "seconds", "CPU seconds", "memory, MB", "page, MB"],
    )
    kept = {}
    for name, streams in (("a database under load", database), ("every thread on every file", scattered)):
        with scratch() as folder:
            trail = folder / "ten.trail"
            subprocess.run([str(NATIVE), "ingest", "-o", str(trail), *streams(folder)], check=True)
            kept[name] = measure(trail, folder / "ten.html")
        shape.add_row(
            name,
            Spread.of(kept[name]["seconds"]).text(".1f"),
            Spread.of(kept[name]["cpu"]).text(".1f"),
            Spread.of([m / 1e6 for m in kept[name]["memory"]]).text(",.0f"),
            f"{kept[name]['page'] / 1e6:.1f}",
        )
    console.print(shape)
    keep("report", operations=OPERATIONS, trails=kept)

"""How long questions about requests take in a trail of 20 million records of 2 million requests."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from iotrail import schema
from iotrail.requests import graph, walk
from iotrail.requests.find import Chosen
from iotrail.trail import Trail
from measure import SEED, Spread, console, keep, scratch, table
from recorders import NATIVE

REQUESTS = int(os.environ.get("BENCH_REQUESTS", "2_000_000"))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
# Requests generated at a time, so that memory stays bounded.
CHUNK = 200_000
START = 1_700_000_000_000_000_000
HOUR = 3_600_000_000_000
STORAGE = 4
CLIENTS = 20
ARROW = {"BIGINT": pa.int64(), "VARCHAR": pa.string()}

Columns = dict[str, Any]
Rows = dict[str, list[Columns]]


def generate(rng: np.random.Generator, first: int, count: int) -> Rows:
    """The records of some requests: a head's reads that hit, reads that miss and go to one of four storage nodes,
    and writes, of which four are flushed together to two of them. 10.1 records a request."""
    rows: Rows = {}

    def post(table: str, **columns: Any) -> None:
        rows.setdefault(table, []).append(columns)

    def call(parent: Any, crumb: Any, ts: Any, op: str, sent: int, back: int, length: int) -> None:
        """A call of a storage node whose clock is hours apart, and its serving."""
        node = rng.integers(0, STORAGE, len(ts))
        name = np.array([f"store{i}" for i in range(STORAGE)])[node]
        took = rng.integers(200_000, 4_000_000, len(ts))
        post("stitch", node="head", crumb=crumb, ts=ts, parent_node="head", parent_crumb=parent, kind="split")
        post(
            "service_op",
            node="head",
            crumb=crumb,
            ts=ts,
            dur=took + 60_000,
            component="head",
            kind="client",
            op=op,
            length=length,
        )
        post(
            "network_transmit",
            node="head",
            crumb=crumb,
            ts=ts + 3_000,
            sender="head",
            receiver="store",
            length=sent,
        )
        there = ts + (node + 1) * HOUR
        post("stitch", node=name, crumb=there, ts=there, parent_node="head", parent_crumb=crumb, kind="rpc")
        post(
            "service_op",
            node=name,
            crumb=there,
            ts=there,
            dur=took,
            component="store",
            kind="server",
            op=op,
            length=length,
        )
        post(
            "buffer_op",
            node=name,
            crumb=there,
            ts=there + 5_000,
            component="store",
            cache="pages",
            kind="read_miss" if op == "read" else "write",
            length=length,
        )
        post(
            "disk_op",
            node=name,
            crumb=there,
            ts=there + 10_000,
            dur=took - 30_000,
            issued=there + 50_000,
            kind="program",
            dev="sda",
            op=op,
            length=length,
        )
        post(
            "network_transmit",
            node=name,
            crumb=there,
            ts=there + took - 2_000,
            sender="store",
            receiver="head",
            length=back,
        )
        post(
            "cpu_slice",
            node=name,
            crumb=there,
            ts=there,
            dur=rng.integers(3_000, 9_000, len(ts)),
            kind="kernel",
        )

    i = np.arange(first, first + count)
    # breadcrumbs are moments: of requests multiples of 10, of what is below them not
    ts = START + i * 10_000 + rng.integers(0, 500, count) * 10
    kind = rng.choice(3, count, p=[0.2, 0.4, 0.4])
    op = np.array(["read", "read", "write"])[kind]
    dur = rng.integers(20_000, 60_000, count) + np.where(kind == 1, 4_200_000, 0)
    client = np.array([f"client{c:02}" for c in range(CLIENTS)])[rng.zipf(1.5, count) % CLIENTS]
    post(
        "service_op",
        node="head",
        crumb=ts,
        ts=ts,
        dur=dur,
        component="head",
        kind="server",
        op=op,
        client=client,
        length=8192,
    )
    post(
        "buffer_op",
        node="head",
        crumb=ts,
        ts=ts + 4_000,
        component="head",
        cache="pages",
        kind=np.array(["read_hit", "read_miss", "write"])[kind],
        length=8192,
    )
    post(
        "network_transmit",
        node="head",
        crumb=ts,
        ts=ts + dur - 1_000,
        sender="head",
        receiver="client",
        length=8292,
    )
    post("cpu_slice", node="head", crumb=ts, ts=ts, dur=rng.integers(3_000, 15_000, count), kind="kernel")
    miss = ts[kind == 1]
    call(miss, miss + 5_001, miss + 8_000, "read", 150, 8292, 8192)
    write = ts[kind == 2]
    group = write[: len(write) // 4 * 4].reshape(-1, 4)
    at = group[:, 3] + 5_000_002
    post(
        "stitch",
        node="head",
        crumb=np.repeat(at, 4),
        ts=np.repeat(at, 4),
        parent_node="head",
        parent_crumb=group.ravel(),
        kind="coalesce",
        weight=8192,
    )
    post(
        "service_op",
        node="head",
        crumb=at,
        ts=at,
        dur=4_500_000,
        component="head",
        kind="internal",
        op="flush",
        length=32768,
    )
    post(
        "buffer_op",
        node="head",
        crumb=at,
        ts=at + 1_000,
        component="head",
        cache="pages",
        kind="flush",
        length=32768,
    )
    post("cpu_slice", node="head", crumb=at, ts=at, dur=8_000, kind="kernel")
    for replica in (1, 2):
        call(at, at + replica, at + 10_000 * replica, "write", 32868, 100, 32768)
    return rows


def batches(rows: Rows) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Rows as the trail's tables have them."""
    given = {"thread": 1, "dur": 0, "status": 0, "weight": 1, "merged": 0}
    for name, parts in rows.items():
        columns = schema.load().tables[name].columns
        for part in parts:
            length = max(len(v) for v in part.values() if isinstance(v, np.ndarray))
            arrays = []
            for column in columns:
                value = part.get(column.name, given.get(column.name))
                kind = ARROW[column.type]
                if isinstance(value, np.ndarray):
                    arrays.append(pa.array(value, kind))
                else:
                    arrays.append(pa.repeat(pa.scalar(value, kind), length))
            yield name, pa.record_batch(arrays, names=[c.name for c in columns])


def make(folder: Path) -> int:
    """Make in a folder `requests.trail`, and `asked.parquet`, the requests asked about; how many records it has."""
    rng = np.random.default_rng(SEED)
    records = 0
    tables = ("service_op", "stitch", "buffer_op", "network_transmit", "disk_op", "cpu_slice")
    with ExitStack() as stack:
        writers = {}
        for name in tables:
            fields = [(c.name, ARROW[c.type]) for c in schema.load().tables[name].columns]
            writers[name] = stack.enter_context(
                pa.ipc.new_stream(str(folder / f"{name}.arrows"), pa.schema(fields))
            )
        for first in range(0, REQUESTS, CHUNK):
            for name, batch in batches(generate(rng, first, min(CHUNK, REQUESTS - first))):
                writers[name].write_batch(batch)
                records += batch.num_rows
    trail = folder / "requests.trail"
    streams = [f"{name}={folder / name}.arrows" for name in tables]
    subprocess.run([str(NATIVE), "ingest", "-o", str(trail), *streams], check=True)
    for name in tables:
        (folder / f"{name}.arrows").unlink()
    opened = Trail(trail)
    # the first is a write, whose path is the deepest
    first = opened.query("SELECT node, crumb FROM request ORDER BY op = 'read', hash(crumb) LIMIT 1")
    spread = opened.query("SELECT node, crumb FROM request ORDER BY hash(crumb) LIMIT 10000")
    first.union(spread).write_parquet(str(folder / "asked.parquet"))
    return records


def paths(trail: Trail, roots: str) -> int:
    """The records of the paths of these breadcrumbs."""
    walk.down(trail, roots)
    walk.keep(trail)
    return int(trail.query("SELECT * FROM record").to_arrow_table().num_rows)


def one_path(trail: Trail) -> int:
    """A write, its flush, and the two storage nodes."""
    return paths(trail, "SELECT * FROM asked LIMIT 1")


def many_paths(trail: Trail) -> int:
    """Requests spread over the trail."""
    return paths(trail, "SELECT * FROM asked")


def demand(trail: Trail) -> int:
    """What each client used of each resource."""
    trail.number_nodes()
    return len(
        trail.rows_of(
            "SELECT client, resource, SUM(n) AS n, SUM(time_ns) AS time_ns, SUM(bytes) AS bytes FROM demand GROUP BY ALL"
        )
    )


def latency_graph(trail: Trail) -> int:
    """Steps and critical paths of all requests."""
    return len(graph.collect(trail, Chosen()).edges)


# Question, what the design asks of it in seconds.
QUESTIONS: dict[str, tuple[Callable[[Trail], int], float]] = {
    "one path": (one_path, 0.03),
    "10,000 paths": (many_paths, 1.0),
    "demand per client": (demand, 1.5),
    "latency graph": (latency_graph, 6.0),
}


def ask(question: str, path: Path, crumbs: Path) -> None:
    """In a process of its own, so that nothing is warm but the page cache: print seconds and rows."""
    trail = Trail(path)
    trail.connection.execute("SET memory_limit = '2GB'")
    trail.connection.execute(f"CREATE TEMP TABLE asked AS FROM '{crumbs}'")
    began = time.monotonic()
    rows = QUESTIONS[question][0](trail)
    print(json.dumps({"seconds": time.monotonic() - began, "rows": rows}))


def measured(command: list[str]) -> tuple[str, float, int]:
    """Output, seconds and memory in bytes of a command."""
    began = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    output = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"bench: error: {' '.join(command)} ended with status {process.returncode}")
    return output, time.monotonic() - began, used.ru_maxrss * 1024


def bench() -> None:
    """Measure and print."""
    with scratch() as folder:
        # a child's largest memory counts from its parent's: keep ours small
        made = subprocess.run(
            [sys.executable, __file__, "make", str(folder)], check=True, capture_output=True, text=True
        )
        trail, records = folder / "requests.trail", int(made.stdout)
        size = sum(file.stat().st_size for file in trail.rglob("*.parquet"))
        crumbs = folder / "asked.parquet"
        crumb = pq.read_table(crumbs)["crumb"][0].as_py()
        shape = table(
            f"Questions about {REQUESTS:,} requests, {records:,} records ({size / records:.1f} bytes each), "
            f"median of {ROUNDS} (least–most)",
            ["question", "rows", "seconds", "goal", "memory, MB"],
        )
        kept = {}
        for question, (_, goal) in QUESTIONS.items():
            command = [sys.executable, __file__, question, str(trail), str(crumbs)]
            runs = [measured(command) for _ in range(ROUNDS)]
            answers = [json.loads(output) for output, _, _ in runs]
            seconds = [answer["seconds"] for answer in answers]
            memory = [used for _, _, used in runs]
            rows = answers[0]["rows"]
            kept[question] = {"seconds": seconds, "memory": memory, "rows": rows}
            shape.add_row(
                question,
                f"{rows:,}",
                Spread.of(seconds).text(".3f"),
                f"{goal:g}",
                f"{max(memory) / 1e6:,.0f}",
            )
        command = [sys.executable, "-m", "iotrail", "path", str(trail), "--crumb", str(crumb)]
        whole = [measured(command) for _ in range(ROUNDS)]
        seconds = [took for _, took, _ in whole]
        kept["iotrail path"] = {"seconds": seconds}
        shape.add_row(
            "iotrail path --crumb, the whole command",
            "",
            Spread.of(seconds).text(".3f"),
            "",
            f"{max(m for _, _, m in whole) / 1e6:,.0f}",
        )
    console.print(shape)
    keep("requests_query", requests=REQUESTS, records=records, bytes=size, questions=kept)


if __name__ == "__main__":
    if sys.argv[1] == "make":
        print(make(Path(sys.argv[2])))
    else:
        ask(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))

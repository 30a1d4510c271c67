"""Runs of a simulated program: the same work each time, on a machine whose mood drifts.

Each round preads 4 KiB at random, preads 64 KiB in order, pwrites 4 KiB, asks for the size, and computes; each
hundredth round fsyncs. All times carry a slow common factor (a random walk that returns, as a neighbour or the
processor's clock makes it), noise of their own, and now and then a call is preempted.
"""

import subprocess
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa

from iotrail import native, schema

START = 1_700_000_000_000_000_000
ARROW = {"BIGINT": pa.int64(), "VARCHAR": pa.string(), "DOUBLE": pa.float64()}
# Call -> typical latency in ns, file, length.
CALLS = {
    "pread": (1500, 1, 4096),
    "read": (6000, 2, 65536),
    "pwrite": (3000, 1, 4096),
    "fstat": (800, 1, None),
}
FSYNC = 400_000
PATHS = {1: "/srv/run/data.db", 2: "/srv/run/input/big"}


def program(
    seed: int,
    rounds: int = 4000,
    slower: Mapping[str, float] | None = None,
    machine: float = 1.0,
    paths: Mapping[int, str] = PATHS,
    skip: frozenset[str] = frozenset(),
    large: int = 65536,
    ordered: bool = False,
    fsync_every: int = 100,
    thread: int = 11,
    name: str | None = None,
    after: int = 0,
) -> dict[str, pa.Table]:
    """The tables of a run. `seed` is of the machine's mood: the work is always the same.
    `after`: how many runs were before it, a minute each."""
    mood, work = np.random.default_rng(seed), np.random.default_rng(1)
    slower = slower or {}
    calls = [*(call for call in CALLS if call not in skip), "fsync"]
    per_round = len(calls)
    # an AR(1) process of slowly returning memory
    drift = np.zeros(rounds)
    for i, step in enumerate(mood.normal(0, 0.006, rounds)):
        drift[i] = 0.995 * drift[i - 1] + step
    common = machine * np.exp(drift)
    columns: dict[str, list[np.ndarray]] = {key: [] for key in ("call", "dur", "file", "pos", "length")}
    places = work.integers(0, 10_000, rounds) * 4096
    for call in calls:
        typical, file, length = CALLS.get(call, (FSYNC, 1, None))
        noise = np.exp(mood.normal(0, 0.15, rounds))
        late = np.where(mood.random(rounds) < 0.002, mood.exponential(100_000, rounds), 0)
        columns["dur"].append(typical * slower.get(call, 1.0) * common * noise + late)
        columns["call"].append(np.full(rounds, call))
        columns["file"].append(np.full(rounds, file))
        size = large if call == "read" else length
        at = {
            "pread": np.arange(rounds) * 4096 if ordered else places,
            "read": np.arange(rounds) * (size or 0),
        }
        columns["pos"].append(at.get(call, np.arange(rounds) * 4096) if length else np.full(rounds, -1))
        columns["length"].append(np.full(rounds, size if length else -1))
    flat = {key: np.stack(arrays, axis=1).ravel() for key, arrays in columns.items()}
    gaps = np.repeat(2000 * common, per_round) * np.exp(mood.normal(0, 0.1, rounds * per_round))
    keep = (flat["call"] != "fsync") | (np.repeat(np.arange(rounds), per_round) % fsync_every == 0)
    flat = {key: values[keep] for key, values in flat.items()}
    dur = flat["dur"].astype(np.int64)
    begin = np.cumsum(gaps[keep].astype(np.int64) + dur) - dur
    count = len(dur)
    known = flat["length"] >= 0
    start = START + after * 60 * 10**9
    file_op = {
        "ts": start + begin, "dur": dur, "node": ["n"] * count, "thread": np.full(count, thread),
        "crumb": np.zeros(count, dtype=np.int64), "call": flat["call"], "file": flat["file"],
        "pos": pa.array(flat["pos"], mask=~known), "length": pa.array(flat["length"], mask=~known),
        "result": np.where(known, flat["length"], 0), "errno": np.zeros(count, dtype=np.int64),
        "calls": np.ones(count, dtype=np.int64),
    }  # fmt: skip
    end = int(start + begin[-1] + dur[-1] + 1000)
    return {
        "file_op": pa.table(file_op),
        "file": pa.table({"node": ["n"] * len(paths), "file": list(paths), "path": list(paths.values())}),
        "process": pa.table(
            {"node": ["n"], "process": [1], "pid": [100], "name": ["app"], "start_ts": [start], "end_ts": [end],
             "ended": ["exit"], "status": [0]}
        ),
        "thread": pa.table(
            {"node": ["n"], "thread": [thread], "pid": [100], "tid": [100], "process": [1],
             "name": pa.array([name], pa.string()), "start_ts": [start], "end_ts": [end]}
        ),
    }  # fmt: skip


def write(tables: Mapping[str, pa.Table], trail: Path) -> Path:
    """Write a trail of tables, through the one trail writer."""
    streams = []
    for name, table in tables.items():
        kinds = {column.name: ARROW[column.type] for column in schema.load().tables[name].columns}
        table = table.cast(pa.schema([(column, kinds[column]) for column in table.column_names]))
        path = trail.with_name(f"{trail.stem}-{name}.arrow")
        with pa.ipc.new_stream(path, table.schema) as stream:
            stream.write_table(table)
        streams.append(f"{name}={path}")
    subprocess.run([native.binary(), "ingest", "-o", trail, *streams], check=True, stdout=subprocess.DEVNULL)
    return trail

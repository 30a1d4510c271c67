"""Miss ratios of peers of workload models: what fio makes of a trace's aggregates, and the trace generator of 2DIO of its pages.

fio runs the jobs that `iotrail model export fio` writes, without and with zones, on its null engine, so that nothing but its choice
of directions, sizes and places is asked for. Each device has as many requests as the trace, evenly in its time.

"2DIO: A Cache-Accurate Storage Microbenchmark"; its package trace_gen (github.com/Effygal/trace-gen) is installed in the virtual
environment that BENCH_TRACE_GEN names. It knows pages only, no requests, directions or times. Its parameters are the distribution
of the distances between uses of a page, in 100 classes, and the share of references that are independent of them (Zipf).
The package has a method that takes both from a trace, and as share that of the pages which are used once; its documentation says to
try parameters until the curve fits. So other shares are tried too, with pages that are used once among the distances.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from iotrail.model import fio
from iotrail.model.check import compare_requests, read_requests
from iotrail.model.figures import PAGE_BYTES
from iotrail.model.fit import Model
from iotrail.trail import Trail

# Shares of independent references that are tried.
INDEPENDENT = (0.0, 0.25, 0.5, 0.75)
SEED = 1
UNDER = Path(__file__).with_name("under_trace_gen.py")
# Options of exported jobs that say when requests come, and how. With more in flight the null engine logs each twice.
TIMED = ("rate", "time_based", "runtime", "ioengine", "iodepth", "direct")


@dataclass(frozen=True)
class Peer:
    """How far the miss ratios of a generated trace are off."""

    name: str
    # mean absolute difference, by policy
    errors: dict[str, float | None]
    # to fit and to generate
    seconds: float


def generate(model: Model, original: pa.Table, policies: Sequence[str], folder: Path) -> tuple[Peer, ...]:
    """What 2DIO generates: from all distances, with the parameters of its own method, and the closest in LRU of those that are tried.
    Nothing where it isn't there."""
    environment = os.environ.get("BENCH_TRACE_GEN")
    if environment is None:
        return ()
    python = Path(environment) / "bin" / "python"
    if not python.exists():
        sys.exit(f"bench: error: BENCH_TRACE_GEN: expected a virtual environment, found no {python}")
    pages = folder / "pages.npy"
    np.save(pages, pages_of(original))
    words = [python, UNDER, pages, SEED, json.dumps(INDEPENDENT), folder]
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, check=True)
    found = []
    for name, path, seconds in map(json.loads, done.stdout.splitlines()):
        compared = compare_requests(model, original, [requests_of(np.load(path))])
        errors = {each.key: each.deviation for each in compared.figures if each.key in policies}
        found.append(Peer(f"2DIO, {name}", errors, seconds))
    distances, own, *tried = found
    return distances, own, min(tried, key=lambda peer: peer.errors["lru"] or 0.0)


def run_fio(
    model: Model, path: Path, original: pa.Table, policies: Sequence[str], folder: Path
) -> tuple[Peer, ...]:
    """What fio does with the aggregates of a model, whose file is `path`: all in one range, and in zones."""
    found = []
    for name, zoned in (("fio", False), ("fio, zoned", True)):
        began = time.monotonic()
        requests = requests_of_fio(fio.export(path, seed=SEED, zoned=zoned), original, folder)
        seconds = time.monotonic() - began
        compared = compare_requests(model, original, [requests])
        errors = {each.key: each.deviation for each in compared.figures if each.key in policies}
        found.append(Peer(name, errors, seconds))
    return tuple(found)


def requests_of_fio(job: str, original: pa.Table, folder: Path) -> pa.Table:
    """Requests of an exported job, as many of each device as of the original."""
    devices, op = (original[name].to_numpy() for name in ("device", "op"))
    lines = []
    for line in job.splitlines():
        if not line.startswith(TIMED):
            lines.append(line)
        if line == "[global]":
            lines += ["ioengine=null", "thread=1", f"randseed={SEED}"]
        elif line.startswith("[device-"):
            number = int(line[len("[device-") : -1])
            count = int(((devices == number) & (op < 2)).sum())
            log = folder / f"fio.{number}.log"
            # which fio appends to
            log.unlink(missing_ok=True)
            lines += [f"number_ios={count}", f"write_iolog={log}"]
    file = folder / "peer.fio"
    file.write_text("\n".join(lines) + "\n")
    targets = {"TARGET": "t", **{f"TARGET{number}": f"t{number}" for number in np.unique(devices)}}
    subprocess.run(["fio", "--output=/dev/null", file], check=True, env=os.environ | targets, cwd=folder)
    tables = []
    for number in np.unique(devices):
        log, trail = folder / f"fio.{number}.log", folder / f"fio.{number}.trail"
        words = ["-m", "iotrail", "import", "fio", log, "-o", trail, "--force"]
        subprocess.run([sys.executable, *words], check=True, capture_output=True)
        asked = int(((devices == number) & (op < 2)).sum())
        requests = read_requests(Trail(trail))
        requests = requests.filter(pc.less(requests["op"], 2)).slice(0, asked)
        count = len(requests)
        evenly = {
            "ts": ((np.arange(count) + 0.5) / max(count, 1) * 1e12).astype(np.int64),
            "device": np.full(count, number, np.int64),
        }
        kept = {name: requests[name] for name in requests.column_names if name not in evenly}
        tables.append(pa.table(evenly | kept).select(requests.column_names))
    return pa.concat_tables(tables).sort_by("ts")


def pages_of(requests: pa.Table) -> np.ndarray:
    """The pages that reads and writes use, one after the other, as numbers from 0 on: what 2DIO takes."""
    device, op, pos, length = (
        requests[name].to_numpy().astype(np.int64) for name in ("device", "op", "pos", "length")
    )
    used = op < 2
    device, first = device[used], pos[used] // PAGE_BYTES
    counts = np.maximum(-(-(pos[used] + length[used]) // PAGE_BYTES) - first, 1)
    begins = np.cumsum(counts) - counts
    pages = np.repeat(first - begins, counts) + np.arange(counts.sum())
    places = np.stack((np.repeat(device, counts), pages))
    return np.unique(places, axis=1, return_inverse=True)[1].reshape(-1).astype(np.int32)


def requests_of(pages: np.ndarray) -> pa.Table:
    """Reads of one page each."""
    zeros = np.zeros(len(pages), np.int64)
    return pa.table(
        {
            "ts": np.arange(len(pages)),
            "dur": pa.nulls(len(pages), pa.int64()),
            "device": zeros,
            "op": zeros,
            "pos": pages.astype(np.int64) * PAGE_BYTES,
            "length": np.full(len(pages), PAGE_BYTES),
            "flags": zeros,
        }
    )

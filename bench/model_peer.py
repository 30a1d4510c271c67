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

from iotrail.model import fio
from iotrail.model.check import compare_requests
from iotrail.model.figures import PAGE_BYTES
from iotrail.model.fit import Model

# Shares of independent references that are tried.
INDEPENDENT = (0.0, 0.25, 0.5, 0.75)
SEED = 1
# Arguments are the pages of a trace as numbers from 0 on, a seed, shares of independent references, and the folder for traces.
# A line of JSON for each trace that is generated: how, its file, the seconds to fit and to generate.
PEER = """
import json, random, sys, time
import numpy as np
import trace_gen
pages, seed, folder = np.load(sys.argv[1]), int(sys.argv[2]), sys.argv[4]
began = time.monotonic()
fitted = trace_gen.TraceReconstructor(pages)
_, distances, once = fitted.dump_param()
took = time.monotonic() - began
generator = trace_gen.TraceGenerator(fitted.M, len(pages))
def by_parameters(share, new):
    generator.set_p_single(new)
    return generator.gen_from_pdf(distances, share)
ways = {"all distances": lambda: fitted.gen_from_ird(len(pages))}
ways[f"its own share, {once:.3f}"] = lambda: by_parameters(once, 0.0)
for share in json.loads(sys.argv[3]):
    ways[f"share {share:g}"] = lambda share=share: by_parameters(share, once)
for number, (name, generate) in enumerate(ways.items()):
    random.seed(seed)
    np.random.seed(seed)
    began = time.monotonic()
    path = f"{folder}/{number}.npy"
    np.save(path, generate())
    print(json.dumps([name, path, took + time.monotonic() - began]), flush=True)
"""


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
    words = [python, "-c", PEER, pages, SEED, json.dumps(INDEPENDENT), folder]
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
        rows = [line.split() for line in (folder / f"fio.{number}.log").read_text().splitlines()[1:]]
        rows = [row for row in rows if len(row) == 5 and row[2] in ("read", "write")]
        count = min(int(((devices == number) & (op < 2)).sum()), len(rows))
        rows = rows[:count]
        tables.append(
            pa.table(
                {
                    "ts": ((np.arange(count) + 0.5) / max(count, 1) * 1e12).astype(np.int64),
                    "dur": pa.nulls(count, pa.int64()),
                    "device": np.full(count, number, np.int64),
                    "op": np.array([row[2] == "write" for row in rows], np.int64),
                    "pos": np.array([int(row[3]) for row in rows], np.int64),
                    "length": np.array([int(row[4]) for row in rows], np.int64),
                    "flags": np.zeros(count, np.int64),
                }
            )
        )
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

"""Miss ratios of a peer of workload models: what the trace generator of 2DIO makes of a trace.

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
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

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


@dataclass(frozen=True)
class Peer:
    """How far the miss ratios of a generated trace are off."""

    name: str
    # mean absolute difference, by policy
    errors: dict[str, float | None]
    # to fit and to generate
    seconds: float


def generate(
    model: Model, original: pa.Table, policies: Sequence[str], folder: Path
) -> tuple[Peer, ...] | None:
    """What 2DIO generates: from all distances, with the parameters of its own method, and the closest in LRU of those that are tried.
    None where it isn't there."""
    environment = os.environ.get("BENCH_TRACE_GEN")
    if environment is None:
        return None
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
        found.append(Peer(name, errors, seconds))
    distances, own, *tried = found
    return distances, own, min(tried, key=lambda peer: peer.errors["lru"] or 0.0)


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

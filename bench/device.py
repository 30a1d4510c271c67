"""Simulated caches beside libCacheSim: misses of each policy at eight sizes, and how long both take.

The trace is BENCH_CACHE_TRACE, little-endian 32-bit numbers of blocks (of it the first BENCH_USES), or uses drawn here: skewed
ones with loops among them. libCacheSim is its Python package, which requirements/bench-caches.txt pins, in an
environment of its own; it runs with its default parameters on objects of one byte, read from an oracleGeneral file.

Its release 0.3.5 fills the main queue of S3-FIFO too before anything is evicted, which the paper does not (`S3FIFOv0` in
libCacheSim's repository is that one): those counts differ by what comes of the first blocks.
"""

import io
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from measure import ROOT, SEED, console, keep, scratch, table
from recorders import NATIVE

POLICIES = {
    "lru": "LRU",
    "fifo": "FIFO",
    "clock": "Clock",
    "lfu": "LFU",
    "2q": "TwoQ",
    "arc": "ARC",
    "s3-fifo": "S3FIFO",
    "sieve": "Sieve",
}
USES = int(os.environ.get("BENCH_USES", "1_000_000"))
BLOCK = 4096
# Argument 1 is the trace, 2 the sizes; a line of JSON for each policy.
PEER = """
import json, sys, time
import libcachesim
count, sizes, policies = int(sys.argv[2]), json.loads(sys.argv[3]), json.loads(sys.argv[4])
kind = libcachesim.TraceType.ORACLE_GENERAL_TRACE
for name in policies:
    misses, began = [], time.process_time()
    for size in sizes:
        reader = libcachesim.TraceReader(sys.argv[1], kind, libcachesim.ReaderInitParam())
        ratio, _ = getattr(libcachesim, name)(size).process_trace(reader)
        misses.append(round(ratio * count))
    print(json.dumps([misses, time.process_time() - began]), flush=True)
"""


def bench() -> None:
    """Print the table."""
    uses = trace()
    blocks = len(np.unique(uses))
    sizes = [blocks >> step for step in reversed(range(1, 9))]
    console.print(f"{len(uses):,} uses of {blocks:,} blocks")
    result = table(
        "misses at eight sizes, iotrail / libCacheSim",
        ["policy", *(f"{size:,}" for size in sizes), "iotrail, s of CPU", "libCacheSim"],
    )
    kept = {}
    with scratch() as folder:
        peer = peer_misses(folder, uses, sizes)
        for at, policy in enumerate(POLICIES):
            misses, seconds = own_misses(uses, sizes, policy)
            theirs, their_seconds = peer[at] if peer else (None, None)
            result.add_row(policy, *map(str, misses), f"{seconds:.2f}", "")
            if theirs is not None:
                differ = [
                    f"{count}" if count == own else f"[bold]{count}[/]"
                    for own, count in zip(misses, theirs, strict=True)
                ]
                result.add_row("", *differ, "", f"{their_seconds:.2f}")
            kept[policy] = {
                "misses": misses,
                "cpu_s": seconds,
                "libcachesim_misses": theirs,
                "libcachesim_cpu_s": their_seconds,
            }
    console.print(result)
    different = [
        policy for policy, row in kept.items() if row["libcachesim_misses"] not in (None, row["misses"])
    ]
    if peer is None:
        console.print("libCacheSim can't be installed here: nothing is compared")
    else:
        console.print(f"policies that differ: {', '.join(different) or 'none'}")
    keep("device", uses=len(uses), blocks=blocks, sizes=sizes, policies=kept)


def trace() -> np.ndarray:
    """Numbers of blocks."""
    path = os.environ.get("BENCH_CACHE_TRACE")
    if path:
        return np.fromfile(path, "<i4")[:USES].astype(np.int64)
    dice = np.random.default_rng(SEED)
    skewed = (dice.random(USES) ** 4 * (USES // 20)).astype(np.int64)
    for first in range(0, USES - 2048, 16384):
        skewed[first : first + 2048] = dice.integers(0, USES // 20) + np.arange(2048)
    return skewed


def own_misses(uses: np.ndarray, sizes: list[int], policy: str) -> tuple[list[int], float]:
    """Misses at each size, and seconds of CPU, reading and numbering included."""
    batch = pa.record_batch(
        {
            "device": np.zeros(len(uses), np.int64),
            "pos": uses * BLOCK,
            "length": np.full(len(uses), BLOCK, np.int64),
            "write": pa.array(np.zeros(len(uses), bool)),
        }
    )
    stream = io.BytesIO()
    with pa.ipc.new_stream(stream, batch.schema) as writer:
        writer.write_batch(batch)
    before = os.times()
    done = subprocess.run(
        [
            str(NATIVE),
            "simulate",
            "cache",
            "--policy",
            policy,
            "--size",
            ",".join(str(size * BLOCK) for size in sizes),
        ],
        input=stream.getvalue(),
        capture_output=True,
        check=True,
    )
    after = os.times()
    seconds = after.children_user + after.children_system - before.children_user - before.children_system
    [answer] = json.loads(done.stdout)["policies"]
    return answer["read"], seconds


def peer_misses(folder: Path, uses: np.ndarray, sizes: list[int]) -> list[tuple[list[int], float]] | None:
    """The same of libCacheSim, by policy; none if it can't be installed."""
    environment = folder / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    pinned = ROOT / "requirements" / "bench-caches.txt"
    install = ["-m", "pip", "install", "-q", "--require-hashes", "--only-binary", ":all:", "-r", str(pinned)]
    if subprocess.run([str(environment / "bin" / "python"), *install]).returncode != 0:
        return None
    # libCacheSim/traceReader/customizedReader/oracle/oracleGeneralBin.h
    records = np.zeros(len(uses), [("time", "<u4"), ("id", "<u8"), ("size", "<u4"), ("next", "<i8")])
    # ids from 1 on: 0 is none of its objects
    records["id"], records["size"], records["next"] = uses + 1, 1, -1
    path = folder / "trace.oracleGeneral"
    records.tofile(path)
    began = time.monotonic()
    done = subprocess.run(
        [
            str(environment / "bin" / "python"),
            "-c",
            PEER,
            str(path),
            str(len(uses)),
            json.dumps(sizes),
            json.dumps(list(POLICIES.values())),
        ],
        stdout=subprocess.PIPE,
        check=True,
    )
    console.print(f"[dim]libCacheSim took {time.monotonic() - began:.0f} s[/]")
    return [(misses, seconds) for misses, seconds in map(json.loads, done.stdout.splitlines())]

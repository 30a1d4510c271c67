"""What recording a measurement of a sweep costs what is measured: the throughput of the same reads with and without it, in turns.

On an emulated disk, and on memory (a loop device over a file of a tmpfs), where the most requests a second are recorded. Needs root.
"""

import contextlib
import json
import os
import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb

from iotrail import native
from iotrail.sweep import device, spec
from measure import ROOT, console, keep, scratch, table

SECONDS = os.environ.get("BENCH_SECONDS", "3")
PAIRS = int(os.environ.get("BENCH_RUNS", "11"))
DISK = ROOT / "examples" / "anomaly" / "disk.toml"


@dataclass(frozen=True)
class Case:
    """Reads: words of `iotrail-native streams`."""

    name: str
    on_disk: bool
    words: tuple[str, ...]


CASES = (
    Case("disk, 1 MiB streams of 4 handlers", True, ("--concurrency=4", "--stream=1048576")),
    Case("disk, 16 KiB streams of 64 handlers", True, ("--concurrency=64", "--stream=16384")),
    Case("memory, 1 MiB streams of 4 handlers", False, ("--concurrency=4", "--stream=1048576")),
    Case("memory, 4 KiB reads past the page cache of 16", False, ("--concurrency=16", "--stream=4096", "--direct")),
)  # fmt: skip


@contextlib.contextmanager
def emulated(folder: Path) -> Iterator[Path]:
    """The emulated disk."""
    text = f'[target]\ndevice = "{DISK}"\n[workload.concurrency]\nvalues = [1]\n'
    with device.opened(spec.parse(text, "bench"), lambda _: contextlib.nullcontext(), folder) as path:
        yield path


@contextlib.contextmanager
def in_memory() -> Iterator[Path]:
    """A loop device over 1 GiB of memory."""
    with tempfile.TemporaryDirectory(prefix="iotrail-bench-", dir="/dev/shm") as folder:
        file = Path(folder, "device")
        subprocess.run(
            ["dd", "if=/dev/urandom", f"of={file}", "bs=1M", "count=1024", "status=none"], check=True
        )
        made = subprocess.run(
            ["losetup", "--find", "--show", file], check=True, capture_output=True, text=True
        )
        path = Path(made.stdout.strip())
        try:
            yield path
        finally:
            subprocess.run(["losetup", "--detach", path], check=True)


def read(path: Path, case: Case, trail: Path | None) -> tuple[float, float]:
    """Bytes and requests a second; the latter of what was recorded, else 0."""
    words = [native.binary(), *device.RECORD, trail, "--force", "--"] if trail else []
    words += [native.binary(), "streams", path, f"--seconds={SECONDS}", "--warm-up=1", *case.words]
    done = subprocess.run(list(map(str, words)), check=True, capture_output=True, text=True)
    said = json.loads(done.stdout)
    rows = 0
    if trail:
        [(rows,)] = duckdb.sql(f"SELECT count(*) FROM '{trail}/data/disk_op/*.parquet'").fetchall()
    return said["read_bytes"] / said["measured_ns"] * 1e9, rows / (float(SECONDS) + 1)


def bench() -> None:
    """Print the table."""
    if os.geteuid() != 0:
        console.print("anomaly_cost: devices need root")
        return
    shown = table(
        f"Recording what a sweep measures: {PAIRS} pairs of {SECONDS} s",
        ["", "MB/s without", "requests/s", "recorded, of without", "quartiles"],
    )
    kept = {}
    with scratch() as folder, emulated(folder) as disk, in_memory() as memory:
        for case in CASES:
            path = disk if case.on_disk else memory
            without, requests, ratios = [], [], []
            for pair in range(PAIRS):
                order = (None, folder / "x.trail") if pair % 2 else (folder / "x.trail", None)
                found = {trail: read(path, case, trail) for trail in order}
                without.append(found[None][0])
                requests.append(found[folder / "x.trail"][1])
                ratios.append(found[folder / "x.trail"][0] / found[None][0])
            low, middle, high = statistics.quantiles(ratios, n=4)
            kept[case.name] = {
                "bytes_per_s": statistics.median(without),
                "ratio": middle,
                "low": low,
                "high": high,
            }
            shown.add_row(
                case.name,
                f"{statistics.median(without) / 1e6:,.1f}",
                f"{statistics.median(requests):,.0f}",
                f"{middle:.3f}",
                f"{low:.3f} to {high:.3f}",
            )
    console.print(shown)
    keep("anomaly_cost", cost=kept)

"""How punctual emulated devices are: fio at a rate, on devices whose requests take a fixed time.

A request is late by what its answer took more than the model says: from the emulation's own log (`dur` less `model_dur` of
`disk_op`), and as fio saw it (its latency less the model's, at the same quantile). Through the FUSE file and through a
loop device over it. Needs root.
"""

import json
import os
import select
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from iotrail import native
from iotrail.trail import Trail
from measure import SEED, console, scratch

SECONDS = float(os.environ.get("BENCH_SECONDS", "4"))
SIZE = "1G"
# Latency of a request in us, how many the device works on at a time, requests per second that are asked for.
DEVICES = ((100, 64), (1000, 128), (10_000, 512))
RATES = (1000, 5000, 20_000)
# What is aimed at, in us.
GOAL_P50, GOAL_P99 = 100, 500


@dataclass(frozen=True)
class Case:
    """One run of fio."""

    latency_us: int
    servers: int
    via: str
    operation: str
    rate: int


def cases() -> Iterator[Case]:
    """All runs."""
    for latency, servers in DEVICES:
        for via in ("file", "loop"):
            for operation in ("randread", "randwrite"):
                for rate in RATES:
                    yield Case(latency, servers, via, operation, rate)


def _device(folder: Path, case: Case) -> Path:
    time = f"{{ value = {case.latency_us}, unit = 'us', source = 'benchmark' }}"
    path = folder / "device.toml"
    path.write_text(
        "format = 1\nkind = 'fixed'\nname = 'of a benchmark'\n[fixed]\n"
        "capacity = { value = 1, unit = 'GiB', source = 'benchmark' }\n"
        f"servers = {{ value = {case.servers}, unit = 'count', source = 'benchmark' }}\n"
        f"read = {time}\nwrite = {time}\nflush = {time}\ntrim = {time}\n"
        "rate = { value = 100, unit = 'GB/s', source = 'benchmark' }\n"
    )
    return path


@contextmanager
def emulated(folder: Path, case: Case) -> Iterator[str]:
    """The path of the emulated disk, which logs to x.trail."""
    options = ["--size", SIZE, "--json", "-o", str(folder / "x.trail"), "--force"]
    process = subprocess.Popen(
        [
            native.binary(),
            "emudisk",
            _device(folder, case),
            folder / "d",
            *options,
            *(["--loop"] if case.via == "loop" else []),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        if not select.select([process.stdout], [], [], 60)[0]:
            raise SystemExit("bench: error: no word from emudisk")
        line = process.stdout.readline()
        if not line:
            raise SystemExit("bench: error: emudisk did not start")
        yield json.loads(line)["target"]
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)


def measure(folder: Path, case: Case) -> dict[str, float]:
    """Requests per second, and lateness in us."""
    with emulated(folder, case) as target:
        command = [
            # at real-time priority: what else the machine does is no lateness of the device
            "chrt", "--fifo", "1", "fio", "--name=x", f"--filename={target}", f"--rw={case.operation}", "--bs=4k", "--direct=1",
            "--ioengine=libaio", f"--iodepth={case.servers}", f"--rate_iops={case.rate}",
            "--rate_process=poisson", f"--runtime={SECONDS:g}", "--time_based", f"--randseed={SEED}", f"--size={SIZE}",
            "--allow_file_create=0", "--output-format=json", "--percentile_list=50:99",
        ]  # fmt: skip
        ran = subprocess.run(command, capture_output=True, text=True, check=True)
    said: dict[str, Any] = json.loads(ran.stdout)["jobs"][0][case.operation.removeprefix("rand")]
    rows = Trail(folder / "x.trail").rows_of(
        f"FROM disk_op SELECT dur, model_dur WHERE op = '{case.operation.removeprefix('rand')}'"
    )
    dur, model = (np.array([row[name] for row in rows], dtype=float) for name in ("dur", "model_dur"))
    late = np.maximum(dur - model, 0)
    clat = {int(float(share)): ns for share, ns in said["clat_ns"]["percentile"].items()}
    return {
        "iops": said["iops"],
        "late_p50": float(np.quantile(late, 0.5)) / 1e3,
        "late_p99": float(np.quantile(late, 0.99)) / 1e3,
        "fio_p50": (clat[50] - float(np.quantile(model, 0.5))) / 1e3,
        "fio_p99": (clat[99] - float(np.quantile(model, 0.99))) / 1e3,
    }


def bench() -> None:
    """Print the table."""
    if os.geteuid() != 0:
        console.print("emulated devices: skipped, mounts and loop devices need root\n")
        return
    table = Table(title=f"Lateness of emulated devices (µs; goal {GOAL_P50} at p50, {GOAL_P99} at p99)")
    table.add_column("device")
    for name in ("via", "fio"):
        table.add_column(name)
    for name in ("asked /s", "done /s", "log p50", "log p99", "fio p50", "fio p99", "goal"):
        table.add_column(name, justify="right")
    for case in cases():
        with scratch() as folder:
            found = measure(folder, case)
        met = found["late_p50"] <= GOAL_P50 and found["late_p99"] <= GOAL_P99
        table.add_row(
            f"{case.latency_us / 1000:g} ms",
            case.via,
            case.operation,
            f"{case.rate:,}",
            f"{found['iops']:,.0f}",
            *(f"{found[name]:,.0f}" for name in ("late_p50", "late_p99", "fio_p50", "fio_p99")),
            "met" if met else "[red]missed[/]",
        )
    console.print(table)
    console.print()

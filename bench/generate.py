"""What `iotrail generate` runs, beside fio: requests a second at given gaps, lateness at 10,000 a second, rate at full speed.

The first table is the comparison of IOMeter and DiskSpd by Delimitrou et al., "Accurate Modeling and Generation of Storage I/O
for Datacenter Workloads" (Table 2), with iotrail and fio on one emulated disk: one thread, which thinks between requests.
"""

import functools
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from measure import ROOT, ROUNDS, SEED, Spread, console, keep, scratch, table
from replay import IOTRAIL, PAGE, RATE, SIZE, fill

sys.path.insert(0, str(ROOT / "examples" / "devices"))
from served import served

# Request size, think time, direction, random; with IOPS of IOMeter and DiskSpd in the paper.
CONFIGURATIONS = {
    "4 KiB, 10 ms, reads, sequential": ("4k", "10ms", "read", False, 97.99, 101.33),
    "16 KiB, 1 ms, reads, sequential": ("16k", "1ms", "read", False, 949.34, 933.69),
    "64 KiB, 10 ms, writes, sequential": ("64k", "10ms", "write", False, 96.59, 95.41),
    "64 KiB, 10 ms, reads, random": ("64k", "10ms", "read", True, 86.99, 84.32),
}
DISK, DISK_SIZE = "hdd-7200", "8G"
SECONDS = 10
# Full speed: name -> engine, requests in flight.
SPEEDS = {"psync": ("psync", 1), "io_uring, 32 deep": ("io_uring", 32)}


def bench() -> None:
    """Print the tables."""
    with scratch() as folder:
        target = Path(tempfile.mkdtemp(dir="/dev/shm")) / "target"
        try:
            fill(target)
            figures = {"given_gaps": given_gaps(folder), **on_memory(folder, target)}
        finally:
            target.unlink()
            target.parent.rmdir()
    keep("generate", **figures)


def generate(*words: object) -> dict[str, Any]:
    """What `iotrail generate` says."""
    command = [IOTRAIL, "generate", *words, "--overwrite", "--json"]
    done = subprocess.run(list(map(str, command)), check=True, stdout=subprocess.PIPE, text=True)
    said: dict[str, Any] = json.loads(done.stdout)
    return said


def fio(target: object, **options: object) -> float:
    """Requests a second of a fio job."""
    words = [f"--{name}={value}" for name, value in options.items()]
    command = ["fio", "--name=job", f"--filename={target}", "--time_based", *words, "--output-format=json"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    [job] = json.loads(done.stdout)["jobs"]
    return float(job["read"]["iops"] + job["write"]["iops"])


def given_gaps(folder: Path) -> dict[str, Any]:
    """Requests a second at given think times."""
    shape = table(
        f"Requests a second at given think times, {SECONDS} s on an emulated {DISK}",
        ["", "iotrail", "fio", "deviation", "[dim]IOMeter[/]", "[dim]DiskSpd (paper)[/]"],
    )
    figures = {}
    for name, (size, think, direction, is_random, iometer, diskspd) in CONFIGURATIONS.items():
        rates = {}
        for tool in ("iotrail", "fio"):
            with (
                tempfile.TemporaryDirectory(dir=folder) as emulated,
                served(DISK, Path(emulated), "--size", DISK_SIZE) as disk,
            ):
                if tool == "iotrail":
                    shares = f"random={100 * is_random}%,read={100 * (direction == 'read')}%"
                    bench = f"threads=1,size={size.upper()}iB,{shares},think={think}"
                    said = generate("--bench", bench, "--target", disk.target, "--for", f"{SECONDS}s", "--direct")  # fmt: skip
                    rates[tool] = said["iops"]
                else:
                    mode = ("rand" if is_random else "") + direction
                    rates[tool] = fio(disk.target, rw=mode, bs=size, thinktime=think, runtime=SECONDS, direct=1, ioengine="psync")  # fmt: skip
        deviation = rates["iotrail"] / rates["fio"] - 1
        shape.add_row(
            name, *(f"{rates[tool]:.2f}" for tool in rates), f"{deviation:+.1%}", f"[dim]{iometer}[/]", f"[dim]{diskspd}[/]"
        )  # fmt: skip
        figures[name] = {**rates, "deviation": deviation}
    console.print(shape)
    return figures


def model_of(folder: Path, name: str, gaps_ns: Any) -> Path:
    """A model of random reads of a page each in the target, with gaps."""
    pos = np.random.default_rng(SEED).integers(0, SIZE // PAGE, len(gaps_ns)) * PAGE
    at = np.cumsum(gaps_ns).astype(np.int64)
    trace, trail, model = (folder / f"{name}.{kind}" for kind in ("csv", "trail", "json"))
    lines = (f"{ts},R,{offset},{PAGE}" for ts, offset in zip(at.tolist(), pos.tolist(), strict=True))
    trace.write_text("\n".join(["ts_ns,op,offset,size", *lines, ""]))
    run = functools.partial(subprocess.run, check=True, stderr=subprocess.DEVNULL)
    run([IOTRAIL, "import", "csv", trace, "-o", trail])
    run([IOTRAIL, "model", "fit", trail, "-o", model, "--levels", "2"])
    return model


def on_memory(folder: Path, target: Path) -> dict[str, Any]:
    """Lateness and full speed, from a file in memory."""
    gaps = np.random.default_rng(SEED).exponential(1e9 / RATE, SECONDS * RATE)
    model = model_of(folder, "reads", gaps)
    late = table(
        f"Lateness at {RATE:,} requests a second, from memory", ["engine", "mean", "p50", "p99", "max"]
    )
    lateness, keys = {}, ("mean_ns", "p50_ns", "p99_ns", "max_ns")
    for engine in ("psync", "io_uring"):
        said = generate(model, "--target", target, "--engine", engine)["lateness"]
        late.add_row(engine, *(f"{said[key] / 1e6:,.3f} ms" for key in keys))
        lateness[engine] = said
    console.print(late)
    shape = table(
        f"Full speed from memory, 4 KiB at random: requests a second, median of {ROUNDS} rounds (least–most)",
        ["engine", "model", "--bench", "fio", "model / fio", "--bench / fio"],
    )
    speed = {}
    for name, (engine, depth) in SPEEDS.items():
        rates: dict[str, list[float]] = {"model": [], "bench": [], "fio": []}
        common = ("--target", target, "--for", "3s", "--engine", engine)
        for _ in range(ROUNDS):
            said = generate(model, *common, "--loop", "closed", "--depth", depth)
            rates["model"].append(said["iops"])
            said = generate("--bench", f"threads={depth},size=4KiB", *common)
            rates["bench"].append(said["iops"])
            rates["fio"].append(
                fio(target, rw="randread", bs="4k", ioengine=engine, iodepth=depth, runtime=3)
            )
        ratios = {tool: Spread.of([a / b for a, b in zip(rates[tool], rates["fio"], strict=True)]) for tool in ("model", "bench")}  # fmt: skip
        shape.add_row(
            name,
            *(Spread.of(rates[tool]).text(",.0f") for tool in rates),
            *(ratios[tool].text(".3f") for tool in ratios),
        )
        speed[name] = rates
    console.print(shape)
    return {"lateness": lateness, "speed": speed}

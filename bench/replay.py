"""What replay is worth: lateness at 10,000 requests a second, rate at full speed, CPU time of an operation, beside fio.

Traces of ../shared/traces/block, where they are, and one of our own (Poisson arrivals, 4 KiB at random) are stretched
to 10,000 requests a second on average, wrapped into a file of 1 GiB, and replayed at their times from page cache, by
fio from the iolog and job file of `iotrail export fio`. fio's lateness is read from a recording of it. Full speed
replays the same random reads as fast as possible, with the engine and depth of fio beside it, on page cache and on the
device. The CPU time of the bare I/O is that of a loop of preads (preads.c).
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from iotrail.trail import Trail
from measure import ROOT, ROUNDS, SEED, Spread, compile_c, console, keep, scratch, table
from recorders import NATIVE

IOTRAIL = Path(sys.executable).with_name("iotrail")
REAL = ROOT.parent / "shared" / "traces" / "block"
RATE = 10_000
REQUESTS = 50_000
SIZE = 1 << 30
PAGE = 4096
# Full speed: name -> engine, depth, whether past the page cache, operations.
SPEEDS = {
    "psync, page cache": ("psync", 1, False, 1_000_000),
    "psync, device": ("psync", 1, True, 40_000),
    "io_uring, 32 deep, page cache": ("io_uring", 32, False, 1_000_000),
    "io_uring, 32 deep, device": ("io_uring", 32, True, 150_000),
}


def bench() -> None:
    """Print the tables."""
    with scratch() as folder:
        target = folder / "target"
        fill(target)
        figures = {"lateness": lateness(folder, target), "speed": speed(folder, target)}
    keep("replay", **figures)


def fill(target: Path) -> None:
    """A file of bytes that don't compress, in page cache."""
    noise = np.random.default_rng(SEED).bytes(16 << 20)
    with target.open("wb") as file:
        for _ in range(SIZE // len(noise)):
            file.write(noise)
        os.fsync(file.fileno())


def write(trail: Path, ts: Any, pos: Any, length: Any, is_read: Any) -> Path:
    """A trail of requests to one device, which took no time."""
    n = len(ts)
    columns = {
        "ts": pa.array(ts, pa.int64()), "dur": pa.array(np.zeros(n), pa.int64()), "node": ["bench"] * n,
        "thread": pa.array(np.ones(n), pa.int64()), "crumb": pa.array(np.zeros(n), pa.int64()),
        "call": np.where(is_read, "pread", "pwrite").tolist(), "file": pa.array(np.full(n, 7), pa.int64()),
        "pos": pa.array(pos, pa.int64()), "length": pa.array(length, pa.int64()),
        "result": pa.array(length, pa.int64()), "errno": pa.array(np.zeros(n), pa.int64()),
        "calls": pa.array(np.ones(n), pa.int64()),
    }  # fmt: skip
    tables = {
        "file_op": pa.table(columns),
        "file": pa.table({"node": ["bench"], "file": pa.array([7], pa.int64()), "path": ["/dev/bench"]}),
    }
    streams = []
    for name, made in tables.items():
        stream = trail.with_suffix(f".{name}.arrow")
        with pa.ipc.new_stream(stream, made.schema) as writer:
            writer.write_table(made)
        streams.append(f"{name}={stream}")
    command = [NATIVE, "ingest", "--force", "-o", trail, *streams]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return trail


def at_rate(trail: Path, source: Path) -> Path:
    """The first requests of an imported trace, stretched to the rate, within the target."""
    rows = Trail(source).query(
        f"""SELECT ts, pos, LEAST(length, {1 << 20}) AS length, kind = 'read' AS is_read FROM bare_op
        WHERE kind IN ('read', 'write') AND pos IS NOT NULL AND length > 0 ORDER BY ts LIMIT {REQUESTS}"""
    )
    found = {name: column.to_numpy(zero_copy_only=False) for name, column in zip(rows.columns, rows.to_arrow_table().columns, strict=True)}  # fmt: skip
    ts = found["ts"] - found["ts"][0]
    ts = ts * (len(ts) / RATE * 1e9 / max(ts[-1], 1))
    length = (found["length"] + 511) // 512 * 512
    pos = found["pos"] % (SIZE - length) // 512 * 512
    return write(trail, ts.astype(np.int64), pos, length, found["is_read"])


def traces(folder: Path) -> dict[str, Path]:
    """Name -> trail at the rate."""
    drawn = np.random.default_rng(SEED)
    ts = np.cumsum(drawn.exponential(1e9 / RATE, REQUESTS)).astype(np.int64)
    pos = drawn.integers(0, SIZE // PAGE, REQUESTS) * PAGE
    made = {"Poisson": write(folder / "poisson.trail", ts, pos, np.full(REQUESTS, PAGE), pos >= 0)}
    for path in sorted(REAL.glob("*")) if REAL.is_dir() else []:
        source = folder / f"{path.name}.source.trail"
        command = [IOTRAIL, "import", path, "-o", source, "--force"]
        if path.name.startswith("msr-cut"):
            command[2:2] = ["msr-cut"]
        subprocess.run(command, check=True, capture_output=True)
        made[path.name] = at_rate(folder / f"{path.name}.trail", source)
    if len(made) == 1:
        console.print("[dim]../shared/traces/block isn't there: only the trace of our own[/]")
    return made


def lateness(folder: Path, target: Path) -> dict[str, Any]:
    """Replay each trace at its times, by each tool."""
    shape = table(
        f"Lateness at {RATE:,} requests a second, from page cache",
        ["trace", "offered", "tool", "p50", "p99", "max", "over 1 ms"],
    )
    figures: dict[str, Any] = {}
    for name, trail in traces(folder).items():
        found = {
            "iotrail psync": replayed(folder, trail, target, "psync", "timed"),
            "iotrail io_uring": replayed(folder, trail, target, "io_uring", "timed"),
            "fio psync": fio_timed(folder, trail, target),
        }
        offered = Trail(trail).rows_of("SELECT SUM(length) * 1e9 / (MAX(ts) - MIN(ts)) AS rate FROM file_op")[
            0
        ]["rate"]
        for tool, late in found.items():
            shape.add_row(
                name,
                f"{offered / 1e6:,.0f} MB/s",
                tool,
                *(f"{late[key] / 1e6:,.3f} ms" for key in ("late_p50", "late_p99", "late_max")),
                f"{late['late_over_ms'] / late['operations_b']:.2%}",
            )
        figures[name] = found
    console.print(shape)
    return figures


def replayed(folder: Path, trail: Path, target: Path, engine: str, mode: str, *more: str) -> dict[str, Any]:
    """What `iotrail replay` says of a replay."""
    output = folder / "again.trail"
    options = ["--mode", mode, "--engine", engine, "--overwrite", "--force", "--json", *more]
    command = [IOTRAIL, "replay", trail, "--target", target, "-o", output, *options]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def exported(folder: Path, trail: Path, target: Path) -> Path:
    """The trail for fio, with the target in the place of its file."""
    place = folder / "fio"
    shutil.rmtree(place, ignore_errors=True)
    subprocess.run([IOTRAIL, "export", "fio", trail, "-o", place], check=True, stdout=subprocess.DEVNULL)
    (place / "file-1").unlink()
    (place / "file-1").hardlink_to(target)
    return place


def fio_timed(folder: Path, trail: Path, target: Path) -> dict[str, float]:
    """Lateness of fio, from a recording of it."""
    place, recorded = exported(folder, trail, target), folder / "fio.trail"
    command = [IOTRAIL, "record", "--force", "-o", recorded, "--", "fio", "job.fio"]
    subprocess.run(command, check=True, capture_output=True, cwd=place)
    times = [
        Trail(source).query(
            f"SELECT ts FROM {table} WHERE call IN ('pread', 'pwrite') {where} ORDER BY ts"
        ).to_arrow_table()["ts"].to_numpy()
        for source, table, where in ((trail, "file_op", ""), (recorded, "op", "AND path LIKE '%/file-1'"))
    ]  # fmt: skip
    due, began = (ts - ts[0] for ts in times)
    late = began[: len(due)] - due[: len(began)]
    late = late - late.min()
    p50, p99 = np.quantile(late, [0.5, 0.99])
    return {
        "late_p50": float(p50), "late_p99": float(p99), "late_max": float(late.max()),
        "late_over_ms": int((late > 1_000_000).sum()), "operations_b": len(began),
    }  # fmt: skip


def speed(folder: Path, target: Path) -> dict[str, Any]:
    """Replay random reads at full speed, by each tool; the CPU time of an operation."""
    preads = compile_c(folder, "preads.c")
    drawn = np.random.default_rng(SEED)
    shape = table(
        f"Full speed: median of {ROUNDS} rounds (least–most)",
        ["engine", "iotrail, ops/s", "fio, ops/s", "iotrail / fio", "iotrail CPU an op", "fio CPU an op"],
    )
    figures: dict[str, Any] = {}
    beyond: list[float] = []
    for name, (engine, depth, direct, count) in SPEEDS.items():
        pos = drawn.integers(0, SIZE // PAGE, count) * PAGE
        trail = write(
            folder / "reads.trail", np.arange(count) * 1000, pos, np.full(count, PAGE), np.ones(count, bool)
        )
        place = exported(folder, trail, target)
        rates: dict[str, list[float]] = {"iotrail": [], "fio": []}
        cpus: dict[str, list[float]] = {"iotrail": [], "fio": []}
        for _ in range(ROUNDS):
            more = ["--depth", str(depth), *(["--direct"] if direct else [])]
            ours = replayed(folder, trail, target, engine, "afap", *more)
            rates["iotrail"].append(ours["operations_b"] / ours["run_time_b"] * 1e9)
            cpus["iotrail"].append(ours["cpu"] / ours["operations_b"])
            theirs = fio_afap(place, engine, depth, direct)
            rates["fio"].append(theirs["rate"])
            cpus["fio"].append(theirs["cpu"])
            if name == "psync, page cache":
                bare = subprocess.run(
                    [preads, target, str(count)], check=True, capture_output=True, text=True
                )
                beyond.append(cpus["iotrail"][-1] - float(bare.stdout))
        ratio = [a / b for a, b in zip(rates["iotrail"], rates["fio"], strict=True)]
        shape.add_row(
            name,
            *(Spread.of(rates[tool]).text(",.0f") for tool in ("iotrail", "fio")),
            Spread.of(ratio).text(".3f"),
            *(f"{Spread.of(cpus[tool]).median:,.0f} ns" for tool in ("iotrail", "fio")),
        )
        figures[name] = {"rates": rates, "cpu": cpus, "ratio": ratio}
    console.print(shape)
    console.print(
        f"CPU of an operation beyond a bare loop of preads: {Spread.of(beyond).text(',.0f')} ns, psync on page cache\n"
    )
    return figures | {"beyond": beyond}


def fio_afap(place: Path, engine: str, depth: int, direct: bool) -> dict[str, float]:
    """Operations a second and CPU ns of one of fio's replay without times."""
    job = (place / "job.fio").read_text()
    job = job.replace("ioengine=psync", f"ioengine={engine}\niodepth={depth}\ndirect={int(direct)}")
    (place / "fast.fio").write_text(re.sub(r"(read_iolog=.*)", r"\1\nreplay_no_stall=1", job))
    done = subprocess.run(
        ["fio", "--output-format=json", "fast.fio"], check=True, capture_output=True, text=True, cwd=place
    )
    (found,) = json.loads(done.stdout)["jobs"]
    took = found["read"]["runtime"] / 1e3
    count = found["read"]["total_ios"]
    busy = (found["usr_cpu"] + found["sys_cpu"]) / 100
    return {"rate": count / took, "cpu": busy * found["job_runtime"] * 1e6 / count}

"""What an import costs: records a second and memory, for each format, on generated traces of a million records.

Each run is a process of its own. Its memory is the sum of what Python and the native processes (trail writer, and
strace's reader) held at most.
Beside CSV stands DuckDB, which reads the same file into Parquet without knowing what its columns mean.
"""

import json
import os
import statistics
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from measure import ROOT, ROUNDS, SEED, console, keep, scratch, table

RECORDS = int(os.environ.get("BENCH_RECORDS", "1_000_000"))
MANY = 10 * RECORDS
# What runs: one import, then what it cost.
ONE = """
import io, json, resource, sys, threading, time
from pathlib import Path
from rich.console import Console
from iotrail.importers import command
from iotrail.importers.base import Options
format, source, trail = sys.argv[1:]
peaks = {}

def peak(pid):
    # not ru_maxrss, which exec keeps: it would be what the bench itself held
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return max(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))

def watch():
    while True:
        for children in Path("/proc/self/task").glob("*/children"):
            try:
                for pid in children.read_text().split():
                    peaks[pid] = peak(pid)
            except (OSError, ValueError):
                pass  # it ended
        time.sleep(0.02)

threading.Thread(target=watch, daemon=True).start()
began = time.monotonic()
command.run([Path(format), Path(source)], Path(trail), force=True, options=Options(), console=Console(file=io.StringIO()))
took = time.monotonic() - began
own, child = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
print(json.dumps({"wall": took, "cpu": own.ru_utime + own.ru_stime, "native_cpu": child.ru_utime + child.ru_stime,
    "memory": peak("self") + sum(peaks.values())}))
"""
DUCKDB = """
import duckdb, json, sys, time
began = time.monotonic()
duckdb.execute("SET threads = 2")
duckdb.execute(f"COPY (SELECT * FROM read_csv('{sys.argv[1]}')) TO '{sys.argv[2]}' (FORMAT parquet, COMPRESSION zstd)")
print(json.dumps({"wall": time.monotonic() - began}))
"""


def columns(records: int) -> tuple[np.ndarray, ...]:
    """Times in ns, devices, sectors, sectors long, 1 for a read."""
    dice = np.random.default_rng(SEED)
    ts = np.cumsum(dice.integers(1_000, 200_000, records))
    return ts, dice.integers(0, 4, records), dice.integers(0, 1 << 28, records), dice.integers(1, 256, records), dice.integers(0, 2, records)  # fmt: skip


def lines(path: Path, records: int, form: Callable[..., str]) -> None:
    """A trace of text."""
    with path.open("w") as file:
        made = columns(records)
        for begin in range(0, records, 1 << 18):
            part = [column[begin : begin + (1 << 18)].tolist() for column in made]
            file.write("".join(map(form, *part)))


def msr(path: Path, records: int) -> int:
    """MSR Cambridge's CSV."""
    lines(
        path, records,
        lambda t, d, s, n, r: f"{128166372003061629 + t // 100},usr,{d},{'Read' if r else 'Write'},{s * 512},{n * 512},{n * 99}\n",
    )  # fmt: skip
    return records


def disksim(path: Path, records: int) -> int:
    """DiskSim's ASCII."""
    lines(path, records, lambda t, d, s, n, r: f"{t / 1e6:.6f} {d} {s} {n} {r}\n")
    return records


def fio(path: Path, records: int) -> int:
    """An iolog of version 3."""
    lines(
        path,
        records,
        lambda t, d, s, n, r: f"{t // 1000} /dev/sd{d} {'read' if r else 'write'} {s * 512} {n * 512}\n",
    )
    path.write_text("fio version 3 iolog\n" + path.read_text())
    return records


def blktrace(path: Path, records: int) -> int:
    """blktrace's binary: queued, issued, completed; counted are events."""
    ts, device, sector, length, read = columns(records // 3)
    layout = np.dtype([("magic", "<u4"), ("sequence", "<u4"), ("time", "<u8"), ("sector", "<u8"), ("bytes", "<u4"), ("action", "<u4"),
                       ("pid", "<u4"), ("device", "<u4"), ("cpu", "<u4"), ("error", "<u2"), ("pdu_len", "<u2")])  # fmt: skip
    events = np.zeros((3, len(ts)), layout)
    events["magic"] = 0x65617407
    events["time"] = ts + np.array([[0], [2_000], [90_000]])
    events["sector"], events["bytes"], events["device"] = sector, length * 512, (8 << 20) | device * 16
    events["action"] = np.array([[1], [7], [8]]) | (np.where(read == 1, 1, 2) << 16)
    events["pid"] = 100 + device
    whole = events.reshape(-1)
    # a name before all, as blktrace writes it: from then on records aren't at multiples of their size
    note = struct.pack("<IIQQIIIIIHH", 0x65617407, 0, 0, 0, 0, 1 << 26, 100, 0, 0, 0, 16) + b"bench".ljust(
        16, b"\0"
    )
    path.write_bytes(note + whole[np.argsort(whole["time"], kind="stable")].tobytes())
    return whole.size + 1


def blkparse(path: Path, records: int) -> int:
    """blkparse's text of queued and completed requests."""

    def pair(t: int, d: int, s: int, n: int, r: int) -> str:
        kind = "R" if r else "W"
        head = f"  8,{d * 16:<4} 0 {s % 99999:8}"
        return (
            f"{head} {t / 1e9:14.9f} {100 + d:5}  Q {kind:>3} {s} + {n} [bench]\n"
            f"{head} {(t + 90) / 1e9:14.9f}     0  C {kind:>3} {s} + {n} [0]\n"
        )

    lines(path, records // 2, pair)
    return records // 2 * 2


def strace(path: Path, records: int) -> int:
    """strace -f -ttt -T -y of threads that read and write, open, stat and close; one call in ten is cut in two."""
    calls = (
        'pread64(3</data/table>, "\\1\\0\\7abc"..., 4096, {pos}) = 4096',
        'write(4</data/log>, "some text that was logged"..., 180) = 180',
        'pwrite64(3</data/table>, "\\0\\0\\0"..., 8192, {pos}) = 8192',
        'read(5</etc/config>, "key = value"..., 4096) = 512',
        "lseek(5</etc/config>, 0, SEEK_SET) = 0",
        'newfstatat(AT_FDCWD</work>, "/data/file{few}", {{st_mode=S_IFREG|0644, st_size=4096, ...}}, 0) = 0',
        'openat(AT_FDCWD</work>, "/data/file{few}", O_RDONLY|O_CLOEXEC) = 6</data/file{few}>',
        "close(6</data/file{few}>) = 0",
        "fdatasync(4</data/log>) = 0",
        "futex(0x7f00aa, FUTEX_WAIT_PRIVATE, 2, NULL) = 0",
    )
    made = 0
    ts, _, sector, length, _ = (column.tolist() for column in columns(records))
    with path.open("w") as file:
        for number in range(records):
            if made >= records:
                break
            stamp = 1_700_000_000_000_000 + ts[number] // 1000
            text = calls[number % 10].format(pos=sector[number] * 512, few=length[number])
            head = f"{1000 + number % 4} {stamp // 1_000_000}.{stamp % 1_000_000:06}"
            took = f"<0.{length[number]:06}>"
            if number % 10 == 2:
                begin, _, end = text.rpartition(")")
                file.write(f"{head} {begin} <unfinished ...>\n{head} <... pwrite64 resumed>){end} {took}\n")
                made += 2
            else:
                file.write(f"{head} {text} {took}\n")
                made += 1
    return made


FORMATS: dict[str, Callable[[Path, int], int]] = {
    "msr": msr,
    "disksim": disksim,
    "blktrace": blktrace,
    "blkparse": blkparse,
    "fio": fio,
    "strace": strace,
}


def bench() -> None:
    """Measure and print."""
    figures: dict[str, dict[str, float]] = {}
    shape = table(
        f"Importing {RECORDS:,} records: median of {ROUNDS} runs (least–most)",
        ["format", "records/s", "Python's CPU", "native CPU", "memory", "bytes/record in", "trail"],
    )
    with scratch() as folder:
        for name, write in FORMATS.items():
            source, trail = folder / f"{name}.trace", folder / f"{name}.trail"
            count = write(source, RECORDS)
            runs = [once(name, source, trail) for _ in range(ROUNDS)]
            rates = [count / run["wall"] for run in runs]
            stored = sum(file.stat().st_size for file in trail.rglob("*") if file.is_file())
            figures[name] = {
                "records": count,
                "rate": statistics.median(rates),
                "cpu": statistics.median(run["cpu"] for run in runs),
                "memory": max(run["memory"] for run in runs),
            }
            shape.add_row(
                name,
                f"{statistics.median(rates):,.0f} [dim]({min(rates):,.0f}–{max(rates):,.0f})[/]",
                f"{figures[name]['cpu']:.2f} s",
                f"{statistics.median(run['native_cpu'] for run in runs):.2f} s",
                f"{figures[name]['memory'] / 1e6:,.0f} MB",
                f"{source.stat().st_size / count:.0f}",
                f"{stored / 1e6:.1f} MB",
            )
            if name == "msr":
                peer = [script(DUCKDB, source, folder / "peer.parquet") for _ in range(ROUNDS)]
                rate = count / statistics.median(run["wall"] for run in peer)
                figures["duckdb"] = {"records": count, "rate": rate}
                size = (folder / "peer.parquet").stat().st_size
                shape.add_row(
                    "[dim]msr by DuckDB, to Parquet[/]",
                    f"{rate:,.0f}",
                    "",
                    "",
                    "",
                    "",
                    f"{size / 1e6:.1f} MB",
                )
            source.unlink()
        console.print(shape)
        source = folder / "many.csv"
        msr(source, MANY)
        many = once("msr", source, folder / "many.trail")
        console.print(
            f"{MANY:,} lines of CSV: {MANY / many['wall']:,.0f} records/s, memory {many['memory'] / 1e6:,.0f} MB"
            " of all its processes together\n"
        )
    keep("import", formats=figures, many={"records": MANY, **many})


def once(format: str, source: Path, trail: Path) -> dict[str, float]:
    """One import in a process of its own."""
    return script(ONE, format, source, trail)


def script(text: str, *words: object) -> dict[str, float]:
    """Run a script that prints what it cost."""
    path = {"PYTHONPATH": str(ROOT / "python")}
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", text, *map(str, words)],
        env={**os.environ, **path},
        stdout=subprocess.PIPE,
        text=True,
    )
    if done.returncode:
        raise SystemExit(
            f"bench: error: importing {words} ended with status {done.returncode} after {time.monotonic() - began:.1f} s"
        )
    measured: dict[str, float] = json.loads(done.stdout)
    return measured

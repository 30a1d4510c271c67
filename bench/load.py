"""What recording costs whole programs: CPU time and wall time beside the unrecorded run.

Each workload is a function that prepares its inputs in a folder once and gives the command of one run
(and what to do before each run). Also says how many bytes an operation takes at rest.
"""

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from measure import ROUNDS, SEED, Spread, compile_c, console, interleave, keep, run, scratch, table
from recorders import Recorder, recorders


@dataclass(frozen=True)
class Workload:
    """A program to run under each recorder."""

    name: str
    command: Sequence[str]
    before: Callable[[], None] = lambda: None


def small_files(folder: Path) -> Path:
    """40,000 files of 1 to 16 KiB in 800 directories."""
    source = folder / "tree"
    chance = random.Random(SEED)
    for number in range(800):
        directory = source / f"{number // 20:02}" / f"{number:03}"
        directory.mkdir(parents=True)
        for file in range(50):
            (directory / f"{file:02}.dat").write_bytes(chance.randbytes(chance.randrange(1 << 10, 16 << 10)))
    return source


def tar(folder: Path) -> Workload:
    """tar of small files."""
    small_files(folder)
    return Workload(
        "tar of 40,000 files", ["tar", "-cf", str(folder / "tree.tar"), "-C", str(folder), "tree"]
    )


def find(folder: Path) -> Workload:
    """find and md5sum, a pipe between them: most of what is recorded is names and small reads."""
    pipeline = 'find "$0" -type f -print0 | xargs -0 md5sum > /dev/null'
    return Workload("find | md5sum, 40,000 files", ["sh", "-c", pipeline, str(small_files(folder))])


READER = """
import os, sys
for folder, _, names in os.walk(sys.argv[1]):
    for name in names:
        with open(os.path.join(folder, name), "rb") as file:
            file.read()
"""


def reader(folder: Path) -> Workload:
    """Python reads small files whole: eight calls a file."""
    return Workload("Python reads 40,000 files", [sys.executable, "-c", READER, str(small_files(folder))])


def inserts(folder: Path) -> Workload:
    """150,000 rows in sqlite3's shell, a transaction each, write-ahead log, no fsync."""
    database, script = folder / "inserts.db", folder / "inserts.sql"
    script.write_text(
        "PRAGMA journal_mode=WAL; PRAGMA synchronous=OFF; CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT);\n"
        + "".join(f"INSERT INTO t VALUES({n}, 'row {n} of 150000');\n" for n in range(150_000))
    )

    def before() -> None:
        for path in folder.glob("inserts.db*"):
            path.unlink()

    return Workload("sqlite3, 150,000 inserts", ["sqlite3", str(database), f".read {script}"], before)


def sqlite(folder: Path) -> Workload:
    """10,000 transactions of 20 rows in sqlite3's shell, write-ahead log, no fsync per transaction."""
    database, script = folder / "load.db", folder / "load.sql"
    rows = "SELECT value, hex(randomblob(50)), value * 2654435761 % 1000003 FROM generate_series"
    script.write_text(
        "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;\n"
        "CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT, c INTEGER); CREATE INDEX c ON t(c);\n"
        + "".join(f"INSERT INTO t {rows}({n * 20}, {n * 20 + 19});\n" for n in range(10_000))
    )

    def before() -> None:
        for path in folder.glob("load.db*"):
            path.unlink()

    return Workload("sqlite3, 10,000 inserts", ["sqlite3", str(database), f".read {script}"], before)


def fio(folder: Path, direct: bool) -> Workload:
    """fio psync random reads of 4 KiB in a file of 256 MiB."""
    file = folder / "fio.dat"
    if not file.exists():
        file.write_bytes(os.urandom(1 << 20) * 256)
        file.open("rb").read()
    return Workload(
        f"fio psync random reads, {'direct' if direct else 'cached'}",
        [
            *("fio", "--name=read", "--ioengine=psync", "--rw=randread", "--bs=4k", f"--filename={file}"),
            *("--size=256m", "--invalidate=0", "--readonly", "--minimal", f"--randseed={SEED}"),
            *(("--direct=1", "--number_ios=40000") if direct else ("--direct=0", "--loops=15")),
        ],
    )


def mpi(folder: Path) -> Workload:
    """Two OpenMPI ranks that write checkpoints and read each other's."""
    program = compile_c(folder, "ranks.c", compiler="mpicc")
    data = folder / "ranks.data"
    data.mkdir()
    # A container's root, and two ranks on any number of cores.
    options = ["--oversubscribe", *(["--allow-run-as-root"] if os.geteuid() == 0 else [])]
    return Workload(
        "OpenMPI, 2 ranks, file I/O", ["mpirun", *options, "-np", "2", str(program), str(data), "256", "20"]
    )


def needs(program: str, *make: Callable[[Path], Workload]) -> list[Callable[[Path], Workload]]:
    """Workloads of a program, if it is installed."""
    if shutil.which(program):
        return list(make)
    console.print(f"[dim]{program} is not installed: its workloads are left out[/]")
    return []


def bench() -> None:
    """Measure and print."""
    present, absent = recorders()
    kept: dict[str, object] = {}
    workloads = [
        lambda folder: Workload("true: to start and to end", ["true"]),
        *needs("tar", tar),
        *needs("find", find),
        reader,
        *needs("sqlite3", sqlite, inserts),
        *needs("fio", lambda folder: fio(folder, False), lambda folder: fio(folder, True)),
        *needs("mpirun", mpi),
    ]
    for make in workloads:
        with scratch() as folder:
            workload = make(folder)
            subprocess.run(["sync"], check=True)
            usage = compile_c(folder, "usage.c")

            def once(recorder: Recorder, load: Workload = workload, usage: Path = usage) -> dict[str, float]:
                load.before()
                used = run(load.command, recorder, usage)
                return {
                    "program_cpu": used.program_cpu,
                    "cpu": used.cpu,
                    "wall": used.wall,
                    "whole_wall": used.whole_wall,
                }

            # A tracer that stops the program at each call takes minutes: one round tells enough.
            fast = [recorder for recorder in present if recorder.share == 1]
            seen = interleave(fast, ROUNDS, once)
            for recorder in present:
                if recorder not in fast:
                    seen[recorder.name] = [once(recorder)]
        plain = seen["unrecorded"]
        shape = table(
            f"{workload.name}: seconds, median of {ROUNDS} rounds (least–most); times the unrecorded run",
            ["recorder", "program's CPU", "times", "with recorder", "times", "wall", "times"],
        )
        for recorder in present:
            rounds = seen[recorder.name]
            row = [recorder.name]
            for figure in ("program_cpu", "cpu", "whole_wall"):
                row.append(Spread.of([r[figure] for r in rounds]).text(".3f"))
                ratios = [r[figure] / p[figure] for r, p in zip(rounds, plain, strict=False)]
                row.append("" if rounds is plain else f"{Spread.of(ratios).median:.2f}")
            shape.add_row(*row)
        console.print(shape)
        kept[workload.name] = seen
    for recorder in absent:
        console.print(f"[dim]{recorder.name} is left out: {recorder.missing}[/]")
    keep("load", workloads=kept)

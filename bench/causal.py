"""How right replays of parallel programs are on storage of another speed: as fast as possible, with think times, without waits, causal.

Programs of examples/causal, whose ranks, threads and processes wait for each other in different ways, a pipeline, a shell's, SQLite, LAMMPS, Quantum ESPRESSO and PostgreSQL under pgbench
are recorded on memory, an emulated array and an emulated disk, and some on CephFS where Ceph is there (its own runs differ by half). IOR=PATH and BTIO=PATH add those; PROGRAMS="NAME; …" are some of them. Each recording is replayed on the others, and simulated on the two devices. A program's time is from the first to the last operation on
its data; the error of a replay is (program - replay) / program, medians of interleaved rounds, and shown is the recording whose
replay errs most (Mesnier et al., "//TRACE", FAST 2007, section 5). Needs root, Open MPI and PostgreSQL.
"""

import json
import os
import select
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from glob import glob
from pathlib import Path

from iotrail import native
from iotrail.trail import Trail
from measure import ROOT, Spread, console, keep, scratch, table

sys.path.insert(0, str(ROOT / "examples" / "ceph"))
from cluster import Cluster

IOTRAIL = [sys.executable, "-m", "iotrail"]
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
# More rounds while the program's own times differ by more than this share of their median, up to so many.
STEADY, MOST_ROUNDS = 0.05, max(ROUNDS, 6)
MODES = ("afap", "think", "compute", "causal")
DISK = "hdd-7200"
MPI = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n"]
PIPELINE = "seq 1 150000 | gzip -1 | dd of={data}/out bs=4k iflag=fullblock oflag=dsync status=none"
# Root is somebody else in a namespace: PostgreSQL refuses it.
DATABASE = """
export PGHOST=$2 PGUSER=u PGDATABASE=postgres PATH=$3:$PATH
postgres -D $2/pg -k $2 -c listen_addresses= > $2/log 2>&1 &
for _ in $(seq 600); do psql -Atc 'SELECT 1' > $2/up 2>&1 && break; sleep 0.05; done
if [ $1 = create ]; then pgbench -i -q -s 2 > $2/load 2>&1; else pgbench -n -c 4 -j 2 -t 60 --random-seed=1 > $2/bench 2>&1; fi
kill -INT $! && wait $!
"""
# Each writes a file durably, and says by another one that it has; who comes next looks for that.
TELLING = """
for who in 1 2 3; do
    for at in $(seq 20); do
        before=$(( (who + 1) % 3 + 1 ))
        case $who in 1) until [ $at = 1 ] || [ -e $1/$before.$((at - 1)) ]; do sleep 0.001; done;; *) until [ -e $1/$before.$at ]; do sleep 0.001; done;; esac
        dd if=/dev/zero of=$1/$who bs=16k count=1 oflag=dsync conv=notrunc status=none
        : > $1/$who.$at
    done &
done
wait
"""
INPUTS = ROOT / "bench" / "inputs"
ESPRESSO = [
    "env",
    "ESPRESSO_TMPDIR={data}",
    "ESPRESSO_PSEUDO=/usr/share/espresso/pseudo",
    "OMP_NUM_THREADS=1",
]
ANYBODY = ["unshare", "--user", "--map-user=1000", "--map-group=1000", "--"]
# Those that are also run on CephFS.
ON_CEPHFS = {"checkpoint, in step", "bounded queue", "SQLite"}
BINARIES = next(iter(sorted(glob("/usr/lib/postgresql/*/bin"), reverse=True)), "")
# Name -> command; {ranks} and {workers} are the programs, {data} is the folder of their files.
PROGRAMS = {
    "checkpoint": [*MPI, "4", "{ranks}", "plain", "40", "16384", "{data}"],
    "checkpoint, in step": [*MPI, "4", "{ranks}", "sync", "40", "16384", "{data}"],
    "checkpoint, in step, 8 ranks": [*MPI, "8", "{ranks}", "sync", "20", "16384", "{data}"],
    "checkpoint, in step, computing": [*MPI, "4", "{ranks}", "compute", "40", "16384", "{data}"],
    "readers in turn": [*MPI, "4", "{ranks}", "turns", "60", "16384", "{data}"],
    "solver": [*MPI, "4", "{ranks}", "solver", "40", "16384", "{data}"],
    "bounded queue": ["{workers}", "queue", "60", "4096", "{data}"],
    "requests to a server": ["{workers}", "rpc", "60", "4096", "{data}"],
    "pipeline": ["sh", "-c", PIPELINE],
    "files that tell others": ["sh", "-c", TELLING, "sh", "{data}"],
    "SQLite": ["/usr/bin/python3", str(ROOT / "examples" / "causal" / "table.py"), "{data}", "WAL", "50"],
    "LAMMPS": [
        *MPI,
        "4",
        "lmp",
        "-log",
        "none",
        "-var",
        "data",
        "{data}",
        "-in",
        str(INPUTS / "melt.lammps"),
    ],
    "Quantum ESPRESSO": [*ESPRESSO, *MPI, "2", "pw.x", "-in", str(INPUTS / "silicon.pw")],
    "database": [*ANYBODY, "bash", "-c", DATABASE, "bash", "run", "{data}", BINARIES],
}
IOR = "{ior} -a MPIIO -c -C -w -r -b 256k -t 16k -s 8 -o {data}/file"
if "IOR" in os.environ:
    PROGRAMS["IOR"] = [*MPI, "4", *IOR.replace("{ior}", os.environ["IOR"]).split()]
if "BTIO" in os.environ:
    PROGRAMS["BTIO"] = ["env", "-C", "{data}", *MPI, "4", os.environ["BTIO"]]
# What is given to programs as it is.
SCRIPTS = (DATABASE, TELLING)
# What has to be there for those that not everybody has.
NEEDED = {
    "SQLite": "/usr/bin/python3",
    "LAMMPS": "/usr/bin/lmp",
    "Quantum ESPRESSO": "/usr/share/espresso/pseudo/Si.pz-vbc.UPF",
    "database": BINARIES or "PostgreSQL",
}
FIXED = """
format = 1
kind = "fixed"
name = "{name}"
[fixed]
capacity = {{ value = 1, unit = "GiB", source = "benchmark" }}
servers = {{ value = 8, unit = "count", source = "benchmark" }}
read = {{ value = {ms}, unit = "ms", source = "benchmark" }}
write = {{ value = {ms}, unit = "ms", source = "benchmark" }}
flush = {{ value = {flush_ms}, unit = "ms", source = "benchmark" }}
trim = {{ value = 0.1, unit = "ms", source = "benchmark" }}
rate = {{ value = 5, unit = "GB/s", source = "benchmark" }}
"""
# What is aimed at: //TRACE's were 6 and 17 %.
GOAL_MEAN, GOAL_WORST = 0.03, 0.10
# Programs that take less, s, are shown but not counted: a replay begins and ends some ms off.
LEAST = 0.1


@dataclass(frozen=True)
class Case:
    """One program on one storage system."""

    program: str
    storage: str
    # Seconds of the program itself.
    took: Spread
    # Mode -> error of the worst recording, and where that was made; nothing is simulated on memory.
    errors: dict[str, tuple[float, str]]
    # Whether the program's time was in the range of each simulation.
    inside: list[bool]


@contextmanager
def emulated(folder: Path, device: str) -> Iterator[Path]:
    """A file system on an emulated device."""
    folder.mkdir()
    command = [native.binary(), "emudisk", device, folder / "d", "--loop", "--size", "900M", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    mounted = folder / "mounted"
    mounted.mkdir()
    try:
        assert process.stdout is not None
        if not select.select([process.stdout], [], [], 60)[0]:
            raise SystemExit("bench: error: no word from emudisk")
        target = json.loads(process.stdout.readline())["target"]
        subprocess.run(["mkfs.ext4", "-q", "-O", "^has_journal", target], check=True)
        subprocess.run(["mount", target, mounted], check=True)
        try:
            yield mounted
        finally:
            subprocess.run(["umount", mounted], check=True)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)


def build(folder: Path) -> dict[str, Path]:
    """The programs, by the names that commands have for them."""
    built = {name: folder / name for name in ("ranks", "workers")}
    for name, path in built.items():
        source = ROOT / "examples" / "causal" / f"{name}.c"
        subprocess.run(["mpicc", "-O2", "-pthread", "-o", path, source], check=True)
    return built


def command(program: str, built: dict[str, Path], data: Path) -> list[str]:
    """A program on files in a folder that is there."""
    return [word if word in SCRIPTS else word.format(data=data, **built) for word in PROGRAMS[program]]


def is_steady(took: Spread) -> bool:
    """Whether a program took as long each time, or too short a time to count."""
    return took.median < LEAST or took.most - took.least <= STEADY * took.median


def record(built: dict[str, Path], program: str, folder: Path, output: Path) -> Path:
    """Records a program whose data lie in a folder."""
    data = folder / "checkpoints"
    shutil.rmtree(data, ignore_errors=True)
    prepare(program, data, output.parent)
    words = [*IOTRAIL, "record", "--causal", "-o", output, "--force", "--", *command(program, built, data)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"bench: error: {program}: {done.stderr[-2000:]}")
    shutil.rmtree(data)
    return output


def prepare(program: str, data: Path, folder: Path) -> None:
    """Makes the folder of a program's files; what is made once for all runs lies in another one."""
    if program == "database":
        shutil.copytree(cluster(folder), data)
        os.sync()
    else:
        data.mkdir()


@cache
def cluster(folder: Path) -> Path:
    """A folder with a database cluster, made once."""
    made = folder / "cluster"
    made.mkdir()
    create = ["initdb", "-D", made / "pg", "-U", "u", "-A", "trust", "--locale=C", "--no-sync"]
    for words in (
        [f"{BINARIES}/{create[0]}", *create[1:]],
        ["bash", "-c", DATABASE, "bash", "create", made, BINARIES],
    ):
        subprocess.run([*ANYBODY, *words], check=True, stdout=subprocess.DEVNULL)
    return made


def replay(recorded: Path, mode: str, folder: Path, output: Path) -> Path:
    """Replays a recording in a folder."""
    root = folder / "replay"
    shutil.rmtree(root, ignore_errors=True)
    words = [*IOTRAIL, "replay", recorded, "--root", root, "--mode", mode, "-o", output, "--force", "--json"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"bench: error: replay of {recorded.name}: {done.stderr[-2000:]}")
    shutil.rmtree(root)
    return output


def simulate(recorded: Path, device: str, *options: str) -> tuple[float, float, float]:
    """How long a recorded program would take on a device, and the ends of its range, in seconds."""
    where = "path LIKE '%/checkpoints/%'"
    words = [
        "--io",
        device,
        "--no-journal",
        "--volume",
        "900M",
        "--where",
        where,
        "--json",
        "--force",
        *options,
    ]
    done = subprocess.run(
        [*IOTRAIL, "whatif", "run", recorded, *words], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise SystemExit(f"bench: error: simulation of {recorded.name}: {done.stderr[-2000:]}")
    [case] = [case for case in json.loads(done.stdout)["cases"] if case["device"]]
    return case["chosen_ns"] / 1e9, case["chosen_low_ns"] / 1e9, case["chosen_high_ns"] / 1e9


def seconds(trail: Path) -> float:
    """From the first operation on the program's data to the last."""
    query = (
        "SELECT MAX(o.ts + o.dur) - MIN(o.ts) FROM file_op AS o INNER JOIN file AS f ON f.file = o.file "
        "WHERE f.path LIKE '%/checkpoints/%'"
    )
    [[took]] = Trail(trail).query(query).fetchall()
    return float(took) / 1e9


def bench() -> None:
    """Print the table of errors."""
    cases = []
    with (
        scratch() as folder,
        emulated(folder / "array", array(folder)) as fast,
        emulated(folder / "disk", DISK) as slow,
        ExitStack() as more,
    ):
        built = build(folder)
        memory = Path("/dev/shm") / folder.name
        memory.mkdir()
        try:
            storages = {"memory": memory, "array": fast, "disk": slow}
            network = cephfs(more)
            devices = {"array": array(folder), "disk": DISK}
            for program in selected():
                if not Path(NEEDED.get(program, "/")).exists():
                    console.print(f"left out: {program} needs {NEEDED[program]}")
                    continue
                at = storages | network if program in ON_CEPHFS else storages
                measured = measure(built, program, at, devices, folder)
                for case in measured:
                    console.print(
                        f"{case.program} on {case.storage}: {case.took.text('.2f')} s, causal {100 * case.errors['causal'][0]:+.1f} %",
                        style="dim",
                    )
                cases += measured
        finally:
            shutil.rmtree(memory)
    show(cases)
    keep("causal", cases=[{**vars(case), "took": vars(case.took)} for case in cases])


def selected() -> list[str]:
    """The programs to measure: those of PROGRAMS="NAME; …" or all."""
    names = [name.strip() for name in os.environ.get("PROGRAMS", "").split(";") if name.strip()]
    if unknown := [name for name in names if name not in PROGRAMS]:
        raise SystemExit(f"bench: error: no program {', '.join(unknown)}; there are: {'; '.join(PROGRAMS)}")
    return names or list(PROGRAMS)


def cephfs(stack: ExitStack) -> dict[str, Path]:
    """A file system of Ceph on this machine, its objects in memory, until the stack is closed; none without Ceph."""
    if not shutil.which("ceph-mon"):
        console.print("left out: CephFS needs Debian's ceph-mon, ceph-mgr, ceph-osd, ceph-mds and ceph-fuse")
        return {}
    # names of sockets are short
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="c-", dir="/tmp"))
    return {"CephFS": stack.enter_context(Cluster(Path(folder) / "c", net="127.0.13")).mount()}


def fixed(folder: Path, name: str, ms: float, flush_ms: float) -> str:
    """A device file of requests that take so long."""
    path = folder / f"{name}.toml"
    path.write_text(FIXED.format(name=name, ms=ms, flush_ms=flush_ms))
    return str(path)


def array(folder: Path) -> str:
    """The device file of an array."""
    return fixed(folder, "array", 1.5, 0.5)


def measure(
    built: dict[str, Path], program: str, storages: dict[str, Path], devices: dict[str, str], folder: Path
) -> list[Case]:
    """One program on all storage systems."""
    recorded = {name: record(built, program, at, folder / f"{name}.trail") for name, at in storages.items()}
    cases = []
    for storage, at in storages.items():
        others = [name for name in storages if name != storage]
        took: dict[tuple[str, str], list[float]] = {}
        for number in range(MOST_ROUNDS):
            if number >= ROUNDS and is_steady(Spread.of(took["program", ""])):
                break
            if console.is_terminal:
                console.print(
                    f"  {program} on {storage}, round {number + 1}/{max(ROUNDS, number + 1)}      ",
                    end="\r",
                    style="dim",
                )
            trail = record(built, program, at, folder / "program.trail")
            took.setdefault(("program", ""), []).append(seconds(trail))
            for other in others:
                for mode in MODES:
                    trail = replay(recorded[other], mode, at, folder / "replay.trail")
                    took.setdefault((mode, other), []).append(seconds(trail))
        own = Spread.of(took["program", ""])
        errors = {}
        for mode in MODES:
            off = [
                ((own.median - statistics.median(took[mode, other])) / own.median, other) for other in others
            ]
            errors[mode] = max(off, key=lambda each: abs(each[0]))
        inside = []
        if storage in devices:
            off = []
            for other in others:
                # its files were just copied there
                options = ["--warm"] if program == "database" else []
                took_there, low, high = simulate(recorded[other], devices[storage], *options)
                off.append(((own.median - took_there) / own.median, other))
                inside.append(low <= own.median <= high)
            errors["simulated"] = max(off, key=lambda each: abs(each[0]))
        cases.append(Case(program, storage, own, errors, inside))
    return cases


def show(cases: list[Case]) -> None:
    """Print errors, and their mean and worst by mode."""
    shown = table(
        "Error of replays, % (worst recording of another storage system)",
        ("program", "on", "takes, s", *MODES, "simulated"),
    )
    for case in cases:
        errors = (
            f"{100 * error:+.1f} [dim]{other}[/]" if found else ""
            for found in (case.errors.get(mode) for mode in (*MODES, "simulated"))
            for error, other in [found or (0.0, "")]
        )
        shown.add_row(case.program, case.storage, case.took.text(".2f"), *errors)
    counted = [case for case in cases if case.took.median >= LEAST]
    for name, of in (("mean", statistics.mean), ("worst", max)):
        figures = (
            f"{100 * of([abs(case.errors[mode][0]) for case in counted if mode in case.errors]):.1f}"
            for mode in (*MODES, "simulated")
        )
        shown.add_row(f"[bold]{name}[/]", f"over {LEAST} s", "", *figures)
    console.print(shown)
    causal = [abs(case.errors["causal"][0]) for case in counted]
    met = "met" if statistics.mean(causal) < GOAL_MEAN and max(causal) < GOAL_WORST else "missed"
    console.print(
        f"goal of causal: {100 * GOAL_MEAN:.0f} on average, {100 * GOAL_WORST:.0f} at most: {met}\n"
    )
    simulated = [one for case in cases for one in case.inside]
    console.print(f"the program's time is in the range of {sum(simulated)} of {len(simulated)} simulations\n")

"""`make demo-causal`: an MPI program recorded in memory, whose ranks meet after each write; who waited for whom, and how long it runs on a
disk that this machine doesn't have.

The recording is simulated on that disk, and replayed on the emulated disk in four ways, beside the program really run there. Where on a disk a file
comes to lie decides much: all run several times in turn, and medians are compared. A picture has the bandwidth over time of the program and of its
replays (as Mesnier et al., "//TRACE", FAST 2007, figure 1), of the runs in the middle. As root: the emulated disk is
a FUSE file behind a loop device. Trails, picture and report stay in demo/.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import rich.box
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parent.parent / "devices"))
from served import IOTRAIL, Served, served

from iotrail.page.plot import Plot, linear, sheet
from iotrail.terminal import Console
from iotrail.trail import Trail

ROOT = Path(__file__).resolve().parent.parent.parent
OUTPUT = Path("demo")
DEVICE = "hdd-7200"
SIZE = "900M"
RANKS, BLOCKS, BYTES = 4, 60, 16_384
# An odd number: one run is in the middle.
ROUNDS = 3
# Each replay and its curve.
MODES = {
    "afap": "as fast as possible",
    "think": "with think times",
    "compute": "computing, without waits",
    "causal": "computing and waiting",
}
DRAWN = {"program": "#1f6feb", "causal": "#2da44e", "think": "#d4812a"}
DATA = "path LIKE '%/checkpoints/%'"
# Of the picture: time that a point of a curve stands for, as a share of all.
SMOOTHED = 40


@contextmanager
def disk(folder: Path) -> Iterator[tuple[Path, Served]]:
    """A file system on the emulated disk."""
    mounted = folder / "mounted"
    mounted.mkdir()
    with served(DEVICE, folder / "emulated", "--size", SIZE, "--loop") as emulated:
        subprocess.run(["mkfs.ext4", "-q", "-O", "^has_journal", emulated.target], check=True)
        subprocess.run(["mount", emulated.target, mounted], check=True)
        try:
            yield mounted, emulated
        finally:
            subprocess.run(["umount", mounted], check=False)


def iotrail(*words: object) -> str:
    """What a verb of iotrail prints."""
    done = subprocess.run([IOTRAIL, *map(str, words)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"demo: error: iotrail {words[0]}: {done.stderr[-2000:]}")
    return done.stdout


def record(ranks: Path, folder: Path, name: str) -> Path:
    """Record the program with its data in a folder."""
    data = folder / "checkpoints"
    data.mkdir()
    output = OUTPUT / f"causal-{name}.trail"
    mpi = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(RANKS)]
    command = [*mpi, ranks, "compute", BLOCKS, BYTES, data]
    iotrail("record", "--causal", "--force", "-o", output, "--", *command)
    shutil.rmtree(data)
    return output


def replay(trail: Path, mode: str, folder: Path, number: int) -> Path:
    """Replay a recording in a folder."""
    root = folder / "replay"
    output = OUTPUT / f"causal-{mode}-{number}.trail"
    iotrail("replay", trail, "--root", root, "--mode", mode, "-o", output, "--force")
    shutil.rmtree(root)
    return output


def seconds(trail: Path) -> float:
    """From the first operation on the data to the end of the last."""
    query = f"SELECT MAX(ts + dur) - MIN(ts) FROM op WHERE {DATA}"
    [[took]] = Trail(trail).query(query).fetchall()
    return took / 1e9


def predicted(trail: Path) -> dict[str, float]:
    """The same as simulated on the disk, and the ends of its range."""
    words = ["--io", DEVICE, "--no-journal", "--volume", SIZE, "--where", DATA, "--json"]
    cases = json.loads(iotrail("whatif", "run", trail, *words))["cases"]
    [there] = [case for case in cases if case["device"] == DEVICE]
    return {name: there[name] / 1e9 for name in ("chosen_ns", "chosen_low_ns", "chosen_high_ns")}


def curve(trail: Path, step: float) -> tuple[list[float], list[float]]:
    """Bandwidth over time, MB/s: of each moment the bytes of operations that ended in a window around it."""
    query = f"SELECT ts + dur, result FROM op WHERE {DATA} AND kind IN ('read', 'write') AND result > 0 ORDER BY ts"
    rows = Trail(trail).query(query).fetchall()
    ends, moved = np.array(rows, dtype=np.float64).T
    [[start]] = Trail(trail).query(f"SELECT MIN(ts) FROM op WHERE {DATA}").fetchall()
    ends = (ends - start) / 1e9
    order = np.argsort(ends)
    ends, total = ends[order], np.concatenate([[0.0], np.cumsum(moved[order])])
    times = np.arange(0, ends[-1] + step, step / 4)
    window = total[np.searchsorted(ends, times + step / 2)] - total[np.searchsorted(ends, times - step / 2)]
    return times.tolist(), (window / step / 1e6).tolist()


def draw(trails: dict[str, Path]) -> Path:
    """The picture: a panel for the program and each replay, with the same axes."""
    longest = max(seconds(trail) for trail in trails.values())
    curves = {name: curve(trail, longest / SMOOTHED) for name, trail in trails.items()}
    most = max(max(heights) for _, heights in curves.values())
    time = linear(0, longest, lambda value: f"{value:g} s")
    height = linear(0, most * 1.05, lambda value: f"{value:g}")
    rows = []
    for name, (times, heights) in curves.items():
        plot = Plot(time, height, width=640, height=130)
        plot.line(times, heights, DRAWN[name])
        words = (
            f"the program on {DEVICE}"
            if name == "program"
            else f"replay there, {MODES[name]} (--mode {name})"
        )
        rows.append([plot.drawing(f"{words}: {seconds(trails[name]):.2f} s", "MB/s over time")])
    path = OUTPUT / "causal.svg"
    path.write_bytes(sheet("Bandwidth of an MPI program and of replays of its recording in memory", rows))
    return path


def compared(runs: dict[str, list[tuple[float, Path]]], memory: float, simulated: dict[str, float]) -> Table:
    """The table of times and errors."""
    table = Table(box=rich.box.SIMPLE_HEAD)
    for title in ("", "takes", f"of {ROUNDS} runs", "error"):
        table.add_column(title, justify="right" if title else "left")
    times = {name: sorted(took for took, _ in of) for name, of in runs.items()}
    program = times["program"][ROUNDS // 2]

    def add(what: str, takes: float, ends: str, *, is_guess: bool = True) -> None:
        error = f"{100 * (program - takes) / program:+.1f} %" if is_guess else ""
        table.add_row(what, f"{takes:.2f} s", ends, error)

    add("the program in memory", memory, "", is_guess=False)
    add(f"the program on {DEVICE}", program, between(*times["program"][:: ROUNDS - 1]), is_guess=False)
    low, high = (simulated[name] for name in ("chosen_low_ns", "chosen_high_ns"))
    add(f"simulated there ({between(low, high)})", simulated["chosen_ns"], "")
    for mode, said in MODES.items():
        ran = times[mode]
        add(f"replay there, {said}", ran[ROUNDS // 2], between(ran[0], ran[-1]))
    return table


def between(low: float, high: float) -> str:
    """Two times, for people."""
    return f"{low:.2f} – {high:.2f} s"


def main() -> int:
    """Record, explain, replay, compare."""
    if os.geteuid() != 0:
        print("demo: error: emulated disks behind loop devices need root", file=sys.stderr)
        return 1
    os.chdir(ROOT)
    OUTPUT.mkdir(exist_ok=True)
    console = Console(piped=120)
    with (
        tempfile.TemporaryDirectory(prefix="iotrail-demo-") as name,
        tempfile.TemporaryDirectory(prefix="iotrail-demo-", dir="/dev/shm") as memory,
    ):
        folder = Path(name)
        ranks = folder / "ranks"
        subprocess.run(["mpicc", "-O2", "-o", ranks, ROOT / "examples" / "causal" / "ranks.c"], check=True)
        print(
            f"{RANKS} ranks write a checkpoint, meet after each write, read it back and compute: in memory …",
            flush=True,
        )
        recorded = record(ranks, Path(memory), "memory")
        print(iotrail("waits", recorded))
        simulated = predicted(recorded)
        print(f"The same on an emulated {DEVICE}, and replays of the recording there …", flush=True)
        runs: dict[str, list[tuple[float, Path]]] = {name: [] for name in ("program", *MODES)}
        with disk(folder) as (mounted, emulated):
            for number in range(ROUNDS):
                for name, of in runs.items():
                    ran = (
                        record(ranks, mounted, f"program-{number}")
                        if name == "program"
                        else replay(recorded, name, mounted, number)
                    )
                    of.append((seconds(ran), ran))
                print(f"  round {number + 1} of {ROUNDS} is done", flush=True)
        late = emulated.counts["lateness_p50_ns"] / 1e6
    console.print(compared(runs, seconds(recorded), simulated))
    trails = {name: sorted(of)[ROUNDS // 2][1] for name, of in runs.items()}
    console.print(f"Half of the emulated disk's answers came {late:.2f} ms after its model's, or more.")
    picture = draw({name: trails[name] for name in DRAWN})
    report = OUTPUT / "causal.html"
    iotrail("report", trails["program"], "-o", report, "--force")
    print(f"{picture} has the bandwidth over time; {report} is the report of the run on {DEVICE}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())

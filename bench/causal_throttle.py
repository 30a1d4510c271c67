"""How right predictions are by how many threads are paused, and how often: Figures 10 and 11 of Mesnier et al., "//TRACE" (FAST 2007).

Programs whose threads or processes wait for each other without a call that shows it (tests/causal/programs/unseen.c) are recorded with
`--throttle`: so many threads, one a run; halves of them, before each operation or each P-th; and as `auto` chooses. The error is that of a
check: a run with longer operations beside its prediction from the recording. Time is that of all runs with pauses, as often as the program itself.
"""

import os
import re
import shutil
import statistics
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from iotrail.causal import check
from iotrail.trail import Trail
from measure import ROOT, console, keep, scratch, table
from recorders import IOTRAIL

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
PROGRAMS = {
    "two in turn, a flag": ("pingpong", "flag", "2", "60"),
    "two in turn, a polled file": ("pingpong", "file", "2", "60"),
    "chain of three, a flag": ("chain", "flag", "3", "40"),
    "chain of four, a mapping": ("chain", "mapping", "4", "40"),
}
PERIODS = (1, 2, 4, 8, 16)


@dataclass(frozen=True)
class Found:
    """One way to pause threads."""

    # Median of the errors, as a share; and of how many further runs there were.
    error: float
    runs: float
    # Median of the time of recording, by that of the program.
    times: float


def bench() -> None:
    """Print the tables."""
    kept: dict[str, object] = {}
    with scratch() as folder:
        program = folder / "unseen"
        source = ROOT / "tests" / "causal" / "programs" / "unseen.c"
        subprocess.run(["cc", "-O1", "-pthread", "-o", program, source], check=True)
        memory = Path("/dev/shm") / folder.name
        memory.mkdir()
        try:
            for name, words in PROGRAMS.items():
                kept[name] = {
                    how: vars(found)
                    for how, found in measure(name, [str(program), *words], folder, memory).items()
                }
        finally:
            shutil.rmtree(memory)
    keep("causal_throttle", programs=kept)


def measure(name: str, command: Sequence[str], folder: Path, memory: Path) -> dict[str, Found]:
    """A program with all ways, printed."""
    threads = int(command[3])
    ways = {"none": ["--check"]}
    ways |= {f"{count} alone": ["--check", "--throttle", str(count)] for count in range(1, threads + 1)}
    ways |= {
        f"halves, P = {period}": ["--check", "--throttle", "groups", "--period", str(period)]
        for period in PERIODS
    }
    ways["auto"] = ["--throttle", "auto"]
    seen: dict[str, list[tuple[float, int, float]]] = {how: [] for how in ways}
    for number in range(ROUNDS):
        for how, options in ways.items():
            if console.is_terminal:
                console.print(f"  {name}, {how}, round {number + 1}/{ROUNDS}      ", end="\r", style="dim")
            seen[how].append(once(command, options, folder, memory))
    shape = table(
        f"{name}: medians of {ROUNDS} rounds",
        ["paused", "error of a prediction", "runs with pauses", "time, x the program's"],
    )
    found = {}
    for how, rounds in seen.items():
        errors, runs, times = zip(*rounds, strict=True)
        one = Found(statistics.median(errors), statistics.median(runs), statistics.median(times))
        shape.add_row(how, f"{100 * one.error:+.1f} %", f"{one.runs:.0f}", f"{one.times:,.0f}")
        found[how] = one
    console.print(shape)
    return found


def once(
    command: Sequence[str], options: Sequence[str], folder: Path, memory: Path
) -> tuple[float, int, float]:
    """Error of the check, further runs, and how many times as long as the program it all took."""
    files, trail = memory / "files", folder / "x.trail"
    files.mkdir()
    words = [
        IOTRAIL,
        "record",
        "--causal",
        "--force",
        "-o",
        trail,
        *options,
        "--",
        *command,
        files,
        folder / "log",
    ]
    began = time.monotonic()
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    took = time.monotonic() - began
    shutil.rmtree(files)
    answer = check.found(Trail(trail)) if done.returncode == 0 else None
    if answer is None:
        raise SystemExit(f"bench: error: {command}: {done.stderr[-2000:]}")
    runs = len(re.findall(r"^iotrail: run \d+ of \d+: ", done.stderr, re.MULTILINE))
    return answer["error"], runs, took * 1e9 / answer["took_ns"]

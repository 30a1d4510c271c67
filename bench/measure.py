"""Running commands side by side, and what is said about the numbers.

Runs are interleaved: each round runs every recorder once, in an order that turns, so that a slow
minute of the machine doesn't fall on one of them. A figure is the median of its rounds with the
smallest and the largest; a ratio is the median of the ratios within a round.
"""

import json
import os
import platform
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from rich.console import Console
from rich.table import Table

from recorders import Recorder

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"
SEED = 20_240_229
# Rounds of each comparison; fewer for a quick look.
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "7"))

console = Console(width=None if sys.stdout.isatty() else 150, highlight=False)


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder for inputs and outputs, gone afterwards; BENCH_TMP says on which file system."""
    folder = Path(tempfile.mkdtemp(prefix="iotrail-bench-", dir=os.environ.get("BENCH_TMP")))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def compile_c(folder: Path, source: str, *options: str, compiler: str = "gcc") -> Path:
    """Compile one of bench/*.c."""
    binary = folder / Path(source).stem
    subprocess.run(
        [compiler, "-O2", "-o", str(binary), str(ROOT / "bench" / source), *options], check=True, cwd=folder
    )
    return binary


@dataclass(frozen=True)
class Usage:
    """What one run cost, in seconds and bytes."""

    output: str
    # User and system time of the program and its descendants, without a recorder beside them.
    program_cpu: float
    # The same with the recorder.
    cpu: float
    # From the start of the program to its end.
    wall: float
    # With the recorder's start and end.
    whole_wall: float
    # Largest resident set of any one process.
    max_rss: int


def run(command: Sequence[str], recorder: Recorder, usage: Path, cwd: Path | None = None) -> Usage:
    """Run a command under a recorder, whose output goes to a folder that is removed again."""
    with tempfile.TemporaryDirectory(dir=usage.parent) as name:
        folder = Path(name)
        own = folder / "usage.json"
        variables = recorder.variables(folder)
        # The helper sits inside of the recorder, `env` inside of the helper: a preloaded recorder
        # sees the program only.
        inner = ["env", *(f"{key}={value}" for key, value in variables.items())] if variables else []
        whole = [*recorder.prefix(folder), str(usage), str(own), *inner, *command]
        with (folder / "out").open("w+") as out, (folder / "err").open("w+") as err:
            began = time.monotonic()
            process = subprocess.Popen(whole, stdout=out, stderr=err, stdin=subprocess.DEVNULL, cwd=cwd)
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            took = time.monotonic() - began
            out.seek(0)
            err.seek(0)
            if process.returncode != 0:
                raise SystemExit(
                    f"bench: error: {shlex.join(whole)}\n  ended with status {process.returncode}:\n"
                    + err.read()[-2000:]
                )
            program = json.loads(own.read_text())
            return Usage(
                output=out.read(),
                program_cpu=program["user"] + program["system"],
                cpu=used.ru_utime + used.ru_stime,
                wall=program["wall"],
                whole_wall=took,
                max_rss=used.ru_maxrss * 1024,
            )


class Named(Protocol):
    """What is compared."""

    @property
    def name(self) -> str:
        """Its line in the table."""


Compared = TypeVar("Compared", bound=Named)


def interleave(
    recorders: Sequence[Compared], rounds: int, once: Callable[[Compared], dict[str, float]]
) -> dict[str, list[dict[str, float]]]:
    """Recorder -> what `once` measured in each round. One round before the first isn't counted."""
    seen: dict[str, list[dict[str, float]]] = {recorder.name: [] for recorder in recorders}
    for number in range(-1, rounds):
        shift = number % len(recorders)
        for recorder in [*recorders[shift:], *recorders[:shift]]:
            if console.is_terminal:
                console.print(f"  round {number + 1}/{rounds} {recorder.name:20}", end="\r", style="dim")
            measured = once(recorder)
            if number >= 0:
                seen[recorder.name].append(measured)
    return seen


@dataclass(frozen=True)
class Spread:
    """Median, smallest and largest of a figure's rounds."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """Of at least one value."""
        return cls(statistics.median(values), min(values), max(values))

    def text(self, form: str) -> str:
        """`median (least–most)`."""
        return f"{self.median:{form}} [dim]({self.least:{form}}–{self.most:{form}})[/]"


def table(title: str, columns: Sequence[str]) -> Table:
    """A table whose first column names, the others count."""
    shape = Table(title=title, title_justify="left", title_style="bold")
    for index, column in enumerate(columns):
        shape.add_column(column, justify="right" if index else "left", no_wrap=True)
    return shape


def machine() -> dict[str, Any]:
    """Where and on what a result was measured."""
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    git = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return {
        "date": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "cpu": model,
        "cores": len(os.sched_getaffinity(0)),
        "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "kernel": platform.release(),
        "command": shlex.join(["python", *sys.argv]),
        "commit": git.stdout.strip(),
        "load": os.getloadavg()[0],
        "seed": SEED,
    }


def keep(name: str, **figures: Any) -> None:
    """Write a result beside where it was measured."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps({"bench": name, "machine": machine(), **figures}, indent=1) + "\n")
    console.print(f"[dim]kept in {path.relative_to(ROOT)}[/]\n")

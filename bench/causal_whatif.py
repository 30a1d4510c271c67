"""How right `whatif run` is: programs recorded once, beside the same with I/O, computing or a lock really faster and slower.

Programs of examples/causal run on an emulated device whose requests take a given time; theirs are taken a tenth to ten times as long by
others like it. What a call takes there on average, as recorded, is the factor that is asked for: emulation and the file system have costs of their
own. A program's time is from the first to the last operation on its data; that of the whole run where the calls on some of them are changed. Needs
root and Open MPI.
"""

import json
import os
import shutil
import statistics
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import causal
from iotrail.trail import Trail
from measure import Spread, console, keep, scratch, table

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
BASE_MS = 2.0
SPEEDS = (0.1, 0.3, 3.0, 10.0)
COMPUTING = (0.5, 2.0)
PROGRAMS = {
    "checkpoint, in step, computing": ("mpi", "compute", "20", "16384"),
    "solver": ("mpi", "solver", "24", "16384"),
    "bounded queue": ("workers", "queue", "40", "4096"),
    "a table and its lock": ("workers", "table", "40", "4096"),
    "requests to a server": ("workers", "rpc", "30", "4096"),
}
# What is aimed at: mean error, share of truths inside, width of ranges.
GOAL_ERROR, GOAL_INSIDE, GOAL_WIDTH = 0.05, 0.9, 0.15


@dataclass(frozen=True)
class Change:
    """Something that is faster or slower: what is asked, and how it really is."""

    name: str
    # Of the emulated device, by their factor; the one of `path` where only some files lie there.
    speed: float = 1.0
    # Files whose calls are meant, as in LIKE.
    path: str = "%/checkpoints/%"
    asked: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_of_all(self) -> bool:
        """Whether calls on all data are meant."""
        return self.path == Change("").path


def changes(program: str) -> Iterator[Change]:
    """What is changed of a program."""
    for speed in SPEEDS:
        yield Change(f"I/O x {speed:g}", speed)
    for factor in COMPUTING:
        yield Change(
            f"computing x {factor:g}", asked=("--compute", str(factor)), environment={"COMPUTE": str(factor)}
        )
    if program == "a table and its lock":
        for factor in COMPUTING:
            yield Change(
                f"lock x {factor:g}", asked=("--lock", str(factor)), environment={"HELD": str(factor)}
            )
    if program == "bounded queue":
        for speed in (SPEEDS[0], SPEEDS[2]):
            yield Change(f"log x {speed:g}", speed, "%/checkpoints/log.%")


@dataclass(frozen=True)
class Case:
    """A prediction beside the truth, seconds."""

    program: str
    change: str
    before: Spread
    really: Spread
    predicted: float
    low: float
    high: float

    @property
    def error(self) -> float:
        """Of the prediction, as a share of the truth."""
        return self.predicted / self.really.median - 1

    @property
    def inside(self) -> bool:
        """Whether the truth is in the range."""
        return self.low <= self.really.median <= self.high

    @property
    def width(self) -> float:
        """Of the range, as a share of the prediction."""
        return (self.high - self.low) / self.predicted


def bench() -> None:
    """Print the table."""
    os.environ["OMPI_ALLOW_RUN_AS_ROOT"] = os.environ["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
    cases = []
    with scratch() as folder, ExitStack() as devices:
        built = causal.build(folder)
        mounted = {}
        for speed in (1.0, *SPEEDS):
            device = causal.fixed(folder, f"x-{speed:g}", BASE_MS * speed, BASE_MS * speed / 4)
            mounted[speed] = devices.enter_context(causal.emulated(folder / f"at-{speed:g}", device))
        for program in PROGRAMS:
            cases += measure(program, built, mounted, folder)
    show(cases)
    keep(
        "causal_whatif",
        cases=[{**vars(case), "before": vars(case.before), "really": vars(case.really)} for case in cases],
    )


def measure(
    program: str, built: Mapping[str, Path], mounted: Mapping[float, Path], folder: Path
) -> list[Case]:
    """All changes of a program."""
    recorded = record(program, built, mounted, Change("nothing"), folder / "recorded.trail")
    again = folder / "again.trail"
    every = [Change("nothing"), *changes(program)]
    took: dict[str, list[float]] = {change.name: [] for change in every}
    factors: dict[str, list[float]] = {change.name: [] for change in every}
    for number in range(ROUNDS):
        for change in every:
            if console.is_terminal:
                console.print(
                    f"  {program}, {change.name}, round {number + 1}/{ROUNDS}      ", end="\r", style="dim"
                )
            trail = record(program, built, mounted, change, again)
            took[change.name].append(seconds(trail, change))
            factors[change.name].append(call_ns(trail, change) / call_ns(recorded, change))
    before = Spread.of(took.pop("nothing"))
    cases = []
    for change in every[1:]:
        factor = statistics.median(factors[change.name]) if change.speed != 1.0 else 1.0
        words = ["--io", f"{factor:.4f}", "--where", f"path LIKE '{change.path}'", *change.asked, "--json"]
        done = subprocess.run(
            [*causal.IOTRAIL, "whatif", "run", recorded, *words], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise SystemExit(f"bench: error: {program}, {change.name}: {done.stderr[-2000:]}")
        case = min(json.loads(done.stdout)["cases"], key=lambda case: abs(case["io"] - factor))
        span = "chosen" if change.is_of_all else "elapsed"
        predicted, low, high = (case[f"{span}{end}_ns"] / 1e9 for end in ("", "_low", "_high"))
        cases.append(Case(program, change.name, before, Spread.of(took[change.name]), predicted, low, high))
    return cases


def record(
    program: str, built: Mapping[str, Path], mounted: Mapping[float, Path], change: Change, output: Path
) -> Path:
    """Records a program with a change."""
    data, fast = (mounted[speed] / "checkpoints" for speed in (1.0, change.speed))
    if change.is_of_all:
        data = fast
    for each in {data, fast}:
        shutil.rmtree(each, ignore_errors=True)
        each.mkdir()
    if data != fast:
        for number in range(2):
            (data / f"log.{number}").symlink_to(fast / f"log.{number}")
    kind, *arguments = PROGRAMS[program]
    command = [*causal.MPI, "4", built["ranks"]] if kind == "mpi" else [built["workers"]]
    words = [*causal.IOTRAIL, "record", "--causal", "-o", output, "--force", "--", *command, *arguments, data]
    done = subprocess.run(
        words, capture_output=True, text=True, check=False, env={**os.environ, **change.environment}
    )
    if done.returncode != 0:
        raise SystemExit(f"bench: error: {program}, {change.name}: {done.stderr[-2000:]}")
    return output


def seconds(trail: Path, change: Change) -> float:
    """How long a recorded program took."""
    if change.is_of_all:
        return causal.seconds(trail)
    done = subprocess.run(
        [*causal.IOTRAIL, "whatif", "run", trail, "--io", "1", "--json", "--force"],
        capture_output=True,
        text=True,
        check=True,
    )
    return float(json.loads(done.stdout)["recorded_ns"]) / 1e9


def call_ns(trail: Path, change: Change) -> float:
    """The mean time of a call that moves data of the files meant."""
    query = (
        "SELECT AVG(o.dur) FROM file_op AS o INNER JOIN file AS f ON f.file = o.file "
        f"WHERE f.path LIKE '{change.path}' AND o.call IN ('pread', 'pwrite')"
    )
    [[took]] = Trail(trail).query(query).fetchall()
    return float(took)


def show(cases: list[Case]) -> None:
    """Print predictions, and how they do."""
    shown = table(
        "Predictions by `whatif run` beside the programs really run so",
        ("program", "change", "before, s", "really, s", "predicted, s", "range", "error", "inside"),
    )
    for case in cases:
        shown.add_row(
            case.program,
            case.change,
            f"{case.before.median:.2f}",
            case.really.text(".2f"),
            f"{case.predicted:.2f}",
            f"{case.low:.2f} – {case.high:.2f}",
            f"{100 * case.error:+.1f} %",
            "yes" if case.inside else "no",
        )
    console.print(shown)
    error = statistics.mean(abs(case.error) for case in cases)
    inside = statistics.mean(case.inside for case in cases)
    width = statistics.median(case.width for case in cases)
    console.print(
        f"mean error {100 * error:.1f} % (goal {100 * GOAL_ERROR:.0f}), truth inside {100 * inside:.0f} % of ranges (goal "
        f"{100 * GOAL_INSIDE:.0f}), median width {100 * width:.0f} % (goal {100 * GOAL_WIDTH:.0f})\n"
    )

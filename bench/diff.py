"""How often `iotrail diff` errs, on a disk's file system and on tmpfs.

Planted: each repeat records the same program (churn.c) three times as A, as B, with 30 µs more in each fsync and with
20 µs more in each unlink (slower.c), alternating. A against B must differ in nothing, the others in the slow call.
Beside it stands what is commonly done, a Mann-Whitney test of all latencies of each call at 5 %.

Programs: tar, sqlite3, git, find and python, each recorded ten times: no two of these runs differ, nor three of them
from three others. "Differ by" is the largest factor between equal runs of the figures that are compared (calls made 100
times and more): what `PLAUSIBLE` of iotrail/diff/times.py allows for beside what a run shows inside.
"""

import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from rich.table import Table
from scipy import stats

from iotrail.diff.compare import Comparison, compare_runs
from iotrail.diff.run import Run, Sides
from iotrail.diff.times import LEAST_FAST
from iotrail.trail import Trail
from measure import ROOT, compile_c, console, keep
from recorders import NATIVE

REPEATS = int(os.environ.get("BENCH_ROUNDS", "20"))
WORK = "2000"
RUNS = 3
RECORDINGS = 10
# Side -> call that is slower, by how many ns.
SIDES = {"a": ("none", 0), "b": ("none", 0), "fsync": ("fsync", 30_000), "unlink": ("unlink", 20_000)}
# Each in a folder of its own, with a tree of small files in `tree`.
PROGRAMS = {
    "tar": "tar -cf out.tar tree",
    # a new file: in the same again, pages are taken in the other order each time
    "sqlite3": "sh -c 'rm -f db.sqlite; exec sqlite3 db.sqlite \"$0\"' 'CREATE TABLE t (a); INSERT INTO t WITH RECURSIVE "
    "c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 20000) SELECT x FROM c; SELECT count(*) FROM t'",
    "git": "git -C repository status --porcelain",
    "find": "find tree -type f -size +0",
    "python": "python3 -c 'import json, email.mime.text, xml.dom.minidom; print(1)'",
}


def bench() -> None:
    """Print the tables."""
    disk = os.environ.get("BENCH_TMP") or ("/var/tmp" if file_system("/var/tmp") != "tmpfs" else str(ROOT))
    table = Table(
        title=f"iotrail diff, {RUNS} runs a side, {REPEATS} repeats of churn {WORK}", title_justify="left"
    )
    for name in (
        "on",
        "false",
        "Mann-Whitney, false",
        "one run each, false",
        "+30 µs on fsync found",
        "+20 µs on unlink found",
    ):
        table.add_column(name, justify="left" if name == "on" else "right")
    programs = Table(title=f"equal runs of programs, {RECORDINGS} recordings each", title_justify="left")
    for name in (
        "on",
        "program",
        "pairs that differ",
        "3 against 3 that differ",
        "means differ by",
        "fastest by",
    ):
        programs.add_column(name, justify="left" if name in ("on", "program") else "right")
    results = {}
    for folder in (disk, "/dev/shm"):
        with tempfile.TemporaryDirectory(prefix="iotrail-bench-", dir=folder) as name:
            on = file_system(folder)
            planted = plant(Path(name))
            table.add_row(
                on,
                *(
                    f"{planted[key]} of {planted['of_' + key]}"
                    for key in ("same", "naive", "pair", "fsync", "unlink")
                ),
            )
            equal = {
                program: record_equal(Path(name), program) for program in PROGRAMS if shutil.which(program)
            }
            for program, (pairs, sides, of_sides, body, fast) in equal.items():
                programs.add_row(
                    on,
                    program,
                    f"{pairs} of {RECORDINGS - 1}",
                    f"{sides} of {of_sides}",
                    f"{body:.2f}",
                    f"{fast:.2f}",
                )
            results[on] = {"planted": planted, "equal": equal}
    console.print(table)
    console.print(programs)
    keep("diff", repeats=REPEATS, **results)


def file_system(folder: str) -> str:
    """The type of the file system below a folder."""
    done = subprocess.run(["stat", "-f", "-c", "%T", folder], capture_output=True, text=True, check=True)
    return done.stdout.strip().replace("ext2/ext3", "ext4")


def plant(folder: Path) -> dict[str, int]:
    """How often what was planted is found, and what wasn't."""
    churn = compile_c(folder, "churn.c")
    slower = compile_c(folder, "slower.c", "-shared", "-fPIC")
    work = folder / "work"
    work.mkdir()
    counts = dict.fromkeys(("same", "naive", "pair", "fsync", "unlink"), 0)
    for number in range(REPEATS):
        for turn in range(RUNS):
            for side, (call, wait) in SIDES.items():
                environment = {"LD_PRELOAD": str(slower), "SLOWER_CALL": call, "SLOWER_NS": str(wait)}
                record(folder / f"{side}{turn}.trail", [str(churn), str(work), WORK], folder, environment)
        runs = {side: [Run(Trail(folder / f"{side}{turn}.trail")) for turn in range(RUNS)] for side in SIDES}
        same = compare_runs(Sides(tuple(runs["a"]), tuple(runs["b"])))
        counts["same"] += differs(same)
        counts["naive"] += mann_whitney(runs["a"][0], runs["b"][0])
        counts["pair"] += differs(compare_runs(Sides((runs["a"][0],), (runs["b"][0],))))
        for call in ("fsync", "unlink"):
            result = compare_runs(Sides(tuple(runs["a"]), tuple(runs[call])))
            counts[call] += any(
                (d.metric, d.subject) == ("latency", call) and d.effect > 0 for d in result.found
            )
        if console.is_terminal:
            console.print(f"  {number + 1}/{REPEATS}", end="\r", style="dim")
    return counts | {f"of_{key}": REPEATS for key in counts}


def differs(result: Comparison) -> bool:
    """Whether anything was found."""
    return bool(result.found) or bool(result.run_time and result.run_time.significant)


def mann_whitney(a: Run, b: Run) -> bool:
    """Whether a test that takes calls as independent finds a difference in any of them."""
    latencies = []
    for run in (a, b):
        rows = run.arrays("SELECT call, dur FROM file_op WHERE dur IS NOT NULL")
        latencies.append(
            {call: rows["dur"][rows["call"] == call] for call in ("open", "pwrite", "stat", "unlink")}
        )
    bar = 0.05 / len(latencies[0])
    return any(bool(stats.mannwhitneyu(latencies[0][c], latencies[1][c]).pvalue < bar) for c in latencies[0])


def record_equal(folder: Path, program: str) -> tuple[int, int, int, float, float]:
    """Pairs of neighbouring recordings that differ, threes that differ from threes, of how many, and by which factors
    means and fastest tenths of calls do at the most."""
    work = folder / program
    (work / "tree").mkdir(parents=True)
    for number in range(400):
        inner = work / "tree" / f"d{number % 20}"
        inner.mkdir(exist_ok=True)
        (inner / f"f{number}").write_text("x" * 37 * number)
    if program == "git":
        shutil.copytree(work / "tree", work / "repository")
        for line in ("init -q", "add .", "-c user.name=a -c user.email=a@b commit -q -m a"):
            subprocess.run(
                ["git", *line.split()], cwd=work / "repository", check=True, stdout=subprocess.DEVNULL
            )
    runs = []
    # the first fills caches
    for number in range(-1, RECORDINGS):
        trail = folder / f"{program}{number}.trail"
        record(trail, shlex.split(PROGRAMS[program]), work, {})
        if number >= 0:
            runs.append(Run(Trail(trail)))
    pairs = sum(differs(compare_runs(Sides((a,), (b,)))) for a, b in pairwise(runs))
    sides = [
        (runs[first : first + 6 : 2], runs[first + 1 : first + 6 : 2]) for first in range(RECORDINGS - 5)
    ]
    apart = sum(differs(compare_runs(Sides(tuple(a), tuple(b)))) for a, b in sides)
    common = set.intersection(
        *({call for call, fast in run.fast.items() if fast.n >= LEAST_FAST} for run in runs)
    )
    bodies = [[max(float(run.latencies[call].body.mean()), 1.0) for run in runs] for call in common]
    fasts = [[run.fast[call].mean for run in runs] for call in common]
    return pairs, apart, len(sides), spread(bodies), spread(fasts)


def spread(figures: Sequence[Sequence[float]]) -> float:
    """The largest factor between neighbours."""
    return max((max(a, b) / min(a, b) for each in figures for a, b in pairwise(each)), default=1.0)


def record(trail: Path, command: Sequence[str], cwd: Path, variables: dict[str, str]) -> None:
    """Record a run, over one before. The slower library is preloaded always, so that runs differ in the wait only."""
    shutil.rmtree(trail, ignore_errors=True)
    subprocess.run(
        [NATIVE, "record", "-o", trail, "--", *command],
        check=True, env=os.environ | variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=cwd,
    )  # fmt: skip

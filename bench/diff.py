"""How often `iotrail diff` errs: on pairs of runs of the same program, and on pairs with a slowdown planted.

Each round records the same program (twin.c) some times, the last with 10 % of pread's mean spent waiting inside of
it (slower.c). Differences found between the first two are false; between the first and last the slow call must rank
first. The others are further runs of the first, for `--again`. The same slowdown is also planted in the second recording
by scaling its `dur` and moving what follows, which tells the statistics from the machine: two runs, one of them slower in
nothing else. Beside it stands what is commonly done, a Mann-Whitney and a Kolmogorov-Smirnov test of all latencies of
each call at 5 %.
"""

import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from rich.table import Table
from scipy import stats

from iotrail.diff.compare import Comparison, compare_runs
from iotrail.diff.run import Run
from iotrail.trail import Trail
from measure import compile_c, console, keep, scratch
from recorders import NATIVE

REPEATS = int(os.environ.get("BENCH_ROUNDS", "20"))
WORK = "100000"
SLOWDOWN = 0.10
# Runs of A besides A, for --again.
AGAIN = 3


def bench() -> None:
    """Print the table."""
    with scratch() as folder:
        twin = compile_c(folder, "twin.c")
        slower = compile_c(folder, "slower.c", "-shared", "-fPIC")
        record(folder, twin, slower, "warm", 0)
        mean = Run(Trail(folder / "warm.trail")).latencies["pread"].mean
        with_again = f"iotrail diff, {AGAIN} more runs of A"
        false = {"iotrail diff": 0, with_again: 0, "Mann-Whitney": 0, "Kolmogorov-Smirnov": 0}
        first = {"waiting": 0, "scaled": 0, "waiting, again": 0, "scaled, again": 0}
        said: list[str] = []
        for number in range(REPEATS):
            names = ["a", "b", *(f"again{i}" for i in range(AGAIN))]
            for name, wait in (*((name, 0.0) for name in names), ("slow", SLOWDOWN * mean)):
                record(folder, twin, slower, name, wait)
            scale(Trail(folder / "b.trail"), folder / "scaled.trail")
            a = Run(Trail(folder / "a.trail"))
            same = compare_runs(a, Run(Trail(folder / "b.trail")))
            if same.found or (same.run_time is not None and same.run_time.significant):
                false["iotrail diff"] += 1
                said.append(f"{number + 1}: {same.verdict}")
            for test, erred in naive(folder).items():
                false[test] += erred
            again = [Run(Trail(folder / f"{name}.trail")) for name in names[2:]]
            same = compare_runs(a, Run(Trail(folder / "b.trail")), again=again)
            false[with_again] += bool(same.found) or bool(same.run_time and same.run_time.significant)
            for name, trail in (("waiting", "slow"), ("scaled", "scaled")):
                other = Run(Trail(folder / f"{trail}.trail"))
                first[name] += leads(compare_runs(a, other))
                first[f"{name}, again"] += leads(compare_runs(a, other, again=again))
            if console.is_terminal:
                console.print(f"  {number + 1}/{REPEATS}", end="\r", style="dim")
        table = Table(title=f"iotrail diff, {REPEATS} repeats of {twin.name} {WORK}", title_justify="left")
        table.add_column("of two runs of the same, differences found by")
        table.add_column("repeats", justify="right")
        for test, count in false.items():
            table.add_row(test, f"{count} of {REPEATS}")
        table.add_section()
        for name, how in (("waiting", "waiting inside the call"), ("scaled", "scaled in the recording")):
            table.add_row(f"10 % on pread ranked first: {how}", f"{first[name]} of {REPEATS}")
            table.add_row(f"the same, {AGAIN} more runs of A", f"{first[f'{name}, again']} of {REPEATS}")
        console.print(table)
        for line in said:
            console.print(f"  found in repeat {line}", style="dim")
        keep("diff", repeats=REPEATS, false=false, first=first, said=said)


def record(folder: Path, twin: Path, slower: Path, name: str, wait: float) -> None:
    """Record a run, over one before. The library is preloaded always, so that runs differ in the wait only."""
    trail = folder / f"{name}.trail"
    subprocess.run(["rm", "-rf", trail], check=True)
    environment = os.environ | {"LD_PRELOAD": str(slower), "SLOWER_NS": str(wait)}
    command = [NATIVE, "record", "-o", trail, "--", twin, folder / "twin.dat", WORK]
    subprocess.run(command, check=True, env=environment, stderr=subprocess.DEVNULL, cwd=folder)


def scale(trail: Trail, into: Path) -> None:
    """Write a trail in which pread takes longer and what its thread does afterwards comes later."""
    tables: dict[str, pa.Table] = {}
    for name in ("file_op", "file", "process", "thread"):
        tables[name] = trail.query(f"SELECT * FROM {name}").to_arrow_table()
    ops = tables["file_op"].sort_by([("thread", "ascending"), ("ts", "ascending")])
    dur = ops["dur"].to_numpy()
    slow = ops["call"].to_numpy(zero_copy_only=False) == "pread"
    more = np.where(slow, dur * SLOWDOWN, 0).astype(np.int64)
    # one thread: what came before a call is what delays it
    ts = ops["ts"].to_numpy() + np.cumsum(more) - more
    for column, values in (("ts", ts), ("dur", dur + more)):
        ops = ops.set_column(ops.column_names.index(column), column, pa.array(values))
    tables["file_op"] = ops
    for name in ("process", "thread"):
        ends = np.asarray(tables[name]["end_ts"].to_numpy(), dtype=np.int64) + int(more.sum())
        place = tables[name].column_names.index("end_ts")
        tables[name] = tables[name].set_column(place, "end_ts", pa.array(ends))
    subprocess.run(["rm", "-rf", into], check=True)
    streams = []
    for name, table in tables.items():
        path = into.with_name(f"{name}.arrow")
        with pa.ipc.new_stream(path, table.schema) as stream:
            stream.write_table(table)
        streams.append(f"{name}={path}")
    subprocess.run([NATIVE, "ingest", "-o", into, *streams], check=True, stdout=subprocess.DEVNULL)


def naive(folder: Path) -> dict[str, bool]:
    """Whether tests that take calls as independent find a difference in any frequent call of two equal runs."""
    latencies: list[dict[str, Any]] = []
    for name in ("a", "b"):
        rows = Trail(folder / f"{name}.trail").query("SELECT call, dur FROM file_op").fetchnumpy()
        latencies.append(
            {call: rows["dur"][rows["call"] == call] for call in ("pread", "read", "pwrite", "fstat")}
        )
    pairs = [(latencies[0][call], latencies[1][call]) for call in latencies[0]]
    bar = 0.05 / len(pairs)
    return {
        "Mann-Whitney": any(stats.mannwhitneyu(a, b).pvalue < bar for a, b in pairs),
        "Kolmogorov-Smirnov": any(stats.ks_2samp(a, b, method="asymp").pvalue < bar for a, b in pairs),
    }


def leads(result: Comparison) -> bool:
    """Whether the slow call is the first difference."""
    return bool(result.found) and (result.found[0].metric, result.found[0].subject) == ("latency", "pread")

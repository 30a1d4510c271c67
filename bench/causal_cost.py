"""What causal tracing costs: a call that others wait for, whole programs, an operation of a replay, a simulation.

Calls are pairs that never have to wait (handover.c): an addition shows most there. Whole programs are those of the comparison of replays,
in memory and on an emulated array, from their start to their end, beside the same not recorded. The bare I/O of a replay is a loop of preads
(preads.c), its computing is left out. Needs root and Open MPI.
"""

import json
import os
import shutil
import statistics
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import causal
from measure import ROUNDS, SEED, Spread, compile_c, console, interleave, keep, run, scratch, table
from recorders import IOTRAIL, Recorder, recorders

CALLS = ("mutex", "semaphore", "condition", "eventfd", "pipe", "mpi")
PAIRS = 200_000
# What is aimed at: wPerf's recorder (OSDI 2018) slows programs by 5.1 %.
GOAL_CALL_NS, GOAL_SLOWER = 100, 1.05
OPS = 1_000_000
GOAL_OP_NS, GOAL_SIMULATION_S = 1000, 2.0


def compared() -> list[Recorder]:
    """Nothing, a recording, a causal recording."""
    [alone, iotrail] = [one for one in recorders()[0] if one.name in ("unrecorded", "iotrail")]
    causal_one = replace(
        iotrail,
        name="iotrail, causal",
        meaning="iotrail record --causal",
        prefix=lambda folder: [str(IOTRAIL), "record", "--causal", "-o", str(folder / "run.trail"), "--"],
    )
    return [alone, iotrail, causal_one]


def bench() -> None:
    """Print the tables."""
    os.environ["OMPI_ALLOW_RUN_AS_ROOT"] = os.environ["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
    with scratch() as folder:
        usage = compile_c(folder, "usage.c")
        figures = {
            "calls": calls(folder, usage),
            "programs": programs(folder, usage),
            "operations": operations(folder),
        }
    keep("causal_cost", **figures)


def calls(folder: Path, usage: Path) -> dict[str, object]:
    """What a recording adds to a call."""
    program = compile_c(folder, "handover.c", "-pthread", compiler="mpicc")
    shape = table(
        f"A call that others may wait for, ns: median of {ROUNDS} rounds (least–most)",
        ["call", "unrecorded", "recorded", "causal", "causal adds"],
    )
    kept: dict[str, object] = {}
    everyone = compared()
    for kind in CALLS:

        def once(recorder: Recorder, kind: str = kind) -> dict[str, float]:
            return {"ns": float(run([str(program), kind, str(PAIRS)], recorder, usage).output)}

        seen = interleave(everyone, ROUNDS, once)
        took = {name: [each["ns"] for each in rounds] for name, rounds in seen.items()}
        alone, _, recorded = took.values()
        added = Spread.of([b - a for a, b in zip(alone, recorded, strict=True)])
        shape.add_row(kind, *(Spread.of(each).text(",.0f") for each in took.values()), added.text("+,.0f"))
        kept[kind] = took
    console.print(shape)
    console.print(f"goal: at most {GOAL_CALL_NS} ns a call\n")
    return kept


def programs(folder: Path, usage: Path) -> dict[str, object]:
    """What a recording adds to the time of whole programs."""
    shape = table(
        f"Programs, s: median of {ROUNDS} rounds (least–most)",
        ["program", "in", "unrecorded", "recorded", "causal", "causal / unrecorded"],
    )
    kept: dict[str, object] = {}
    ratios = []
    everyone = compared()
    built = causal.build(folder)
    memory = Path("/dev/shm") / folder.name
    memory.mkdir()
    try:
        with causal.emulated(folder / "array", causal.array(folder)) as array:
            for name in causal.PROGRAMS:
                for storage, at in (("memory", memory), ("array", array)):

                    def once(recorder: Recorder, name: str = name, at: Path = at) -> dict[str, float]:
                        data = at / "data"
                        causal.prepare(name, data, folder)
                        command = causal.command(name, built, data)
                        took = run(command, recorder, usage).wall
                        shutil.rmtree(data)
                        return {"s": took}

                    seen = interleave(everyone, ROUNDS, once)
                    took = {who: [each["s"] for each in rounds] for who, rounds in seen.items()}
                    alone, _, recorded = took.values()
                    ratio = Spread.of([b / a for a, b in zip(alone, recorded, strict=True)])
                    ratios.append(ratio.median)
                    shape.add_row(
                        name,
                        storage,
                        *(Spread.of(each).text(".2f") for each in took.values()),
                        ratio.text(".3f"),
                    )
                    kept[f"{name}, {storage}"] = took
    finally:
        shutil.rmtree(memory)
    console.print(shape)
    console.print(
        f"mean of ratios {statistics.mean(ratios):.3f}, largest {max(ratios):.3f}; goal: {GOAL_SLOWER}\n"
    )
    return kept


def operations(folder: Path) -> dict[str, object]:
    """CPU time of an operation of a causal replay beyond the bare call, and how long a simulation takes."""
    preads = compile_c(folder, "preads.c")
    data = folder / "data"
    data.write_bytes(SEED.to_bytes(8) * (1 << 17))
    trail = folder / "reads.trail"
    words = [IOTRAIL, "record", "--causal", "--force", "-o", trail, "--", preads, data, str(OPS)]
    subprocess.run(words, check=True, capture_output=True)
    beyond, simulated = [], []
    for _ in range(ROUNDS):
        bare = subprocess.run([preads, data, str(OPS)], check=True, capture_output=True, text=True)
        root = folder / "root"
        words = [IOTRAIL, "replay", trail, "--root", root, "--mode", "causal", "--scale-compute", "0.001"]
        again = subprocess.run(
            [*words, "-o", folder / "again.trail", "--force", "--json"],
            check=True,
            capture_output=True,
            text=True,
        )
        found = json.loads(again.stdout)
        beyond.append(found["cpu"] / found["operations_b"] - float(bare.stdout))
        shutil.rmtree(root)
        began = time.monotonic()
        subprocess.run([IOTRAIL, "whatif", "run", trail, "--io", "0.5"], check=True, capture_output=True)
        simulated.append(time.monotonic() - began)
    console.print(
        f"CPU of an operation of a causal replay beyond a bare loop of preads: {Spread.of(beyond).text(',.0f')} ns; goal: {GOAL_OP_NS:,}"
    )
    console.print(
        f"whatif run of {OPS:,} operations: {Spread.of(simulated).text('.2f')} s, command and range included; goal: {GOAL_SIMULATION_S}\n"
    )
    return {"beyond_ns": beyond, "whatif_s": simulated}

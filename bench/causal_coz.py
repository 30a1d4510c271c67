"""`whatif run --compute` beside Coz (Curtsinger and Berger, SOSP 2015): how long a program runs if its computing takes half the time.

Coz lets the program run on, slows all other threads down while one is in the line that is asked about, and counts progress; `whatif run` simulates one
recording. bench/in_step.c has all its computing in one line. Coz's experiments have random speed-ups of the line: those near a half are compared with
those without, by medians, as some are far off. Needs root and Coz.
"""

import json
import os
import shutil
import statistics
import subprocess
import time
from pathlib import Path

import causal
from measure import ROOT, Spread, compile_c, console, keep, scratch, table

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
IN_STEP, LOOPS = 400, 1_000_000
# What Coz gets, s: an experiment of its takes half a second at least.
COZ_S = 20
# Speed-ups of the line that stand for a half.
NEAR_HALF = (0.4, 0.6)


def bench() -> None:
    """Print the table."""
    if not shutil.which("coz"):
        console.print("bench: causal_coz needs coz (Debian's coz-profiler)\n")
        return
    shown = table(
        "Time of a program with half the computing, as a share of the time before",
        ("on", "really", "whatif run", "error", "its time, s", "Coz", "error", "its time, s"),
    )
    kept = {}
    with scratch() as folder, causal.emulated(folder / "array", causal.array(folder)) as array:
        program = compile_c(folder, "in_step.c", "-pthread")
        # Coz 0.2 reads no newer debugging information
        options = ("-DCOZ", "-gdwarf-3", "-pthread", "-ldl")
        (folder / "coz").mkdir()
        for_coz = compile_c(folder / "coz", "in_step.c", *options)
        memory = Path("/dev/shm") / folder.name
        memory.mkdir()
        try:
            for name, at in (("memory", memory), ("array", array)):
                took: dict[int, list[float]] = {LOOPS: [], LOOPS // 2: []}
                for _ in range(ROUNDS):
                    for loops, times in took.items():
                        times.append(run([str(program), str(at), str(IN_STEP), str(loops)]))
                really = [half / whole for whole, half in zip(*took.values(), strict=True)]
                truth = statistics.median(really)
                simulated, simulated_s = whatif([str(program), str(at), str(IN_STEP), str(LOOPS)], folder)
                rounds = int(COZ_S * IN_STEP / statistics.median(took[LOOPS]))
                by_coz, coz_s = coz([str(for_coz), str(at), str(rounds), str(LOOPS)], folder)
                kept[name] = {"really": really, "whatif": simulated, "coz": by_coz}
                shown.add_row(
                    name,
                    Spread.of(really).text(".2f"),
                    f"{simulated:.2f}",
                    f"{100 * (simulated / truth - 1):+.1f} %",
                    f"{simulated_s:.1f}",
                    f"{by_coz:.2f}",
                    f"{100 * (by_coz / truth - 1):+.1f} %",
                    f"{coz_s:.1f}",
                )
        finally:
            shutil.rmtree(memory)
    console.print(shown)
    keep("causal_coz", cases=kept)


def run(words: list[str]) -> float:
    """Seconds that a program takes."""
    began = time.monotonic()
    subprocess.run(words, check=True)
    return time.monotonic() - began


def whatif(words: list[str], folder: Path) -> tuple[float, float]:
    """The share by a simulation of one recording, and how long both took, s."""
    began, trail = time.monotonic(), folder / "run.trail"
    record = [*causal.IOTRAIL, "record", "--causal", "-o", str(trail), "--force", "--", *words]
    subprocess.run(record, check=True, capture_output=True)
    ask = [*causal.IOTRAIL, "whatif", "run", str(trail), "--compute", "0.5", "--json"]
    answer = json.loads(subprocess.run(ask, check=True, capture_output=True, text=True).stdout)
    [case] = answer["cases"]
    return case["elapsed_ns"] / answer["simulated_ns"], time.monotonic() - began


def coz(words: list[str], folder: Path) -> tuple[float, float]:
    """The share by Coz's experiments with the line that computes, and how long they took, s."""
    profile = folder / "profile.coz"
    began = time.monotonic()
    subprocess.run(["coz", "run", "-o", profile, "---", *words], check=True, capture_output=True)
    took = time.monotonic() - began
    source = (ROOT / "bench" / "in_step.c").read_text().splitlines()
    line = next(number for number, text in enumerate(source, 1) if "x * 1.0000001" in text)
    periods: dict[str, list[float]] = {"none": [], "half": []}
    experiment: dict[str, str] = {}
    for row in profile.read_text().splitlines():
        kind, *fields = row.split("\t")
        values = dict(each.split("=", 1) for each in fields)
        if kind == "experiment":
            experiment = values
        elif kind == "throughput-point" and experiment["selected"].endswith(f"in_step.c:{line}"):
            speedup = float(experiment["speedup"])
            of = "none" if speedup == 0 else "half" if NEAR_HALF[0] <= speedup <= NEAR_HALF[1] else None
            if of is not None:
                periods[of].append(float(experiment["duration"]) / float(values["delta"]))
    if not all(periods.values()):
        raise SystemExit(f"bench: error: Coz made no experiment near a half in {took:.0f} s")
    return statistics.median(periods["half"]) / statistics.median(periods["none"]), took

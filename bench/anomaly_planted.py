"""How well causes of losses are found: planted ones, alone and overlapping, with errors and wrong values; and none where there are none.

Causes are those of section 5 of Shen, Zhong and Li (FAST 2005), where they found them, in their space of 12,096 settings: 400 uniform
samples, BENCH_SEEDS seeds (20). Each takes its share of the throughput, 30 % more or less at each setting. A cause is found if a cluster has
each of its bounds to within one value; false is a cluster that fits no cause. Beside pursuit stand the paper's Algorithm 4.1 and the peers of
anomaly_peers.py, in the same samples.
"""

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from measure import ROOT, console, keep, scratch, table

sys.path.insert(0, str(ROOT))
from tests.anomaly import planted

import anomaly_peers
from iotrail.anomaly.algorithm import cover_anomalies, find_cluster
from iotrail.anomaly.evidence import find_clusters
from iotrail.anomaly.space import Box, Codes, Flags, Space, Values
from iotrail.expected.workload import Expected
from iotrail.sweep import sampling, spec
from iotrail.sweep.journal import Journal
from iotrail.sweep.run import Sweep, code_of
from iotrail.sweep.settings import Settings
from iotrail.sweep.targets import Measured

SEEDS = int(os.environ.get("BENCH_SEEDS", "20"))
SPACE = planted.paper_space()
CAUSES = planted.causes(SPACE)
LEAST = -np.log1p(-0.1)

Method = Callable[[Space, Codes, Values], list[Box]]


def pursue(space: Space, codes: Codes, losses: Values) -> list[Box]:
    """Boxes of `iotrail anomalies`."""
    return [cluster.box for cluster in find_clusters(space, codes, losses)]


def cover(space: Space, codes: Codes, losses: Values) -> list[Box]:
    """Boxes of Algorithm 4.1, repeated on what it leaves."""
    return cover_anomalies(space, codes, losses >= LEAST)


METHODS: Mapping[str, Method] = {"pursuit": pursue, "Algorithm 4.1": cover}


@dataclass(frozen=True)
class Found:
    """Of the planted causes those found exactly and to within one value, and the clusters that fit none."""

    exact: int
    within: int
    false: int


def judge(boxes: Sequence[Box], truth: Iterable[Box]) -> Found:
    """What was found of what was planted; each cluster stands for one cause."""
    exact, within, left = 0, 0, list(boxes)
    for box in truth:
        fits = [other for other in left if planted.is_within_one(SPACE, other, box)]
        if fits:
            best = max(fits, key=lambda other: planted.overlap(SPACE, other, box))
            within += 1
            exact += planted.overlap(SPACE, best, box) == 1
            left.remove(best)
    return Found(exact, within, len(left))


@dataclass(frozen=True)
class Case:
    """Causes by their names, and the error of samples."""

    name: str
    causes: tuple[str, ...]
    error: float = 0.03

    @property
    def truth(self) -> list[Box]:
        """What is planted."""
        return [CAUSES[name][0] for name in self.causes]

    @property
    def seeds(self) -> range:
        """Of nothing more, so that one in a hundred would show."""
        return range(1, SEEDS * (1 if self.causes else 3) + 1)

    def sample(self, seed: int) -> planted.Samples:
        """The samples of a seed."""
        return planted.sample(SPACE, [CAUSES[name] for name in self.causes], seed=seed, error=self.error)

    def run(self, seed: int) -> dict[str, tuple[Found, float]]:
        """What each method of iotrail finds, and seconds of CPU."""
        samples, found = self.sample(seed), {}
        for name, method in METHODS.items():
            began = time.process_time()
            boxes = method(SPACE, samples.codes, samples.losses)
            found[name] = judge(boxes, self.truth), time.process_time() - began
        return found


CASES = (
    *(Case(f"{name} alone", (name,)) for name in CAUSES),
    Case("four, overlapping", tuple(CAUSES)),
    Case("four, 10 % error", tuple(CAUSES), 0.1),
    Case("nothing", ()),
    Case("nothing, 10 % error", (), 0.1),
)


def run_case(work: tuple[Case, int]) -> dict[str, tuple[Found, float]]:
    """One case and seed, for a process."""
    case, seed = work
    return case.run(seed)


def ask_peers(jobs: Sequence[tuple[Case, int]]) -> dict[str, dict[int, tuple[Found, float]]]:
    """What each peer finds and seconds of CPU, by the job's number; of nothing it is asked on as many seeds as of the other cases."""
    asked = [
        anomaly_peers.Job(case.sample(seed), seed - 1 if seed <= SEEDS else sys.maxsize)
        for case, seed in jobs
    ]
    with scratch() as folder:
        python = anomaly_peers.install(folder)
        answers = {} if python is None else anomaly_peers.ask(python, SPACE, asked, folder)
    return {
        name: {at: (judge(one.boxes, jobs[at][0].truth), one.seconds) for at, one in by_job.items()}
        for name, by_job in answers.items()
    }


def bench_planted(pool: ProcessPoolExecutor) -> dict[str, Any]:
    """Each case over all seeds."""
    kept: dict[str, Any] = {}
    shown = table(
        "Planted causes: sweeps of 400 settings",
        ["", "method", "sweeps", "all exact", "within one", "of them", "with false", "CPU s"],
    )
    jobs = [(case, seed) for case in CASES for seed in case.seeds]
    own = list(pool.map(run_case, jobs))
    found = {name: {at: one[name] for at, one in enumerate(own)} for name in METHODS} | ask_peers(jobs)
    for case in CASES:
        number = len(case.causes)
        for name, by_job in found.items():
            of = [by_job[at] for at, (other, _) in enumerate(jobs) if other is case and at in by_job]
            exact, within = (
                sum(getattr(one, what) == number for one, _ in of) for what in ("exact", "within")
            )
            mean = statistics.fmean(one.within for one, _ in of)
            false = sum(one.false > 0 for one, _ in of)
            seconds = statistics.median(seconds for _, seconds in of)
            kept[f"{case.name}: {name}"] = {
                "seeds": len(of), "exact": exact, "within": within, "mean": mean, "three": sum(one.within >= 3 for one, _ in of), "false": false,
                "seconds": seconds,
            }  # fmt: skip
            planted_cells = [str(exact), str(within), f"{mean:.1f} of {number}"] if number else ["", "", ""]
            shown.add_row(
                case.name if name == next(iter(found)) else "",
                name,
                str(len(of)),
                *planted_cells,
                str(false),
                f"{seconds:.1f}",
            )
    console.print(shown)
    return kept


def sweep_with_wrong_values(seed: int) -> tuple[Found, int]:
    """A sweep of which every tenth value is wrong, from a tenth to ten times; how many measurements it took."""
    rng = np.random.default_rng(seed)
    specification = replace(
        spec.parse('[target]\ncommand = "x"\n[workload.x]\nvalues = [1]', "planted"),
        dimensions=SPACE.dimensions,
        seed=seed,
    )
    codes = sampling.draw(SPACE, 400, seed)
    index = {code_of(row): row for row in codes}
    by_setting = {tuple(SPACE.setting(row).items()): row for row in codes}
    taken: dict[tuple[int, ...], float] = {}
    for code, row in index.items():
        left = 1.0
        for box, loss in CAUSES.values():
            if SPACE.contains(box, row[None])[0]:
                left *= 1 - loss * (1 + 0.3 * rng.uniform(-1, 1))
        taken[code] = left

    def measure(setting: Mapping[str, Any], _: int) -> Measured:
        left = taken[code_of(by_setting[tuple(setting.items())])]
        wrong = 10 ** rng.uniform(-1, 1) if rng.random() < 0.1 else 1.0
        return Measured(float(left * wrong * np.exp(rng.normal(0, 0.03))))

    expected = {code: [Expected("application", "value", 1.0)] for code in index}
    with tempfile.TemporaryDirectory() as folder, Journal(Path(folder, "journal")) as journal:
        sweep = Sweep(
            specification, SPACE, expected, measure, Settings({}, journal), journal, time.monotonic_ns
        )
        sweep.run(codes, lambda _: None)
    values = [sweep.sampled(code_of(row)).value for row in codes]
    losses = -np.log(np.array(values, float))
    found = judge(pursue(SPACE, codes, losses), [box for box, _ in CAUSES.values()])
    return found, sum(map(len, sweep.measurements.values()))


def bench_wrong(pool: ProcessPoolExecutor) -> dict[str, Any]:
    """Sweeps with wrong values."""
    results = list(pool.map(sweep_with_wrong_values, range(1, SEEDS + 1)))
    within, exact = (sum(getattr(found, what) == 4 for found, _ in results) for what in ("within", "exact"))
    false, runs = sum(found.false > 0 for found, _ in results), statistics.median(runs for _, runs in results)
    shown = table(
        f"Every tenth value wrong, four causes: sweeps of {SEEDS}",
        ["", "all exact", "within one", "with false", "measurements"],
    )
    shown.add_row("400 settings, surprising ones again", str(exact), str(within), str(false), f"{runs:.0f}")
    console.print(shown)
    return {"exact": exact, "within": within, "false": false, "measurements": runs}


def bench_algorithm() -> dict[str, Any]:
    """Algorithm 4.1 where there are many anomalies."""
    rng = np.random.default_rng(1)
    codes = SPACE.feasible[rng.choice(len(SPACE.feasible), size=10_000, replace=False)]
    score = sum(SPACE.contains(box, codes) for box, _ in CAUSES.values()) + rng.random(len(codes))
    anomalous: Flags = score >= np.sort(score)[-2000]
    began = time.monotonic()
    find_cluster(SPACE, codes, anomalous)
    took = time.monotonic() - began
    shown = table("Algorithm 4.1", ["", "time"])
    shown.add_row(f"{len(codes):,} samples, {int(anomalous.sum()):,} anomalies", f"{took:.1f} s")
    console.print(shown)
    return {"seconds": took}


def bench() -> None:
    """Print the tables."""
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        keep(
            "anomaly_planted",
            planted=bench_planted(pool),
            wrong=bench_wrong(pool),
            algorithm=bench_algorithm(),
        )

"""How well causes of losses are found: planted ones, alone and overlapping, with errors and wrong values; and none where there are none.

Causes are those of section 5 of Shen, Zhong and Li (FAST 2005), where they found them, in their space of 12,096 settings: 400 uniform
samples, BENCH_SEEDS seeds (20). Each takes its share of the throughput, 30 % more or less at each setting. A cause is found if a cluster has
each of its bounds to within one value; false is a cluster that fits no cause. Beside pursuit stand the paper's Algorithm 4.1 and the peers of
anomaly_peers.py, in the same samples.

Adaptive sweeps (`iotrail sweep --adaptive`) of the same causes measure 150 settings of one cause and 240 of four; clusters count by
uniform samples and pairs alone, as in `iotrail anomalies`.

Then the simulated stack, whose truth is known: each setting with and without a fault. A zone found is compared with the largest box of settings
that lose a tenth or more, by intersection over union. And the throughput of the paper's server workloads on it (figure 7).
"""

import os
import statistics
import sys
import tempfile
import time
from collections import Counter
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
from iotrail.anomaly import answer
from iotrail.anomaly.algorithm import cover_anomalies, find_cluster
from iotrail.anomaly.describe import describe
from iotrail.anomaly.evidence import find_clusters
from iotrail.anomaly.faces import Pairs
from iotrail.anomaly.space import Box, Codes, Flags, Space, Values
from iotrail.expected.workload import Expected
from iotrail.sweep import sampling, spec, stack
from iotrail.sweep.journal import Journal
from iotrail.sweep.plan import plan
from iotrail.sweep.run import CHOOSING, CONFIRM, UNIFORM, Sweep, code_of
from iotrail.sweep.settings import Settings
from iotrail.sweep.targets import Measured
from iotrail.trail import Trail

SEEDS = int(os.environ.get("BENCH_SEEDS", "20"))
SPACE = planted.paper_space()
CAUSES = planted.causes(SPACE)
LEAST = -np.log1p(-0.1)
# A loss of the simulated stack.
SHORT = 0.1
SPECIFICATION = ROOT / "examples" / "anomaly" / "stack.toml"

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


class Reached(dict[tuple[int, ...], Sequence[Expected]]):
    """What is expected of planted settings: 1 of each."""

    def __missing__(self, code: tuple[int, ...]) -> Sequence[Expected]:
        return [Expected("application", "value", 1.0)]

    def __contains__(self, code: object) -> bool:
        return True

    def get(self, code: tuple[int, ...], default: Any = None) -> Any:
        """What is expected of a setting."""
        return self[code]


@dataclass(frozen=True)
class Adaptive:
    """An adaptive sweep: its settings in all, causes by their names, the error of measurements and the share that is wrong."""

    name: str
    number: int
    causes: tuple[str, ...]
    error: float = 0.03
    wrong: float = 0.0

    def run(self, seed: int) -> tuple[Found, int, float]:
        """What is found, how many measurements it took, and the longest time that choosing what to measure next did, in s."""
        rng = np.random.default_rng(seed)
        left = np.ones(len(SPACE.feasible))
        for name in self.causes:
            box, loss = CAUSES[name]
            taken = loss * (1 + 0.3 * rng.uniform(-1, 1, size=len(left)))
            left = np.where(SPACE.contains(box, SPACE.feasible), left * (1 - taken), left)
        reached = {
            tuple(SPACE.setting(row).items()): value for row, value in zip(SPACE.feasible, left, strict=True)
        }

        def measure(setting: Mapping[str, Any], _: int) -> Measured:
            wrong = 10 ** rng.uniform(-1, 1) if rng.random() < self.wrong else 1.0
            return Measured(
                float(reached[tuple(setting.items())] * wrong * np.exp(rng.normal(0, self.error)))
            )

        specification = replace(
            spec.parse('[target]\ncommand = "x"\n[workload.x]\nvalues = [1]', "planted"),
            dimensions=SPACE.dimensions,
            seed=seed,
        )
        began, longest = 0.0, 0.0

        def advance(purpose: str) -> None:
            nonlocal began, longest
            now = time.monotonic()
            if purpose == CHOOSING:
                began = began or now
            elif began:
                longest, began = max(longest, now - began), 0.0

        with tempfile.TemporaryDirectory() as folder, Journal(Path(folder, "journal")) as journal:
            sweep = Sweep(
                specification, SPACE, Reached(), measure, Settings({}, journal), journal, time.monotonic_ns
            )
            sweep.run_adaptive(sampling.draw(SPACE, len(SPACE.feasible), seed), self.number, advance)
        loss = {
            code: -np.log(value)
            for code in sorted(sweep.measurements)
            if (value := sweep.sampled(code).value)
        }
        fitted = [code for code in loss if sweep.purpose(code) != CONFIRM]
        pairs = Pairs(
            *(np.array([getattr(pair, side) for pair in sweep.pairs]) for side in ("inside", "outside")),
            *(
                np.array([loss[getattr(pair, side)] for pair in sweep.pairs])
                for side in ("inside", "outside")
            ),
            np.array([{sweep.purpose(code) for code in pair.settings} == {CONFIRM} for pair in sweep.pairs]),
        )
        clusters = find_clusters(
            SPACE,
            np.array(fitted),
            np.array([loss[code] for code in fitted]),
            uniform=np.array([sweep.purpose(code) == UNIFORM for code in fitted]),
            pairs=pairs if sweep.pairs else None,
        )
        found = judge([cluster.box for cluster in clusters], [CAUSES[name][0] for name in self.causes])
        return found, sum(map(len, sweep.measurements.values())), longest


ADAPTIVE = (
    *(Adaptive(f"{name} alone", 150, (name,)) for name in CAUSES),
    Adaptive("four, overlapping", 240, tuple(CAUSES)),
    Adaptive("nothing", 150, ()),
    Adaptive("nothing, 10 % error", 150, (), 0.1),
    Adaptive("nothing, every 20th value wrong", 150, (), wrong=0.05),
)


def run_adaptive(work: tuple[Adaptive, int]) -> tuple[Found, int, float]:
    """One adaptive sweep, for a process."""
    case, seed = work
    return case.run(seed)


def bench_adaptive(pool: ProcessPoolExecutor) -> dict[str, Any]:
    """Adaptive sweeps over all seeds."""
    kept: dict[str, Any] = {}
    shown = table(
        f"Adaptive sweeps of planted causes: {SEEDS} each",
        ["", "settings", "all exact", "within one", "with false", "measurements", "longest choice"],
    )
    for case in ADAPTIVE:
        # Of nothing more, so that one in a hundred would show.
        seeds = range(1, SEEDS * (1 if case.causes else 3) + 1)
        results = list(pool.map(run_adaptive, [(case, seed) for seed in seeds]))
        number = len(case.causes)
        exact, within = (
            sum(getattr(found, what) == number for found, *_ in results) for what in ("exact", "within")
        )
        false = sum(found.false > 0 for found, *_ in results)
        runs = statistics.median(runs for _, runs, _ in results)
        longest = max(seconds for *_, seconds in results)
        kept[case.name] = {
            "settings": case.number, "seeds": len(results), "exact": exact, "within": within, "false": false, "measurements": runs, "longest_s": longest,
        }  # fmt: skip
        shown.add_row(
            case.name,
            str(case.number),
            *((str(exact), str(within)) if number else ("", "")),
            f"{false} of {len(results)}",
            f"{runs:.0f}",
            f"{longest:.1f} s",
        )
    console.print(shown)
    return kept


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


def throughput(faults: tuple[str, ...]) -> Values:
    """Of each setting of the simulated stack."""
    space = spec.read(SPECIFICATION).space()
    outcomes = stack.simulate([space.setting(row) for row in space.feasible], faults=faults)
    return np.array([outcome["throughput_bytes_per_s"] for outcome in outcomes])


def largest_box(space: Space, short: Flags) -> Box | None:
    """The box with most settings of which nine in ten are short, by Algorithm 4.1 on 3,000 of all settings: more take it minutes."""
    if not short.any():
        return None
    chosen = np.random.default_rng(0).permutation(len(short))[:3000]
    return find_cluster(space, space.feasible[chosen], short[chosen])


def sweep_stack(work: tuple[tuple[str, ...], int]) -> tuple[int, list[tuple[Box, float, str]]]:
    """A sweep of the simulated stack: samples that are short, and the clusters with their loss and the layer that each leaves first."""
    faults, seed = work
    text = SPECIFICATION.read_text()
    old = next(line for line in text.splitlines() if line.startswith("faults"))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "stack.toml")
        path.write_text(text.replace(old, f"faults = {list(faults)!r}"))
        plan(path, seed=seed).run(Path(folder, "x.trail"), command=["bench"])
        found = answer.find(answer.read(Trail(Path(folder, "x.trail"))), "x.trail")
    clusters = [
        (cluster.box, cluster.loss, cluster.layers[0].layer if cluster.layers else "")
        for cluster in found.clusters
    ]
    return found.anomalous, clusters


def bench_stack(pool: ProcessPoolExecutor) -> dict[str, Any]:
    """Each fault alone, then all, then none."""
    space = spec.read(SPECIFICATION).space()
    sound = throughput(())
    expected = np.array([stack.expect(space.setting(row))[0].value for row in space.feasible])
    as_expected = float(np.mean(np.abs(1 - sound / expected) < SHORT))
    shown = table(
        f"The simulated stack: sweeps of 400 settings of {len(space.feasible):,}",
        ["fault", "truth: short", "largest box", "sweeps", "best overlap", "layers"],
    )
    kept: dict[str, Any] = {"within 10 % without faults": as_expected}
    for fault in stack.FAULTS:
        short = 1 - throughput((fault,)) / sound >= SHORT
        box = largest_box(space, short)
        seeds = range(1, SEEDS // 4 + 1)
        results = [clusters for _, clusters in pool.map(sweep_stack, [((fault,), seed) for seed in seeds])]
        overlaps = [
            max((planted.overlap(space, found, box) for found, *_ in clusters), default=0.0)
            if box
            else float(not clusters)
            for clusters in results
        ]
        layers = Counter(layer or "none" for clusters in results for *_, layer in clusters)
        named = ", ".join(f"{layer} {count}" for layer, count in layers.most_common())
        said = (
            ", ".join(f"{bound.dimension} {bound.text}" for bound in describe(space, box)) if box else "none"
        )
        shown.add_row(
            fault,
            f"{int(short.sum()):,}",
            said,
            str(len(results)),
            f"{statistics.median(overlaps):.2f}",
            named or "no cluster",
        )
        kept[fault] = {"short": int(short.sum()), "box": said, "overlaps": overlaps, "layers": dict(layers)}
    quiet = list(pool.map(sweep_stack, [((), seed) for seed in range(1, 3 * SEEDS + 1)]))
    with_cluster = sum(bool(clusters) for _, clusters in quiet)
    shown.add_row("none", "0", "", str(len(quiet)), "", f"with a cluster: {with_cluster}")
    kept["none"] = {"sweeps": len(quiet), "with a cluster": with_cluster}
    console.print(shown)
    console.print(f"Without faults {as_expected:.1%} of all settings are within 10 % of what is expected.")
    return kept


@dataclass(frozen=True)
class Server:
    """A server workload of table 3, and by how much all mended faults improved its throughput in section 6.2, as a mean over
    concurrencies."""

    name: str
    data_gb: float
    whole_file: bool
    stream_kb: float
    runs: float
    think_ms: float
    scheduler: str
    improvement: float

    def setting(self, concurrency: int) -> dict[str, Any]:
        """The same for the simulated stack, lengths in whole pages."""

        def pages(kb: float) -> int:
            return max(round(kb / 4), 1) * 4096

        stream = pages(self.stream_kb)
        return {
            "concurrency": concurrency,
            "stream": stream,
            "run": min(pages(self.stream_kb / self.runs), stream),
            "whole_file": "yes" if self.whole_file else "no",
            "think": round(self.think_ms * 1e6),
            "span": self.data_gb / 36,
            "prefetch": "on",
            "scheduler": self.scheduler,
        }


SERVERS = (
    Server("SPECweb99", 22.4, True, 67.2, 1.00, 1.11, "elevator", 0.06),
    Server("media clips", 27.2, True, 1213.3, 1.01, 1.78, "elevator", 0.32),
    Server("index searching", 18.5, False, 267.2, 1.75, 0.22, "anticipatory", 0.39),
    Server("TPC-C", 8.8, False, 43.8, 1.00, 11.69, "anticipatory", 0.16),
)
# In the order in which the paper mended them.
MENDED = ("cancel", "distance", "reset", "timer")


def bench_servers() -> dict[str, Any]:
    """Figure 7: the throughput of table 3's workloads as faults are mended one after the other."""
    concurrencies = [1, 2, 4, 8, 16, 32, 64, 128, 256]
    kept: dict[str, Any] = {}
    for server in SERVERS:
        shown = table(
            f"{server.name} on the simulated stack, MB/s ({server.scheduler})",
            ["mended", *map(str, concurrencies), "mean gain"],
        )
        settings = [server.setting(concurrency) for concurrency in concurrencies]
        rows = []
        for number in range(len(MENDED) + 1):
            outcomes = stack.simulate(settings, faults=MENDED[number:])
            rows.append(np.array([one["throughput_bytes_per_s"] for one in outcomes]))
            gain = float(np.mean(rows[-1] / rows[0])) - 1
            shown.add_row(
                "none" if not number else f"and {MENDED[number - 1]}" if number > 1 else MENDED[0],
                *(f"{value / 1e6:.2f}" for value in rows[-1]),
                f"{gain:.1%}",
            )
        console.print(shown)
        kept[server.name] = {"bytes_per_s": [row.tolist() for row in rows], "paper": server.improvement}
        console.print(f"The paper measured a mean gain of {server.improvement:.0%} over its concurrencies.")
    return kept


def bench() -> None:
    """Print the tables."""
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        keep(
            "anomaly",
            planted=bench_planted(pool),
            wrong=bench_wrong(pool),
            adaptive=bench_adaptive(pool),
            stack=bench_stack(pool),
            algorithm=bench_algorithm(),
            servers=bench_servers(),
        )

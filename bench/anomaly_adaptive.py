"""How well adaptive sweeps (`iotrail sweep --adaptive`) find planted causes: those of anomaly_planted.py, in 150 settings of one cause and 240 of
four. Clusters count by uniform samples and pairs alone, as in `iotrail anomalies`.
"""

import os
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from anomaly_planted import CAUSES, SEEDS, SPACE, Found, judge
from iotrail.anomaly.evidence import find_clusters
from iotrail.anomaly.faces import Pairs
from iotrail.expected.workload import Expected
from iotrail.sweep import sampling, spec
from iotrail.sweep.journal import Journal
from iotrail.sweep.run import CHOOSING, CONFIRM, UNIFORM, Sweep
from iotrail.sweep.settings import Settings
from iotrail.sweep.targets import Measured
from measure import console, keep, table


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


def bench() -> None:
    """Print the table."""
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        keep("anomaly_adaptive", adaptive=bench_adaptive(pool))

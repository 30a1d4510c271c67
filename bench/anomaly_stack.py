"""Whether faults of the simulated stack are found where they are: each setting with and without a fault is the truth.

A zone found is compared with the largest box of settings that lose a tenth or more, by intersection over union. And the throughput of the
paper's server workloads on the stack, as faults are mended (figure 7).
"""

import os
import statistics
import sys
import tempfile
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from measure import ROOT, console, keep, table

sys.path.insert(0, str(ROOT))
from tests.anomaly import planted

from iotrail.anomaly import answer
from iotrail.anomaly.algorithm import find_cluster
from iotrail.anomaly.describe import describe
from iotrail.anomaly.space import Box, Flags, Space, Values
from iotrail.sweep import spec, stack
from iotrail.sweep.plan import plan
from iotrail.trail import Trail

SEEDS = int(os.environ.get("BENCH_SEEDS", "20"))
# A loss of the simulated stack.
SHORT = 0.1
# A setting with few requests is as fast as its seed has it: the truth is a mean over so many.
TRUTH_SEEDS = 3
SPECIFICATION = ROOT / "examples" / "anomaly" / "stack.toml"


def throughput(faults: tuple[str, ...]) -> Values:
    """Of each setting of the simulated stack, a mean over seeds, bytes/s."""
    space = spec.read(SPECIFICATION).space()
    settings = [space.setting(row) for row in space.feasible]
    runs = [stack.simulate(settings, faults=faults, seed=seed) for seed in range(1, TRUTH_SEEDS + 1)]
    return np.mean([[one["throughput_bytes_per_s"] for one in run] for run in runs], axis=0)


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
        keep("anomaly_stack", stack=bench_stack(pool), servers=bench_servers())

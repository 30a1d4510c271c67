"""`make demo-caching`: what SSD caches bring to a disk, asked of an application's requests and of its model's (Figures 3 and 4 of
Delimitrou et al.).

("Accurate Modeling and Generation of Storage I/O for Datacenter Workloads", §4.4 and §5.1.) A disk of 7,200 rpm has none to four
SSD caches of 8 GB before it, in virtual time. Each application's requests run there; those of a model fitted to them, drawn with
some seeds; and those of a baseline of the same mix, sizes and rate but any place, which is what IOMeter and a plain fio job do.
Speed-up is the mean response at the recorded times without caches by that with them, and in a second figure the throughput
if all requests wait from the beginning.

Applications are those of workloads.py, and the traces of ../shared/traces that are there. Trails, models, figures and
caching.json stay in demo/.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import caching_page
import numpy as np
import pyarrow as pa
import workloads

from iotrail import native
from iotrail.errors import IotrailError
from iotrail.model.aggregates import draw_aggregates
from iotrail.model.check import reaches_of, read_requests
from iotrail.model.fit import fit_auto, text_of
from iotrail.trail import Trail
from iotrail.whatif.cached import SIZES, mean_ns
from iotrail.whatif.simulator import ask_of
from iotrail.whatif.source import open_source

ROOT = Path(__file__).resolve().parent.parent.parent
OUTPUT = Path("demo")
SHARED = ROOT.parent / "shared" / "traces" / "block"
DISK, SSD = "hdd-7200", Path(__file__).resolve().with_name("cache-ssd.toml")
# Blocks of the caches, and those of caches for traces whose requests are small.
BLOCK, SMALL_BLOCK = 64 << 10, 4 << 10
# A trace that uses less than one cache of 8 GB has caches of this share of what it uses.
SHARE = 0.2
REQUESTS = 80_000
SEEDS = 3
_BATCH = 1 << 17
# What iotrail import takes.
TRACES: dict[str, tuple[object, ...]] = {
    "workstation (HP Labs)": ("srt", SHARED / "hplajw-1week.srt"),
    "volume (MSR Cambridge)": ("msr-cut", SHARED / "msr-cut-rw_20_80.105.trace"),
    "web search (SPC)": ("mqsim", SHARED / "mqsim-wsrch-small.trace"),
    "YCSB on RocksDB": (SHARED / "ycsb-a-rocksdb-xfs-optane.csv.gz",),
}
LOOPS = ("open", "saturated")


@dataclass(frozen=True)
class Devices:
    """Device files, or names of iotrail device list."""

    disk: Path | str
    # the drive that the caches are in
    ssd: Path | str


@dataclass(frozen=True)
class Answers:
    """What one workload's requests do by the number of caches, from none on.

    `open`: mean response at recorded times, ns. `saturated`: time of all requests if all wait from the beginning, ns.
    """

    open: list[float]
    saturated: list[float]

    def speed_ups(self, loop: str) -> list[float]:
        """Times without caches by those with them, from 1 on."""
        times: list[float] = getattr(self, loop)
        return [times[0] / each for each in times]


@dataclass(frozen=True)
class Study:
    """An application in all three forms."""

    name: str
    requests: int
    footprint_bytes: int
    # of each cache
    cache_bytes: int
    levels: int
    original: Answers
    # one a seed
    model: list[Answers]
    baseline: Answers

    def compare(self, loop: str) -> list[dict[str, Any]]:
        """Speed-ups for each number of caches from one on, and errors in points: hundredths of a speed-up."""
        original, baseline = self.original.speed_ups(loop), self.baseline.speed_ups(loop)
        seeds = [each.speed_ups(loop) for each in self.model]
        rows = []
        for count in range(1, len(original)):
            drawn = [each[count] for each in seeds]
            model = statistics.median(drawn)
            rows.append(
                {
                    "caches": count,
                    "original": original[count],
                    "model": model,
                    "model_range": (min(drawn), max(drawn)),
                    "baseline": baseline[count],
                    "model_error_points": 100 * (model - original[count]),
                    "baseline_error_points": 100 * (baseline[count] - original[count]),
                }
            )
        return rows

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**vars(self), **{f"{loop}_loop": self.compare(loop) for loop in LOOPS}}


def measure_footprint(table: pa.Table) -> int:
    """Different bytes that requests use."""
    offsets = np.concatenate(([0], np.cumsum(reaches_of(table))[:-1]))
    begin = table["pos"].to_numpy() + offsets[table["device"].to_numpy()]
    order = np.argsort(begin, kind="stable")
    begin, end = begin[order], (begin + table["length"].to_numpy())[order]
    until = np.concatenate(([0], np.maximum.accumulate(end)[:-1]))
    return int(np.maximum(end - np.maximum(begin, until), 0).sum())


def saturate(table: pa.Table) -> pa.Table:
    """The same requests in the same order, 1 ns apart: all wait from the beginning.

    Not with some in flight each of which waits for one before it: where caches hit, such chains outrun each other, and change what
    comes after what.
    """
    ts = pa.array(np.arange(len(table), dtype=np.int64))
    return table.set_column(table.schema.get_field_index("ts"), "ts", ts)


def run(table: pa.Table, sizes: Sequence[int], block: int, on: Devices) -> Answers:
    """Requests on the disk with an LRU cache of each size before it, write-back and empty at first.

    Raises:
        SimulationError: a device file is wrong, or a cache doesn't fit its drive.
    """
    words = [
        "simulate",
        "cached",
        "--on",
        str(on.disk),
        "--medium",
        str(on.ssd),
        "--policy",
        "lru",
        "--write",
        "back",
        "--fold",
    ]
    words += ["--block", str(block), "--size", ",".join(map(str, sizes))]
    timed, waiting = (
        [each["arrivals_recorded"] for each in ask_of(rows.to_reader(_BATCH), words)["sizes"]]
        for rows in (table, saturate(table))
    )
    open_ns = [mean_ns(each) for each in timed]
    if None in open_ns:
        sys.exit("caching: error: expected reads or writes, found none")
    return Answers([each for each in open_ns if each is not None], [each["elapsed_ns"] for each in waiting])


def measure(name: str, path: Path, block: int, seeds: int, on: Devices) -> Study:
    """An application's speed-ups, those of its model's requests and those of the baseline."""
    trail = Trail(path)
    original = read_requests(trail)
    footprint = measure_footprint(original)
    sizes = SIZES
    if footprint < SIZES[1]:
        each = max(int(footprint * SHARE) // block, 1) * block
        sizes = tuple(count * each for count in range(len(SIZES)))
    model, _ = fit_auto(trail, str(on.disk))
    model_path = path.with_suffix(".json")
    model_path.write_text(text_of(model))
    drawn = []
    for seed in range(1, seeds + 1):
        with open_source(model_path, seed) as source:
            drawn.append(run(read_requests(source.trail), sizes, block, on))
    return Study(
        name,
        len(original),
        footprint,
        sizes[1],
        model["levels"],
        run(original, sizes, block, on),
        drawn,
        run(draw_aggregates(original, reaches_of(original), 1), sizes, block, on),
    )


def import_trace(words: Sequence[object], output: Path) -> Path:
    """A trace as a trail."""
    command = [sys.executable, "-m", "iotrail", "import", *words, "-o", output, "--force"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"caching: error: {' '.join(map(str, command))}:\n{done.stderr}")
    return output


def trails(only: str | None, count: int, folder: Path, out: Any) -> Iterator[tuple[str, Path, int]]:
    """Name, trail and block of the caches of each application that is there."""
    for number, (name, make) in enumerate(workloads.MAKERS.items(), 1):
        if only is None or only in name:
            trace = folder / f"{number}.csv"
            workloads.write(make(np.random.default_rng(number), count), trace)
            words: tuple[object, ...] = ("csv", trace, "--map", workloads.MAP)
            yield name, import_trace(words, OUTPUT / f"caching-{name.replace(' ', '-')}.trail"), BLOCK
    for name, words in TRACES.items():
        if only is not None and only not in name:
            continue
        if not Path(str(words[-1])).exists():
            print(f"{name}: left out, {words[-1]} is not there", file=out)
            continue
        yield (
            name,
            import_trace(words, OUTPUT / f"caching-{name.split()[0].lower()}-trace.trail"),
            SMALL_BLOCK,
        )


def main() -> int:
    """Measure, print, draw."""
    parser = argparse.ArgumentParser(
        description="Speed-up by SSD caches: of applications, of models fitted to them, of the same mix anywhere"
    )
    parser.add_argument(
        "--requests", type=int, default=REQUESTS, help=f"of each generated application (default {REQUESTS:,})"
    )
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"draws of each model (default {SEEDS})")
    parser.add_argument("--only", metavar="NAME", help="applications whose name holds this")
    parser.add_argument("--json", action="store_true", help="print the answer as JSON")
    parser.add_argument("--on", metavar="DEVICE", default=DISK, help=f"the disk (default {DISK})")
    parser.add_argument(
        "--ssd", metavar="DEVICE", default=SSD, help=f"the drive that caches are in (default {SSD.name})"
    )
    arguments = parser.parse_args()
    if arguments.seeds < 1 or arguments.requests < 1000:
        parser.error("expected --seeds of 1 or more and --requests of 1000 or more")
    # a file's path, or a name of iotrail device list
    on = Devices(
        *(Path(each).resolve() if Path(each).exists() else each for each in (arguments.on, arguments.ssd))
    )
    native.binary()
    os.chdir(ROOT)
    OUTPUT.mkdir(exist_ok=True)
    out = sys.stderr if arguments.json else sys.stdout
    with (
        tempfile.TemporaryDirectory(prefix="iotrail-caching-", dir=OUTPUT) as name,
        ThreadPoolExecutor(os.cpu_count()) as pool,
    ):
        folder = Path(name)
        asked = []
        for title, trail, block in trails(arguments.only, arguments.requests, folder, out):
            print(f"{title} …", file=out, flush=True)
            asked.append(pool.submit(measure, title, trail, block, arguments.seeds, on))
        try:
            studies = [each.result() for each in asked]
        except IotrailError as error:
            pool.shutdown(cancel_futures=True)
            sys.exit(f"caching: error: {error}")
    if not studies:
        parser.error(f"--only: no application has {arguments.only!r} in its name")
    answer = json.dumps([each.as_dict() for each in studies], default=vars, indent=1)
    (OUTPUT / "caching.json").write_text(answer + "\n")
    for figure, drawn in caching_page.draw(studies).items():
        (OUTPUT / f"caching-{figure}.svg").write_bytes(drawn)
    if arguments.json:
        print(answer)
    else:
        caching_page.show(studies)
        print(
            f"Figures: {OUTPUT}/caching-figure-3.svg, {OUTPUT}/caching-figure-4.svg; all numbers: {OUTPUT}/caching.json"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())

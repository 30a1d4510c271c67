"""How fast models are fitted and drawn, and how close their requests are to those of traces, beside noise and baseline.

For each block trace of ../shared/traces, and for recordings made here: fio with a Zipf law in bursts and a log, on an emulated
disk and on an emulated SSD, and as root the programs of applications.py. Deviations are medians over BENCH_SEEDS draws (5), with the columns of `iotrail model check`: a
deviation within the noise floor is as good as the trace allows, one above the baseline is worse than aggregates only.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import applications
from iotrail import units
from iotrail.model.check import Check, Figure, check
from iotrail.model.check_text import deviation, noise
from iotrail.model.fit import draw, fit, fit_auto, load, text_of
from iotrail.trail import Trail
from measure import ROOT, console, keep, table

sys.path.insert(0, str(ROOT / "examples" / "devices"))
from served import served

SHARED = ROOT.parent / "shared" / "traces" / "block"
# Of HP Labs, MSR Cambridge, SPC, of RocksDB, and of two drives that DiskSim was validated with.
TRACES = {
    "workstation": ("srt", "hplajw-1week.srt"),
    "volume": ("msr-cut", "msr-cut-rw_20_80.105.trace"),
    "web search": ("mqsim", "mqsim-wsrch-small.trace"),
    "YCSB": ("", "ycsb-a-rocksdb-xfs-optane.csv.gz"),
    "Atlas 10K": ("disksim-validate", "disksim-atlas10k.trace"),
    "C3323A": ("disksim-validate", "disksim-hp_c3323a.trace"),
}
SEEDS = int(os.environ.get("BENCH_SEEDS", "5"))
DEVICE = "hdd-7200"
RECORDED = ("hdd-7200", "sata-ssd")
SECONDS = 15
# Traces of a table.
COLUMNS = 6
JOB = ROOT / "examples" / "models" / "bursts.fio"
# Keys of iotrail model check.
KEYS = (
    "random_share",
    "continue_2",
    "continue_8",
    "continue_32",
    "dispersion_0.01s",
    "dispersion_0.1s",
    "dispersion_1s",
    "dispersion_10s",
    "largest_transition",
    "transitions",
    "footprint_bytes",
    "gap_ks",
    "lru",
    "lru_even",
    "fifo",
    "arc",
    "s3-fifo",
    "read_response_mean_ns",
    "read_response_p99_ns",
    "write_response_mean_ns",
    "write_response_p99_ns",
)
# How many requests are of another direction or size.
MIX = ("read_share", "read_sizes", "write_sizes")


def iotrail(*words: object) -> None:
    """Run a verb."""
    command = [sys.executable, "-m", "iotrail", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"bench: error: iotrail {' '.join(map(str, words))}:\n{done.stderr}")


def trails(folder: Path) -> Iterator[tuple[str, Path]]:
    """The traces that are there, imported, and the recordings."""
    for name, (kind, file) in TRACES.items():
        if not (SHARED / file).exists():
            console.print(f"{name}: left out, {SHARED / file} is not there")
            continue
        trail = folder / f"{file}.trail"
        iotrail("import", *([kind] if kind else []), SHARED / file, "-o", trail)
        yield name, trail
    for device in RECORDED:
        yield f"fio, {device}", record(folder, device)
    if os.geteuid() != 0:
        console.print(
            f"{', '.join(applications.APPLICATIONS)}: left out, they need a file system of their own, and so root"
        )
        return
    for name in applications.APPLICATIONS:
        trail = folder / f"{name}.trail"
        applications.record(name, DEVICE, SECONDS, trail)
        yield name, trail


def record(folder: Path, device: str) -> Path:
    """fio on an emulated device, which records its requests."""
    trail = folder / f"{device}.trail"
    with (
        tempfile.TemporaryDirectory(dir=folder) as mounted,
        served(device, Path(mounted), "--size", "2G", "-o", trail) as disk,
    ):
        environment = os.environ | {"TARGET": disk.target, "SECONDS": str(SECONDS)}
        subprocess.run(["fio", "--output=/dev/null", str(JOB)], check=True, env=environment)
    return trail


def measure(trail: Path, folder: Path) -> tuple[dict[str, float], Check]:
    """Seconds to fit and to draw, with the start of a process, requests and bytes; and how close the model is."""
    opened = Trail(trail)
    began = time.monotonic()
    model, series = fit_auto(opened, DEVICE)
    chosen = time.monotonic() - began
    began = time.monotonic()
    fit(opened, model["levels"])
    fitted = time.monotonic() - began
    path = folder / "model.json"
    path.write_text(text_of(model))
    began = time.monotonic()
    with draw(path, seed=1) as batches:
        drawn = sum(len(batch) for batch in batches)
    costs = {
        "requests": drawn,
        "levels_tried": len(series),
        # --levels auto: each level is fitted, and its model run on a device
        "auto_s": chosen,
        "fit_s": fitted,
        "draw_s": time.monotonic() - began,
        "bytes": path.stat().st_size,
        "levels": model["levels"],
    }
    return costs, check(load(path), opened, seed=1, seeds=SEEDS, on=DEVICE)


def cell(figure: Figure) -> str:
    """Deviation, noise floor and baseline's deviation."""
    mark = "*" if figure.beyond else " "
    return f"{deviation(figure.deviation, figure)}{mark}\n[dim]{noise(figure).removesuffix(' pp')} {deviation(figure.baseline_deviation, figure).removesuffix(' pp')}[/]"


def batched(titles: Iterable[str], count: int) -> Iterator[list[str]]:
    """So many of them at a time."""
    rest = list(titles)
    for first in range(0, len(rest), count):
        yield rest[first : first + count]


def bench() -> None:
    """Print a table of costs, and one of deviations."""
    found: dict[str, tuple[dict[str, float], dict[str, Figure]]] = {}
    with tempfile.TemporaryDirectory(prefix="iotrail-bench-", dir=os.environ.get("BENCH_TMP")) as name:
        for title, trail in trails(Path(name)):
            costs, result = measure(trail, Path(name))
            found[title] = costs, {figure.key: figure for figure in result.figures}
    costs_table = table(
        "Models of block traces",
        ("trace", "requests", "levels", "chosen in", "fit", "M requests/s", "draw", "M requests/s", "file"),
    )
    for title, (costs, _) in found.items():
        costs_table.add_row(
            title,
            f"{costs['requests']:,}",
            f"{costs['levels']} of {costs['levels_tried']}",
            f"{costs['auto_s']:.2f} s",
            f"{costs['fit_s']:.2f} s",
            f"{costs['requests'] / costs['fit_s'] / 1e6:.2f}",
            f"{costs['draw_s']:.2f} s",
            f"{costs['requests'] / costs['draw_s'] / 1e6:.2f}",
            units.size(int(costs["bytes"])),
        )
    console.print(costs_table)
    for titles in batched(found, COLUMNS):
        shown = table(
            f"How close they are on {DEVICE}: deviation (median of {units.counted(SEEDS, 'draw')}; * beyond noise and 5 %); below it noise floor and baseline",
            ("figure", *titles),
        )
        for key in (*MIX, *KEYS):
            figures = [found[title][1].get(key) for title in titles]
            known = next((figure for figure in figures if figure), None)
            if known is not None:
                shown.add_row(known.name, *("" if figure is None else cell(figure) for figure in figures))
        console.print(shown)
    keep(
        "model",
        seeds=SEEDS,
        traces={
            title: {
                **costs,
                "figures": {
                    key: [figures[key].deviation, figures[key].noise, figures[key].baseline_deviation]
                    for key in (*MIX, *KEYS)
                    if key in figures
                },
            }
            for title, (costs, figures) in found.items()
        },
    )

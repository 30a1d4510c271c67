"""How fast models are fitted and drawn, and how close their requests are to those of traces, beside noise and baseline.

For each block trace of ../shared/traces, and for recordings made here: fio with a Zipf law in bursts and a log, on an emulated
disk and on an emulated SSD, and as root the programs of applications.py. Deviations are medians over BENCH_SEEDS draws (5), with the columns of `iotrail model check`: a
deviation within the noise floor is as good as the trace allows, one above the baseline is worse than aggregates only.

A second table fits to the first half of the requests and checks against the second half: deviations of shares are to be at most a
percentage point above those of the first half itself. A third one shows how steady the draws are: to within 1 %.

Beside them stand the peers of model_peer.py: fio, and 2DIO if BENCH_TRACE_GEN names it.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from rich.table import Table

import applications
from iotrail import units
from iotrail.model.check import (
    Check,
    Figure,
    check,
    compare_requests,
    draw_requests,
    reaches_of,
    read_requests,
)
from iotrail.model.check_text import UNKNOWN, deviation, noise
from iotrail.model.figures import Description
from iotrail.model.fit import draw, fit, fit_auto, fit_requests, load, text_of, written
from iotrail.trail import Trail
from measure import ROOT, console, keep, table
from model_peer import Peer, generate, run_fio

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
POLICIES = ("lru", "fifo", "arc", "s3-fifo")
# Of the second half, and how much further from it than the first half a model of that may be: a percentage point of a share.
UNSEEN = (*MIX, "random_share", *POLICIES, "dispersion_1s")
ALLOWED_UNSEEN = 0.01
# Relative standard deviation over seeds that is allowed.
ALLOWED_SPREAD = 0.01


@dataclass(frozen=True)
class Measured:
    """What is measured of one trace."""

    # seconds to fit and to draw, with the start of a process, requests and bytes
    costs: dict[str, float]
    figures: dict[str, Figure]
    # of a model of the first half, beside the second one; the noise is that of the halves
    unseen: dict[str, Figure]
    # relative standard deviation over the seeds, by figure
    spreads: dict[str, float | None]
    # of each peer that is there
    peers: list[Peer]


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


def measure(trail: Path, folder: Path) -> Measured:
    """Costs and deviations of one trace."""
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
    loaded, original = load(path), read_requests(opened)
    result = check(loaded, opened, seed=1, seeds=SEEDS, on=DEVICE)
    return Measured(
        costs,
        figures_of(result),
        figures_of(check_unseen(original, model["levels"])),
        {name: spread([value(each) for each in result.draws]) for name, value in STEADY.items()},
        [
            *run_fio(loaded, path, original, POLICIES, folder),
            *generate(loaded, original, POLICIES, folder),
        ],
    )


def figures_of(result: Check) -> dict[str, Figure]:
    """By key."""
    return {figure.key: figure for figure in result.figures}


def check_unseen(original: pa.Table, levels: int) -> Check:
    """A model of the first half of the requests, beside the second half."""
    middle = len(original) // 2
    first, second = original.slice(0, middle), original.slice(middle)
    model = fit_requests(first, levels, reaches_of(original))
    with written(model) as path:
        drawn = [draw_requests(path, 1 + number) for number in range(SEEDS)]
    return compare_requests(model, second, drawn, noise=first)


def is_too_far(figure: Figure) -> bool:
    """Whether a share is further from that of the second half than is allowed beyond the first half."""
    if figure.kind == "relative" or figure.deviation is None or figure.noise is None:
        return False
    return abs(figure.deviation) > figure.noise + ALLOWED_UNSEEN


def bytes_of(one: Description) -> float:
    """Of all requests."""
    return float(sum(size * count for _, size, count in one["sizes"]))


def iops_of(one: Description) -> float:
    """Requests a second, from the first arrival to the last."""
    return float((one["requests"] - 1) / one["length_ns"] * 1e9)


def response_of(one: Description) -> float:
    """Mean of all requests on the device, ns."""
    times = one["response"]["times"].values()
    return float(
        sum(each["mean_ns"] * each["count"] for each in times) / sum(each["count"] for each in times)
    )


STEADY: dict[str, Callable[[Description], float]] = {
    "requests": lambda one: float(one["requests"]),
    "bytes": bytes_of,
    "IOPS": iops_of,
    "mean response time": response_of,
    "footprint": lambda one: float(one["pages"]),
}


def spread(values: Sequence[float]) -> float | None:
    """Standard deviation by mean; None of fewer than two."""
    return statistics.stdev(values) / statistics.fmean(values) if len(values) > 1 else None


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
    """Print tables of costs, deviations, spread over seeds, and beside the peer."""
    found: dict[str, Measured] = {}
    with tempfile.TemporaryDirectory(prefix="iotrail-bench-", dir=os.environ.get("BENCH_TMP")) as name:
        for title, trail in trails(Path(name)):
            found[title] = measure(trail, Path(name))
    print_costs(found)
    for titles in batched(found, COLUMNS):
        shown = table(
            f"How close they are on {DEVICE}: deviation (median of {units.counted(SEEDS, 'draw')}; * beyond noise and 5 %); below it noise floor and baseline",
            ("figure", *titles),
        )
        add_rows(shown, (*MIX, *KEYS), [found[title].figures for title in titles], cell)
        console.print(shown)
    for titles in batched(found, COLUMNS):
        shown = table(
            f"Models of the first half, beside the second half: deviation (median of {units.counted(SEEDS, 'draw')}; * a share more than 1 pp beyond the first half); below it that of the first half",
            ("figure", *titles),
        )
        add_rows(shown, UNSEEN, [found[title].unseen for title in titles], unseen_cell)
        console.print(shown)
    print_spreads(found)
    print_peers(found)
    keep("model", seeds=SEEDS, traces={title: kept(measured) for title, measured in found.items()})


def print_costs(found: dict[str, Measured]) -> None:
    """Print what fitting and drawing takes."""
    shown = table(
        "Models of block traces",
        ("trace", "requests", "levels", "chosen in", "fit", "M requests/s", "draw", "M requests/s", "file"),
    )
    for title, measured in found.items():
        costs = measured.costs
        shown.add_row(
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
    console.print(shown)


def add_rows(
    shown: Table, keys: Iterable[str], columns: Sequence[dict[str, Figure]], text: Callable[[Figure], str]
) -> None:
    """A row for each figure that at least one trace has."""
    for key in keys:
        figures = [column.get(key) for column in columns]
        known = next((figure for figure in figures if figure), None)
        if known is not None:
            shown.add_row(known.name, *("" if figure is None else text(figure) for figure in figures))


def unseen_cell(figure: Figure) -> str:
    """Deviation, and that of the first half."""
    mark = "*" if is_too_far(figure) else " "
    return f"{deviation(figure.deviation, figure)}{mark}\n[dim]{noise(figure).removesuffix(' pp')}[/]"


def print_spreads(found: dict[str, Measured]) -> None:
    """Print how steady the draws are."""
    shown = table(
        f"Spread over {units.counted(SEEDS, 'seed')}: standard deviation by mean (* more than {ALLOWED_SPREAD:.0%})",
        ("trace", *STEADY),
    )
    for title, measured in found.items():
        spreads = measured.spreads.values()
        shown.add_row(
            title,
            *(
                UNKNOWN if each is None else f"{each:.2%}{'*' if each > ALLOWED_SPREAD else ' '}"
                for each in spreads
            ),
        )
    console.print(shown)


def print_peers(found: dict[str, Measured]) -> None:
    """Print miss ratios beside those of fio and 2DIO."""
    shown = table(
        "Miss ratios beside peers: mean absolute difference from the trace's",
        ("trace", "requests of", *map(str.upper, POLICIES), "seconds"),
    )
    for title, measured in found.items():
        own = [measured.figures[policy].deviation for policy in POLICIES]
        shown.add_row(
            title, "model", *map(ratio, own), f"{measured.costs['fit_s'] + measured.costs['draw_s']:.1f}"
        )
        for peer in measured.peers:
            errors = [peer.errors.get(policy) for policy in POLICIES]
            shown.add_row("", peer.name, *map(ratio, errors), f"{peer.seconds:.1f}")
    console.print(shown)
    if "BENCH_TRACE_GEN" not in os.environ:
        console.print(
            "2DIO is left out: BENCH_TRACE_GEN names the virtual environment in which trace_gen is installed"
        )


def ratio(number: float | None) -> str:
    """A share as per cent."""
    return UNKNOWN if number is None else f"{number:.2%}"


def kept(measured: Measured) -> dict[str, Any]:
    """For the file of results."""
    figures, unseen = measured.figures, measured.unseen
    return {
        **measured.costs,
        "figures": {
            key: [figures[key].deviation, figures[key].noise, figures[key].baseline_deviation]
            for key in (*MIX, *KEYS)
            if key in figures
        },
        # of a model of the first half, and of the first half itself, from the second half
        "second_half": {key: [unseen[key].deviation, unseen[key].noise] for key in UNSEEN if key in unseen},
        "spread": measured.spreads,
        "peers": [asdict(peer) for peer in measured.peers],
    }

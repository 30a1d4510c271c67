"""What recording requests costs a distributed store, and what the records are worth: the evaluation of Stardust
(SIGMETRICS 2006, section 5) on examples/store.

Table 3 (five workloads, tracing off and on), figure 5 (latency against load), figure 6 (sources of records), figure 8
(records against replication), table 4 (what a path costs), demand beside what the kernel counted, and figure 10
(bytes kept of pruned trails). Users, daemons and recorders share this machine's cores and disk.

As in the paper there is one storage node but for figure 8 and the demand, which have three.
"""

import json
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scipy.stats import mannwhitneyu

import pictures
from iotrail.requests import path
from iotrail.trail import Trail
from measure import ROOT, SEED, Spread, compile_c, console, interleave, keep, scratch, table

sys.path.insert(0, str(ROOT))
from tests.store.cluster import Store, bytes_sent, io_of

# As often as the paper.
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "5"))
# A client that hangs ends the benchmark.
PATIENCE = 120
NODE_COUNT = 3
Figures = dict[str, float]


@dataclass(frozen=True)
class Mode:
    """How much is recorded."""

    name: str
    options: tuple[str, ...]


OFF = Mode("off", ("--no-trace",))
# What the store posts.
POSTED = Mode("posted", ("--record", "--no-calls"))
# All that Stardust records: with the kernel's switches; disks are the store's own records. Three recorders here see all
# switches of the machine; on three machines each sees its own.
ALL = Mode("all", (*POSTED.options, "--record", "--kernel=cpu"))
# What the store posts, and the daemons' own calls.
CALLS = Mode("calls", ())
MODES = (OFF, POSTED, ALL, CALLS)


@dataclass(frozen=True)
class Load:
    """A workload of the paper."""

    name: str
    # What is done, in words.
    says: str
    # Unit of its performance, and what that is of (operations, seconds, bytes).
    unit: str
    performance: Callable[[Figures], float]
    run: Callable[[Path], Figures]
    # Performance lost in the paper's table 3, percent.
    paper: float


def told(command: Sequence[str | Path], where: Path | None = None) -> Figures:
    """Run a client and read what it says."""
    done = subprocess.run(
        command, cwd=where, capture_output=True, text=True, timeout=PATIENCE, stdin=subprocess.DEVNULL
    )
    if done.returncode != 0:
        raise SystemExit(
            f"bench: error: {' '.join(map(str, command))}\n  ended with status {done.returncode}:\n{done.stderr[-2000:]}"
        )
    return dict(json.loads(done.stdout)) if done.stdout.startswith("{") else {}


MAKEFILE = """
OBJECTS := $(patsubst %.c,%.o,$(wildcard common/*.c decompress/*.c))
CFLAGS := -O1 -DZSTD_DISABLE_ASM
libzstd.a: $(OBJECTS)
\t$(AR) rcs $@ $^
clean:
\trm -f $(OBJECTS) libzstd.a
"""


def zstd_sources() -> Path:
    """zstd's library, which cargo unpacked when it built iotrail."""
    command = ["cargo", "metadata", "--format-version=1", "--locked", "--offline"]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    manifest = next(
        p["manifest_path"] for p in json.loads(done.stdout)["packages"] if p["name"] == "zstd-sys"
    )
    return Path(manifest).parent / "zstd" / "lib"


def build(sources: Path, where: Path) -> Figures:
    """Copy a source tree, clean it and build it, as the paper does with Linux."""
    began = time.monotonic()
    shutil.copytree(sources, where / "zstd")
    (where / "zstd" / "Makefile").write_text(MAKEFILE)
    told(["make", "-s", "-j2", "clean"], where / "zstd")
    told(["make", "-s", "-j2", "libzstd.a"], where / "zstd")
    return {"operations": 1, "seconds": time.monotonic() - began}


def loads(client: Path) -> list[Load]:
    """The workloads, each a few seconds of what the paper did for many minutes."""

    def of_client(*arguments: str) -> Callable[[Path], Figures]:
        return lambda where: told([client, arguments[0], where, *arguments[1:]])

    def rate(figures: Figures) -> float:
        return figures["operations"] / figures["seconds"]

    def megabytes(figures: Figures) -> float:
        return figures["bytes"] / 1e6 / figures["seconds"]

    sources = zstd_sources()
    oltp = ROOT / "bench" / "oltp.py"
    return [
        Load("Postmark", "500 files of 500 to 9,770 bytes in 10 directories, 1,500 transactions",
             "transactions/s", rate, of_client("postmark", "500", "1500"), 0),
        Load("OLTP", "SQLite, pages of 8 KB, 50,000 rows, 250 transactions of 3 changes",
             "transactions/s", rate, lambda where: told([sys.executable, oltp, where, "50000", "250"]), 1.3),
        Load("IOzone", "a file of 192 MiB written, synced and read by 64 KiB",
             "MB/s", megabytes, of_client("stream", "192"), 5.3),
        Load("build", "zstd's library copied, cleaned and its decoder built with make -j2",
             "s", lambda figures: figures["seconds"], lambda where: build(sources, where), 0.6),
        Load("S1-V0", "40,000 appends of 48 to 92 bytes to 8 files",
             "appends/s", rate, of_client("append", "40000"), 2.5),
    ]  # fmt: skip


@contextmanager
def running(mode: Mode, *options: str) -> Iterator[Store]:
    """A store, gone afterwards with all that it kept."""
    with scratch() as folder:
        store = Store(folder / "store")
        try:
            store.up(*options, *mode.options)
            (store.mount / "load").mkdir()
            yield store
        finally:
            if daemons(store):
                # Interrupted: what recorders hold in memory goes when they end in order.
                store.down()
            store.clean()


def daemons(store: Store) -> list[str]:
    """Their names."""
    return sorted(file.stem for file in store.directory.glob("*.pid"))


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far: fields 14 and 15 of proc_pid_stat(5)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def cpu(store: Store) -> tuple[float, float]:
    """Seconds that the daemons used, and their recorders."""
    served, recorded = 0.0, 0.0
    for name in daemons(store):
        *recorders, daemon = store.pids(name)
        # Without a recorder the one process is the daemon.
        served += cpu_seconds(daemon)
        recorded += sum(cpu_seconds(pid) for pid in recorders)
    return served, recorded


def end(store: Store) -> None:
    """End a store in order, so that its trails are whole."""
    done = store.down()
    if done.returncode != 0:
        raise SystemExit(f"bench: error: down.sh ended with status {done.returncode}:\n{done.stderr[-2000:]}")


def size(trail: Path) -> int:
    """Bytes of its tables."""
    return sum(file.stat().st_size for file in trail.rglob("*.parquet"))


def measured(load: Load, mode: Mode, kept: Path, *options: str) -> Figures:
    """Run a workload on a store of its own; its trail replaces `kept`."""
    with running(mode, *options) as store:
        before = cpu(store)
        began = time.monotonic()
        figures = load.run(store.mount / "load")
        figures["wall"] = time.monotonic() - began
        after = cpu(store)
        end(store)
        figures["performance"] = load.performance(figures)
        figures["daemons"], figures["recorders"] = after[0] - before[0], after[1] - before[1]
        if mode is not OFF:
            shutil.rmtree(kept, ignore_errors=True)
            shutil.move(store.directory / "store.trail", kept)
            trail = Trail(kept)
            figures["rows"], figures["kept"] = sum(trail.rows.values()), size(kept)
            (counts,) = trail.rows_of("SELECT COUNT(*) AS n FROM request WHERE client IS NOT NULL")
            figures["requests"] = counts["n"]
            (lost,) = trail.rows_of(
                "SELECT COALESCE(SUM(amount), 0) AS n FROM unseen WHERE kind LIKE '%dropped%'"
            )
            figures["lost"] = int(lost["n"])
    return figures


def lost(load: Load, off: Sequence[Figures], on: Sequence[Figures]) -> Spread:
    """Percent of performance lost, by round."""
    ratios = [a["performance"] / b["performance"] for a, b in zip(off, on, strict=True)]
    return Spread.of([(1 - (ratio if load.unit == "s" else 1 / ratio)) * 100 for ratio in ratios])


def changed(off: Sequence[Figures], on: Sequence[Figures], figure: str) -> str:
    """How likely two kinds of runs differ as much by chance: Mann and Whitney's test, two-sided."""
    if len(off) < 4:
        return ""
    return f"{mannwhitneyu([r[figure] for r in off], [r[figure] for r in on]).pvalue:.2f}"


def table_3(given: Sequence[Load], trails: Path) -> dict[str, Any]:
    """Performance, latency and what recording takes."""
    seen: dict[str, dict[str, list[Figures]]] = {}
    options = ("--nodes", "1", "--replicas", "1")
    for load in given:
        seen[load.name] = interleave(
            MODES, ROUNDS, lambda mode, load=load: measured(load, mode, kept(trails, load, mode), *options)
        )
    shape = table(f"Table 3, performance, median of {ROUNDS}; lost within a round, % (least–most)", [
        "workload", "off", *(f"{mode.name}{more}" for mode in MODES[1:] for more in ("", ", lost")), "paper, lost",
    ])  # fmt: skip
    for load in given:
        rounds = seen[load.name]
        row = [f"{load.name}, {load.unit}", middle(rounds[OFF.name], "performance")]
        for mode in MODES[1:]:
            row.append(middle(rounds[mode.name], "performance"))
            row.append(lost(load, rounds[OFF.name], rounds[mode.name]).text(".1f"))
        shape.add_row(*row, f"{load.paper:.1f}")
    console.print(shape)
    console.print(
        "[dim]posted: what the store posts; all: with the kernel's switches; calls: posted, and the daemons' own calls[/]"
    )
    shape = table(f"Table 3, latency of an operation as its user sees it, ms, median of {ROUNDS} (least–most); "
                  "P: Mann-Whitney against off", [
        "workload", "off", *(f"{mode.name}{more}" for mode in MODES[1:] for more in ("", ", P")),
    ])  # fmt: skip
    for load in given:
        rounds = seen[load.name]
        for figure in ("mean", "p99"):
            if figure in rounds[OFF.name][0]:
                row = [f"{load.name}, {figure}", spread(rounds[OFF.name], figure, 1e6)]
                for mode in MODES[1:]:
                    row.append(spread(rounds[mode.name], figure, 1e6))
                    row.append(changed(rounds[OFF.name], rounds[mode.name], figure))
                shape.add_row(*row)
    console.print(shape)
    shape = table("Table 3, what recording takes: medians; CPU of a request, µs; recorders, % of the machine's CPU", [
        "workload", "recorded", "requests", "daemons, off", "recorded", "recorders", "%", "rows/s", "trail MB/s",
        "bytes/request", "dropped",
    ])  # fmt: skip
    for load in given:
        off = seen[load.name][OFF.name]
        for mode in MODES[1:]:
            on = seen[load.name][mode.name]
            requests = statistics.median(r["requests"] for r in on)

            def median(rounds: Sequence[Figures], of: Callable[[Figures], float]) -> float:
                return statistics.median(of(r) for r in rounds)

            shape.add_row(
                load.name,
                mode.name,
                f"{requests:,.0f}",
                f"{median(off, lambda r: r['daemons']) / requests * 1e6:.1f}",
                f"{median(on, lambda r: r['daemons'] / r['requests']) * 1e6:.1f}",
                f"{median(on, lambda r: r['recorders'] / r['requests']) * 1e6:.1f}",
                f"{median(on, lambda r: r['recorders'] / r['wall']) / (os.cpu_count() or 1) * 100:.1f}",
                f"{median(on, lambda r: r['rows'] / r['wall']):,.0f}",
                f"{median(on, lambda r: r['kept'] / r['wall']) / 1e6:.2f}",
                f"{median(on, lambda r: r['kept'] / r['requests']):,.0f}",
                f"{sum(r['lost'] for r in on):,.0f}",
            )
    console.print(shape)
    for load in given:
        console.print(f"[dim]{load.name}: {load.says}[/]")
    return seen


def kept(trails: Path, load: Load, mode: Mode) -> Path:
    """Where the last trail of a workload is."""
    return trails / f"{load.name}-{mode.name}.trail"


def digits(value: float) -> str:
    """The form in which a figure has three digits."""
    return ",.0f" if value >= 100 else ".1f" if value >= 10 else ".3g"


def middle(rounds: Sequence[Figures], figure: str) -> str:
    """The median of a figure of some runs."""
    value = statistics.median(r[figure] for r in rounds)
    return f"{value:{digits(value)}}"


def spread(rounds: Sequence[Figures], figure: str, unit: float = 1) -> str:
    """A figure of some runs, with its smallest and largest."""
    found = Spread.of([r[figure] / unit for r in rounds])
    return found.text(digits(found.median))


# Arrivals a second, up to where this machine's cores are busy; seconds of each.
RATES = (500, 1000, 1500, 2000, 2500)
SECONDS = 2


def figure_5(client: Path) -> dict[str, Any]:
    """Latency against load, with arrivals that don't wait for each other."""

    def once(mode: Mode) -> Figures:
        figures: Figures = {}
        with running(mode, "--nodes", "1", "--replicas", "1") as store:
            for rate in RATES:
                said = told([client, "open-loop", store.mount / "load", str(rate), str(SECONDS)])
                for figure in ("mean", "p99"):
                    figures[f"{rate} {figure}"] = said[figure]
        return figures

    seen = interleave((OFF, ALL), ROUNDS, once)
    shape = table(
        f"Figure 5: latency against load, ms: median of {ROUNDS} (least–most); P: Mann-Whitney",
        ["arrivals/s", "mean, off", "all", "P", "p99, off", "all", "P"],
    )
    drawn: list[dict[str, list[tuple[float, float, float, float]]]] = []
    for rate in RATES:
        row = [f"{rate:,}"]
        for figure in (f"{rate} mean", f"{rate} p99"):
            row += [spread(seen[mode.name], figure, 1e6) for mode in (OFF, ALL)]
            row.append(changed(seen[OFF.name], seen[ALL.name], figure))
        shape.add_row(*row)
    console.print(shape)
    for figure in ("mean", "p99"):
        drawn.append({})
        for mode in (OFF, ALL):
            values = [
                (rate, Spread.of([r[f"{rate} {figure}"] / 1e6 for r in seen[mode.name]])) for rate in RATES
            ]
            drawn[-1][mode.name] = [(rate, s.median, s.least, s.most) for rate, s in values]
    axes = [pictures.Axis("ms", *limits(panel), log=True) for panel in drawn]
    pictures.lines(
        "requests-figure-5",
        [
            f"{figure} latency against load: median, least and most of {ROUNDS} runs"
            for figure in ("mean", "p99")
        ],
        pictures.Axis("operations that arrive in a second", 0, RATES[-1] * 1.05),
        axes,
        drawn,
    )
    return seen


def limits(panel: dict[str, list[tuple[float, float, float, float]]]) -> tuple[float, float]:
    """Least and most of what is drawn."""
    spreads = [point for points in panel.values() for point in points]
    return min(point[2] for point in spreads) / 1.1, max(point[3] for point in spreads) * 1.1


# Part of the records -> the tables it is in.
PARTS = {
    "CPU, kernel": "cpu_slice",
    "CPU, user": "cpu_slice",
    "stitches": "stitch",
    "buffer caches": "buffer_op",
    "network": "network_transmit",
    "disks": "disk_op",
    "requests, calls": "service_op",
    "files": "file_op",
    "waiting": "sync_op",
    "other": "",
}


def sources(where: Path) -> tuple[dict[str, float], dict[str, float], dict[str, float]]:
    """Rows and bytes of each part of a trail, and rows of each node. Bytes of CPU time are divided by rows."""
    trail = Trail(where)
    (by_kind,) = trail.rows_of(
        "SELECT COUNT(*) FILTER (kind = 'kernel') AS kernel, COUNT(*) AS n FROM cpu_slice"
    )
    rows = dict(trail.rows)
    stored = {name: size(where / "data" / name) for name in rows}
    parts = []
    for whole in (rows, stored):
        part = {name: float(whole.get(table, 0)) for name, table in PARTS.items()}
        share = by_kind["kernel"] / max(by_kind["n"], 1)
        part["CPU, kernel"] *= share
        part["CPU, user"] *= 1 - share
        part["other"] = float(sum(whole.values())) - sum(part.values())
        parts.append(part)
    tables = set(PARTS.values()) - {""}
    union = " UNION ALL ".join(f"SELECT node FROM {name}" for name in tables)
    nodes = trail.rows_of(f"SELECT node, COUNT(*) AS n FROM ({union}) GROUP BY node ORDER BY node")
    return parts[0], parts[1], {row["node"]: row["n"] for row in nodes}


def figure_6(given: Sequence[Load], trails: Path) -> dict[str, Any]:
    """Where records come from."""
    found = {load.name: sources(kept(trails, load, ALL)) for load in given}
    shape = table("Figure 6: sources of records, % of rows (% of bytes)", ["source", *found])
    for part in PARTS:
        row = [part]
        for rows, stored, _ in found.values():
            row.append(f"{rows[part] / sum(rows.values()):.1%} ({stored[part] / sum(stored.values()):.1%})")
        shape.add_row(*row)
    shape.add_section()
    for node in sorted({node for *_, nodes in found.values() for node in nodes}):
        shape.add_row(f"on {node}", *(f"{n.get(node, 0) / sum(n.values()):.1%}" for *_, n in found.values()))
    shape.add_row("rows", *(f"{sum(rows.values()):,.0f}" for rows, *_ in found.values()))
    console.print(shape)
    shares = {
        name: {"": {part: value / sum(stored.values()) * 100 for part, value in stored.items()}}
        for name, (_, stored, _) in found.items()
    }
    pictures.bars("requests-figure-6", "Sources of records", "% of a trail's bytes", shares, list(PARTS))
    return {name: {"rows": rows, "bytes": stored, "nodes": n} for name, (rows, stored, n) in found.items()}


def figure_8(given: Sequence[Load]) -> dict[str, Any]:
    """Records against the number of replicas."""
    found: dict[str, dict[str, Any]] = {}
    shape = table(f"Figure 8: records against replicas on {NODE_COUNT} nodes: rows, MB (times one replica's)", [
        "workload", "1", "2", "3"])  # fmt: skip
    with scratch() as trails:
        for load in given:
            found[load.name] = {}
            for replicas in range(1, NODE_COUNT + 1):
                trail = trails / "replicas.trail"
                measured(load, ALL, trail, "--nodes", str(NODE_COUNT), "--replicas", str(replicas))
                rows, stored, _ = sources(trail)
                found[load.name][str(replicas)] = {"rows": rows, "bytes": stored}
            totals = [
                (sum(of["rows"].values()), sum(of["bytes"].values()) / 1e6)
                for of in found[load.name].values()
            ]
            shape.add_row(
                load.name,
                *(
                    f"{rows:,.0f}, {stored:.1f}" + (f" ({stored / totals[0][1]:.2f})" if number else "")
                    for number, (rows, stored) in enumerate(totals)
                ),
            )
    console.print(shape)
    groups = {
        name: {
            replicas: {part: n / 1e6 for part, n in of["bytes"].items()}
            for replicas, of in by_replicas.items()
        }
        for name, by_replicas in found.items()
    }
    pictures.bars("requests-figure-8", "Records against replicas", "MB of a trail", groups, list(PARTS))
    return found


# Requests of each kind whose paths are built at once, and one by one.
ASKED, SINGLE = 100, 10


def ask_path(where: str, op: str) -> None:
    """In a process of its own: paths of one request each, then of all at once. Prints JSON."""
    seconds = []
    trail = Trail(where)
    roots = [
        (row["node"], row["crumb"])
        for row in trail.rows_of(
            f"SELECT node, crumb FROM request WHERE op = '{op}' AND client IS NOT NULL ORDER BY hash(crumb) LIMIT {ASKED}"
        )
    ]
    random.Random(SEED).shuffle(roots)
    steps, crumbs, records = [], [], []
    for root in roots[:SINGLE]:
        began = time.monotonic()
        trail = Trail(where)
        (found,) = path.paths(trail, [root])
        seconds.append(time.monotonic() - began)
        (deep,) = trail.rows_of("SELECT MAX(depth) + 1 AS n FROM walk")
        steps.append(deep["n"])
        crumbs.append(len(found.crumbs))
        records.append(sum(len(crumb.records) for crumb in found.crumbs))
    began = time.monotonic()
    path.paths(Trail(where), roots)
    each = (time.monotonic() - began) / len(roots)
    print(json.dumps({"crumb": roots[0][1], "node": roots[0][0], "warm": statistics.median(seconds), "many": each,
                      "steps": statistics.mean(steps), "crumbs": statistics.mean(crumbs),
                      "records": statistics.mean(records)}))  # fmt: skip


def first_path(where: str, node: str, crumb: int) -> None:
    """In a process of its own: the seconds of its first path."""
    began = time.monotonic()
    path.paths(Trail(where), [(node, crumb)])
    print(json.dumps({"seconds": time.monotonic() - began}))


def forget(trail: Path) -> None:
    """Take a trail out of the page cache."""
    for file in trail.rglob("*"):
        if file.is_file():
            fd = os.open(file, os.O_RDONLY)
            os.fsync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)


def table_4(given: Sequence[Load], trails: Path) -> dict[str, Any]:
    """What building a path costs, of reads and of writes."""
    shape = table("Table 4: one path: steps along the stitches, breadcrumbs, records (means of 10); ms (medians)", [
        "workload", "of a", "steps", "breadcrumbs", "records", "first, cold", "later", f"each of {ASKED}", "iotrail path",
    ])  # fmt: skip
    found: dict[str, Any] = {}
    for load in given:
        trail = kept(trails, load, ALL)
        present = {
            row["op"]
            for row in Trail(trail).rows_of("SELECT DISTINCT op FROM request WHERE client IS NOT NULL")
        }
        for op in ("read", "write"):
            if op not in present:
                continue
            asked = told([sys.executable, __file__, "paths", trail, op])
            key = [str(asked["node"]), str(asked["crumb"])]
            times: dict[str, list[float]] = {"cold": [], "command": []}
            for _ in range(min(3, ROUNDS)):
                forget(trail)
                times["cold"].append(told([sys.executable, __file__, "path", trail, *key])["seconds"])
                began = time.monotonic()
                told([sys.executable, "-m", "iotrail", "path", trail, "--node", key[0], "--crumb", key[1]])
                times["command"].append(time.monotonic() - began)
            found[f"{load.name} {op}"] = {**asked, **times}
            shape.add_row(
                load.name,
                op,
                *(f"{asked[figure]:,.1f}" for figure in ("steps", "crumbs", "records")),
                f"{statistics.median(times['cold']) * 1e3:,.0f}",
                *(f"{asked[figure] * 1e3:,.1f}" for figure in ("warm", "many")),
                f"{statistics.median(times['command']) * 1e3:,.0f}",
            )
    console.print(shape)
    return found


# Widths of the stretches that pruned records are summed over, in seconds: workloads here last seconds.
WIDTHS = (0.1, 0.3, 1)
# What is kept beside sums in the figure, and what in the table beneath it.
WITH_RECORDS = "demand,graphs,buffer,disk"


def request_bytes(trail: Path) -> int:
    """Bytes of all but the programs' own calls, which pruning leaves as they are."""
    command = [sys.executable, "-m", "iotrail", "trail", "info", "--json", trail]
    tables = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["tables"]
    return sum(table["bytes"] for table in tables if table["name"] not in ("file_op", "sync_op"))


def figure_10(given: Sequence[Load], trails: Path) -> dict[str, Any]:
    """Bytes kept of a trail, against the width of the stretches that pruned records are summed over."""
    found: dict[str, Any] = {}
    shape = table("Figure 10: MB of a trail without the programs' own calls (% of the raw ones)", [
        "workload", "raw", *(f"T = {width} s" for width in WIDTHS), "demand only, 1 s", "graphs only, 1 s",
    ])  # fmt: skip
    asked = [*((width, WITH_RECORDS) for width in WIDTHS), (1, "demand"), (1, "graphs")]
    with scratch() as folder:
        copy = folder / "copy.trail"
        for load in given:
            trail = kept(trails, load, ALL)
            raw = request_bytes(trail)
            left = []
            for width, keeping in asked:
                shutil.copytree(trail, copy)
                every = f"{width * 1000:.0f}ms"
                told(
                    [
                        sys.executable,
                        "-m",
                        "iotrail",
                        "trail",
                        "prune",
                        copy,
                        "--every",
                        every,
                        "--keep",
                        keeping,
                    ]
                )
                left.append(request_bytes(copy))
                shutil.rmtree(copy)
            found[load.name] = {"raw": raw, **dict(zip(map(str, asked), left, strict=True))}
            shape.add_row(
                load.name, f"{raw / 1e6:.2f}", *(f"{size / 1e6:.2f} ({size / raw:.0%})" for size in left)
            )
    console.print(shape)
    points = {
        name: [(width, sizes[str((width, WITH_RECORDS))] / 1e6) for width in WIDTHS]
        for name, sizes in found.items()
    }
    pictures.lines(
        "requests-figure-10",
        ["Bytes kept: sums of demand and latency graphs, all records of buffer caches and disks"],
        pictures.Axis("T, seconds", WIDTHS[0], WIDTHS[-1], log=True),
        [pictures.Axis("MB", 0, max(size for of in points.values() for _, size in of) * 1.05)],
        [{name: [(width, size, size, size) for width, size in of] for name, of in points.items()}],
    )
    return found


def settled(store: Store) -> None:
    """Wait until nothing moves: what is dirty was written back."""
    before = None
    for _ in range(100):
        now = [io_of(store.pids(name)[-1]) for name in daemons(store)]
        if now == before:
            return
        before = now
        # More than the head's time between two flushes.
        time.sleep(1.2)


# Where the kernel says it.
COUNTERS = {"cpu": "/proc/PID/stat", "network": "TCP_INFO", "disk": "/proc/PID/io"}


def totals(store: Store) -> dict[str, float]:
    """What the kernel counted so far: CPU time of the daemons in ns, bytes they sent, bytes nodes read and wrote."""
    served, _ = cpu(store)
    sent = sum(bytes_sent(store.pids(name)[-1]) for name in daemons(store))
    moved = [io_of(store.pids(name)[-1]) for name in daemons(store) if name.startswith("node")]
    disk = sum(io["read_bytes"] + io["write_bytes"] for io in moved)
    return {"cpu": served * 1e9, "network": sent, "disk": disk}


# A switch, as perf script says it: CPU, seconds, thread before, thread after.
SWITCH = re.compile(r"\[(\d+)\] +(\d+\.\d+): sched:sched_switch: .* prev_pid=(\d+) .* next_pid=(\d+) ")


@contextmanager
def switches(store: Store, wanted: bool) -> Iterator[dict[str, float]]:
    """Time on CPUs as perf sees it from switch to switch, in ns, once it is over; empty without perf."""
    seen: dict[str, float] = {}
    if not wanted or not shutil.which("perf"):
        yield seen
        return
    file = store.directory / "perf.data"
    command = ["perf", "record", "-q", "-a", "-m", "4M", "-e", "sched:sched_switch", "-o", file]
    perf = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        # Until it has its events on.
        time.sleep(1)
        yield seen
        threads = {
            int(task.name)
            for name in daemons(store)
            for task in Path(f"/proc/{store.pids(name)[-1]}/task").iterdir()
        }
    finally:
        perf.send_signal(signal.SIGINT)
        perf.wait()
    command = ["perf", "script", "-i", file, "-F", "cpu,time,event,trace", "--ns"]
    script = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert script.stdout is not None
    on: dict[str, tuple[int, float]] = {}
    seen["perf"] = 0.0
    for line in script.stdout:
        if switch := SWITCH.search(line):
            cpu_number, at, before, after = switch[1], float(switch[2]), int(switch[3]), int(switch[4])
            thread, since = on.get(cpu_number, (0, 0.0))
            if thread == before and thread in threads:
                seen["perf"] += (at - since) * 1e9
            on[cpu_number] = after, at
    script.wait()


def demand(client: Path) -> dict[str, Any]:
    """What requests are billed beside what the kernel counted of the daemons."""
    shape = table("Demand beside what the kernel counted of the daemons: CPU ms, network MB, disks of nodes MB", [
        "resource", "recorded", "counted", "by", "demand", "difference", "unattributed",
    ])  # fmt: skip
    found: dict[str, Any] = {}
    for mode in MODES[1:]:
        with running(mode, "--nodes", str(NODE_COUNT), "--replicas", "2") as store:
            where = store.mount / "load"
            with switches(store, mode is ALL) as on_cpu:
                since, before = time.time_ns(), totals(store)
                told([client, "postmark", where, "300", "2000"])
                told([client, "append", where, "20000"])
                told([client, "stream", where, "64"])
                settled(store)
                until, after = time.time_ns(), totals(store)
            end(store)
            trail = Trail(store.directory / "store.trail")
            rows = trail.rows_of(
                "SELECT resource, CAST(SUM(time_ns) AS BIGINT) AS time_ns, CAST(SUM(bytes) AS BIGINT) AS bytes, "
                "CAST(COALESCE(SUM(time_ns) FILTER (client IS NULL), 0) AS BIGINT) AS unowed_ns, "
                "CAST(COALESCE(SUM(bytes) FILTER (client IS NULL), 0) AS BIGINT) AS unowed_bytes "
                f"FROM demand WHERE ts >= {since} AND ts < {until} AND (resource <> 'disk' OR node LIKE 'node-%') "
                "GROUP BY resource"
            )
        for row in rows:
            resource = row["resource"]
            # Without the kernel's slices CPU time contains what a thread waited.
            if resource not in after or (resource == "cpu" and mode is not ALL):
                continue
            amount, unowed = (
                (row["time_ns"], row["unowed_ns"])
                if resource == "cpu"
                else (row["bytes"], row["unowed_bytes"])
            )
            counts = {COUNTERS[resource]: after[resource] - before[resource]}
            if resource == "cpu" and "perf" in on_cpu:
                counts["perf, sched_switch"] = on_cpu["perf"]
            found[f"{resource}, {mode.name}"] = {"counted": counts, "demand": amount, "unattributed": unowed}
            for by, counted in counts.items():
                shape.add_row(
                    resource,
                    mode.name,
                    f"{counted / 1e6:,.1f}",
                    by,
                    f"{amount / 1e6:,.1f}",
                    f"{amount / counted - 1:+.2%}",
                    f"{unowed / amount:.2%}",
                )
    console.print(shape)
    return found


def _ended(signum: int, frame: object) -> None:
    # As Ctrl-C: what was started is ended, what was mounted unmounted.
    raise SystemExit(128 + signum)


def bench() -> None:
    """Measure and print."""
    if os.geteuid() != 0 or not Path("/dev/fuse").exists():
        console.print("[dim]requests is left out: mounting the store needs root and /dev/fuse[/]")
        return
    before = signal.signal(signal.SIGTERM, _ended)
    try:
        with scratch() as folder:
            client = compile_c(folder, "client.c", "-lm", "-lpthread")
            given = loads(client)
            figures = {
                "table 3": table_3(given, folder),
                "figure 5": figure_5(client),
                "figure 6": figure_6(given, folder),
                "figure 8": figure_8(given),
                "table 4": table_4(given, folder),
                "demand": demand(client),
                "figure 10": figure_10(given, folder),
            }
    finally:
        signal.signal(signal.SIGTERM, before)
    keep("requests", rounds=ROUNDS, figures=figures)


if __name__ == "__main__":
    if sys.argv[1] == "paths":
        ask_path(sys.argv[2], sys.argv[3])
    else:
        first_path(sys.argv[2], sys.argv[3], int(sys.argv[4]))

"""`make demo-figures`: what SSD caches and defragmentation bring (Figures 4 and 5 of Delimitrou et al.), and whether it holds.

("Accurate Modeling and Generation of Storage I/O for Datacenter Workloads".) Whole traces run in virtual time on a disk of
7,200 rpm, with a cache of 0 to 4 SSDs of 8 GB before it, and before and after the blocks of each file are put together. The
busiest minute of each then runs on emulated devices, at its recorded times, and both speed-ups are compared.

Traces are those of ../shared/traces that are there, and one that is generated. Trails and figures.json stay in demo/.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import workload
from pyarrow import csv
from served import IOTRAIL, served

from iotrail.trail import Trail

ROOT = Path(__file__).resolve().parent.parent.parent
OUTPUT = Path("demo")
SHARED = ROOT.parent / "shared" / "traces" / "block"
DISK, SSD = "hdd-7200", "sata-ssd"
GB = 10**9
SIZES = [count * 8 * GB for count in range(5)]
# A revolution in ns, and from how many angles of it each stretch is simulated: where the disk happens to be when the first request
# comes changes in what order it serves a backlog, and so the mean by some per cent.
REVOLUTION = 8_333_333
ANGLES = 8
# Longer requests come to an emulated device in pieces (FUSE), so that their times can't be compared: stretches have none.
LONGEST = 1 << 20
# Share of the mean response by which requests and answers may be late: beyond, this machine is not fast enough to emulate it.
MOST_LATE = 0.05
# Requests that may wait for a device: beyond, it doesn't keep up, and neither would a replay.
MOST_WAITING = 500
REQUESTS = "ts=1,unit=ns,epoch=none,dev=2,op=3,pos=4,length=5,header=no,sep=comma"
CACHE = """
[cache]
policy = {{ value = "lru", source = "chosen" }}
size = {{ value = {size}, unit = "B", source = "chosen" }}
block = {{ value = 4, unit = "KiB", source = "chosen" }}
write = {{ value = "back", source = "chosen" }}
device = {{ device = {{ value = "sata-ssd", source = "comes with iotrail" }} }}
"""


@dataclass(frozen=True)
class Source:
    """A trace: its name, and the words that import it."""

    name: str
    words: tuple[object, ...]
    # words of whatif defrag; none: nobody knows which files its requests are for
    files: tuple[str, ...] | None = None


SOURCES = (
    Source("workstation (HP Labs)", ("srt", SHARED / "hplajw-1week.srt")),
    Source("volume (MSR Cambridge)", ("msr-cut", SHARED / "msr-cut-rw_20_80.105.trace")),
    Source("web search (SPC)", ("mqsim", SHARED / "mqsim-wsrch-small.trace")),
    Source("YCSB on RocksDB", (SHARED / "ycsb-a-rocksdb-xfs-optane.csv.gz",), ("--by-first-use",)),
)


# What else the machine does is no lateness of a device: at real-time priority, where that is allowed (chrt(1)).
PROMPTLY = ["chrt", "--fifo", "1"] if os.geteuid() == 0 else []


def iotrail(*words: object, before: Sequence[str] = ()) -> str:
    """What a verb prints."""
    done = subprocess.run([*before, IOTRAIL, *map(str, words)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"figures: error: iotrail {' '.join(map(str, words))}:\n{done.stderr}")
    return done.stdout


def ask(*words: object) -> dict[str, Any]:
    """What a verb answers as JSON."""
    found: dict[str, Any] = json.loads(iotrail(*words, "--json"))
    return found


def mean_ms(outcome: dict[str, Any]) -> float:
    """Mean response time of reads and writes."""
    times = [each for each in outcome["times"] if each["op"] in ("read", "write")]
    return sum(each["mean_ns"] * each["count"] for each in times) / sum(each["count"] for each in times) / 1e6


def traces(requests: int, only: str | None, folder: Path) -> Iterator[tuple[Source, Path]]:
    """The traces that are there, imported."""
    generated = Source("file server (generated)", ("csv", folder / "server.csv", "--map", workload.MAP), ())
    for source in (generated, *SOURCES):
        if only is not None and only not in source.name:
            continue
        if source is generated:
            workload.write(folder / "server.csv", requests)
        elif not Path(str(source.words[-1])).exists():
            print(f"{source.name}: left out, {source.words[-1]} is not there")
            continue
        trail = OUTPUT / f"figures-{source.name.split()[0].lower()}.trail"
        iotrail("import", *source.words, "-o", trail, "--force")
        yield source, trail


def busiest(trail: Path, seconds: int) -> int:
    """Where the stretch with most reads and writes begins, among those that begin at whole tenths of it."""
    step = seconds * 10**8
    [[start]] = (
        Trail(trail)
        .query(
            f"""
        WITH tenth AS (SELECT ts - ts % {step} AS ts, COUNT(*) AS n FROM device_request WHERE op < 2 GROUP BY ALL),
        stretch AS (
            SELECT a.ts, SUM(b.n) AS n FROM tenth AS a
            INNER JOIN tenth AS b ON b.ts BETWEEN a.ts AND a.ts + {9 * step} GROUP BY ALL
        )
        SELECT min_by(ts, lpad(CAST(1000000000000 - n AS VARCHAR), 20, '0') || lpad(CAST(ts AS VARCHAR), 20, '0')) FROM stretch"""
        )
        .fetchall()
    )
    return int(start)


def cut(trail: Path, start: int, seconds: int, output: Path, folder: Path) -> Path:
    """The reads and writes of a stretch as a trail, but those longer than LONGEST.

    All of them last until its end: a replay waits for what had completed before, and an open loop waits for nothing.
    """
    rows = (
        Trail(trail)
        .query(
            f"""
        SELECT r.ts - {start} AS ts, d.dev, CASE r.op WHEN 0 THEN 'r' ELSE 'w' END AS op, r.pos, r.length,
            {seconds * 10**9} - (r.ts - {start}) + 1 AS dur
        FROM device_request AS r INNER JOIN block_device AS d ON d.device = r.device
        WHERE r.op < 2 AND r.length BETWEEN 1 AND {LONGEST} AND r.pos IS NOT NULL AND r.ts BETWEEN {start} AND {start + seconds * 10**9}
        ORDER BY r.ts, r.trace_row, r.pos"""
        )
        .to_arrow_table()
    )
    path = folder / f"{output.stem}.csv"
    csv.write_csv(rows, path, csv.WriteOptions(include_header=False, quoting_style="none"))
    iotrail("import", "csv", path, "--map", f"{REQUESTS},dur=6,dur_unit=ns", "-o", output, "--force")
    return output


def replay(slice_: Path, device: Path, folder: Path) -> dict[str, float]:
    """Run a stretch on emulated devices, one for each of its own: mean times in ms.

    `emulated` is from the recorded time of a request to its answer, `behind` of that until it had come to the device, `late`
    what answers took longer than the model says. `arrived` is what the simulator says of the requests as they came.
    """
    devices = [row["dev"] for row in Trail(slice_).rows_of("SELECT dev FROM block_device ORDER BY device")]
    logs = [folder / f"log{number}.trail" for number in range(len(devices))]
    with ExitStack() as stack:
        words: list[object] = []
        for number, (dev, log) in enumerate(zip(devices, logs, strict=True)):
            at = folder / f"disk{number}"
            words += [
                "--map",
                f"{dev}={stack.enter_context(served(device, at, '-o', log, '--force', before=PROMPTLY)).target}",
            ]
        iotrail(
            "replay", slice_, *words, "--mode", "timed", "--engine", "io_uring", "--depth", 1024, "--direct", "--zeros",
            "--overwrite", "-o", folder / "replay.trail", "--force", before=PROMPTLY,
        )  # fmt: skip
    due = [row["ts"] for row in Trail(slice_).rows_of("SELECT ts FROM device_request ORDER BY ts")]
    rows: list[dict[str, int]] = []
    arrived = 0.0
    for log in logs:
        seen = Trail(log).rows_of("SELECT ts, dur, model_dur FROM disk_op WHERE op IN ('read', 'write')")
        rows += seen
        if seen:
            [simulated] = ask("whatif", "device", log, "--on", device)["simulated"]
            arrived += mean_ms(simulated["arrivals_recorded"]) * len(seen)
    came = sorted(row["ts"] for row in rows)
    if len(came) != len(due):
        sys.exit(f"figures: error: {len(due):,} requests were replayed, {len(came):,} came to the devices")
    # No request comes before its time: the least that one is behind is how far the two clocks are apart.
    behind = [at - wanted for at, wanted in zip(came, due, strict=True)]
    waited = sum(behind) - min(behind) * len(due)
    return {
        "requests": len(due),
        "emulated": (waited + sum(row["dur"] for row in rows)) / len(due) / 1e6,
        "behind": waited / len(due) / 1e6,
        "late": sum(max(row["dur"] - row["model_dur"], 0) for row in rows) / len(due) / 1e6,
        "arrived": arrived / len(due),
    }


def device_file(size: int, folder: Path) -> Path:
    """The disk with a cache of this size before it."""
    text = (ROOT / "crates" / "sim" / "devices" / f"{DISK}.toml").read_text()
    path = folder / f"disk-{size // GB}.toml"
    path.write_text(text + (CACHE.format(size=size) if size else ""))
    return path


@dataclass(frozen=True)
class Run:
    """A stretch in one arrangement: mean response times in ms, simulated from each angle, and emulated."""

    angles: list[float]
    emulated: dict[str, float]

    @property
    def simulated(self) -> float:
        """The mean of all angles."""
        return sum(self.angles) / len(self.angles)


def simulate(slice_: Path, device: Path, folder: Path) -> list[float]:
    """The mean response of a stretch from each angle, in ms: a read of each disk comes a second and some part of a turn before."""
    trail = Trail(slice_)
    devices = [row["dev"] for row in trail.rows_of("SELECT dev FROM block_device ORDER BY device")]
    means = []
    for angle in range(ANGLES):
        lead = 10**9 + angle * REVOLUTION // ANGLES
        rows = trail.query(
            f"""
            SELECT r.ts - (SELECT MIN(ts) FROM device_request) + {lead} AS ts, d.dev,
                CASE r.op WHEN 0 THEN 'r' ELSE 'w' END AS op, r.pos, r.length
            FROM device_request AS r INNER JOIN block_device AS d ON d.device = r.device
            ORDER BY r.ts, r.trace_row, r.pos"""
        ).to_arrow_table()
        path, turned = folder / "turned.csv", folder / "turned.trail"
        csv.write_csv(rows, path, csv.WriteOptions(include_header=False, quoting_style="none"))
        path.write_text("".join(f"0,{dev},r,0,512\n" for dev in devices) + path.read_text())
        iotrail("import", "csv", path, "--map", REQUESTS, "-o", turned, "--force")
        outcome = ask("whatif", "device", turned, "--on", device)["simulated"][0]["arrivals_recorded"]
        means.append(mean_ms(outcome))
    return means


def compare(slice_: Path, device: Path, *, emulate: bool) -> Run | None:
    """Simulate and emulate a stretch; None if the device doesn't keep up."""
    with tempfile.TemporaryDirectory(prefix="iotrail-figures-") as folder:
        run = Run(simulate(slice_, device, Path(folder)), {})
        [[count, span]] = (
            Trail(slice_).query("SELECT COUNT(*), MAX(ts) - MIN(ts) FROM device_request").fetchall()
        )
        # Little's law: how many are in the device on average
        if count * run.simulated / 1e3 > MOST_WAITING * span / 1e9:
            return None
        return replace(run, emulated=replay(slice_, device, Path(folder))) if emulate else run


def print_row(cells: Sequence[str], widths: Sequence[int]) -> None:
    """A line of a table, its first column left-aligned."""
    print(
        cells[0].ljust(widths[0])
        + "".join(cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True)),
        flush=True,
    )


def figure_4(found: dict[str, Any]) -> None:
    """Speed-ups of caches, whole traces."""
    print(
        f"\nSpeed-up by SSD caches before a disk (Figure 4): whole traces in virtual time, mean response on {DISK}"
    )
    widths = (28, 12, 15, *(9 for _ in SIZES[1:]))
    print_row(["", "requests", "no cache", *(f"{size // GB} GB" for size in SIZES[1:])], widths)
    for name, trace in found.items():
        means = [mean_ms(each["arrivals_recorded"]) for each in trace["cached"]["sizes"]]
        print_row(
            [
                name,
                f"{trace['cached']['requests']:,}",
                f"{means[0]:,.2f} ms",
                *(f"{means[0] / mean:.2f}" for mean in means[1:]),
            ],
            widths,
        )


def figure_5(found: dict[str, Any]) -> None:
    """Speed-ups of defragmentation, whole traces."""
    print(f"\nSpeed-up by defragmentation (Figure 5): whole traces in virtual time, mean response on {DISK}")
    widths = (28, 17, 18, 26, 11, 17)
    print_row(["", "fragments a file", "sequential", "mean response", "speed-up", "has paid after"], widths)
    for name, trace in found.items():
        defrag = trace.get("defrag")
        if defrag is None:
            print_row([name, "unknown", "", "", "", ""], widths)
            continue
        fragments = sum(each["fragments"] for each in defrag["files"]) / len(defrag["files"])
        shares = [100 * defrag[side]["sequential"] / defrag[side]["requests"] for side in ("before", "after")]
        means = [mean_ms(defrag[side]["arrivals_recorded"]) for side in ("before", "after")]
        pays = defrag["pays_after_ns"]["arrivals_recorded"]
        print_row(
            [name, f"{fragments:.1f}", f"{shares[0]:.1f} → {shares[1]:.1f} %", f"{means[0]:,.2f} → {means[1]:,.2f} ms",
             f"{means[0] / means[1]:.2f}", "never" if pays is None else f"{pays / 60e9:,.0f} min"],
            widths,
        )  # fmt: skip


def slices(found: dict[str, Any], seconds: int) -> None:
    """Speed-ups of stretches, simulated and emulated."""
    print(
        f"\nThe busiest {seconds} s of each, simulated and on emulated devices: mean response, and speed-ups"
    )
    widths = (28, 23, 10, 20, 20, 23, 11, 15)
    print_row(
        ["", "change", "requests", "simulated, ms", "emulated, ms", "speed-up", "emulated", "difference"],
        widths,
    )
    for name, trace in found.items():
        base = trace["slices"].get("none")
        if base is None:
            print_row([name, f"{DISK} doesn't keep up", *[""] * 6], widths)
            continue
        for change, run in trace["slices"].items():
            if change == "none":
                continue
            if run is None or not run.emulated:
                cells = [
                    "–" if run is None else f"{base.simulated:.2f} → {run.simulated:.2f}",
                    "–",
                    "",
                    "",
                    "",
                ]
                print_row([name, change, "", *cells], widths)
                continue
            speed_up = base.simulated / run.simulated
            each = [before / after for before, after in zip(base.angles, run.angles, strict=True)]
            is_late = any(
                side.emulated["behind"] + side.emulated["late"] > MOST_LATE * side.emulated["emulated"]
                for side in (base, run)
            )
            emulated_speed_up = base.emulated["emulated"] / run.emulated["emulated"]
            print_row(
                [name, change, f"{run.emulated['requests']:,.0f}", f"{base.simulated:.2f} → {run.simulated:.2f}",
                 f"{base.emulated['emulated']:.2f} → {run.emulated['emulated']:.2f}",
                 f"{speed_up:.3f} ({min(each):.3f}–{max(each):.3f})", f"{emulated_speed_up:.3f}",
                 f"{100 * (emulated_speed_up / speed_up - 1):+.1f} %{' late' * is_late}"],
                widths,
            )  # fmt: skip


def measure(source: Source, trail: Path, seconds: int, *, emulate: bool, folder: Path) -> dict[str, Any]:
    """Both figures of a trace, and its busiest stretch."""
    cached = ask("whatif", "cache", trail, "--on", DISK, "--cache-device", SSD)
    found: dict[str, Any] = {"cached": cached, "slices": {}}
    start = busiest(trail, seconds)
    stretch = cut(trail, start, seconds, OUTPUT / f"{trail.stem}-slice.trail", folder)
    base = compare(stretch, device_file(0, folder), emulate=emulate)
    found["slices"]["none"] = base
    rearranged = OUTPUT / f"{trail.stem}-rearranged.trail"
    if source.files is not None:
        found["defrag"] = ask(
            "whatif", "defrag", trail, "--on", DISK, *source.files, "-o", rearranged, "--force"
        )
    if base is None:
        return found
    means = {}
    for size in SIZES:
        [outcome] = ask("whatif", "device", stretch, "--on", device_file(size, folder))["simulated"]
        mean = mean_ms(outcome["arrivals_recorded"])
        # a larger cache that changes nothing needs no minute of its own
        if size and mean not in means.values():
            run = compare(stretch, device_file(size, folder), emulate=emulate)
            found["slices"][f"{size // GB} GB cache"] = run
        means[size] = mean
    if source.files is not None:
        after = cut(rearranged, start, seconds, OUTPUT / f"{trail.stem}-rearranged-slice.trail", folder)
        found["slices"]["defragmented"] = compare(after, device_file(0, folder), emulate=emulate)
    return found


def main() -> int:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(
        description="SSD caches and defragmentation in virtual time and on emulated devices"
    )
    parser.add_argument(
        "--seconds", type=int, default=60, help="length of what runs on emulated devices (default 60)"
    )
    parser.add_argument(
        "--requests", type=int, default=300_000, help="of the generated trace (default 300,000)"
    )
    parser.add_argument("--only", metavar="NAME", help="traces whose name holds this")
    parser.add_argument("--virtual", action="store_true", help="nothing on emulated devices")
    arguments = parser.parse_args()
    os.chdir(ROOT)
    OUTPUT.mkdir(exist_ok=True)
    found = {}
    with tempfile.TemporaryDirectory(prefix="iotrail-figures-", dir=OUTPUT) as name:
        for source, trail in traces(arguments.requests, arguments.only, Path(name)):
            print(f"{source.name} …", flush=True)
            found[source.name] = measure(
                source, trail, arguments.seconds, emulate=not arguments.virtual, folder=Path(name)
            )
    figure_4(found)
    figure_5(found)
    slices(found, arguments.seconds)
    print(
        f"\nsimulated: iotrail whatif device at recorded times, the mean (and range) of {ANGLES} angles of the disk at the start."
        "\nemulated: iotrail replay at recorded times on iotrail emudisk, until the answer; late: this machine was, by more than 5 %.\nLarger caches than shown change "
        "nothing of these stretches; caches are empty at first."
    )
    (OUTPUT / "figures.json").write_text(json.dumps(found, default=vars, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())

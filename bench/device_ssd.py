"""Simulated SSDs beside MQSim (Tavakkol et al., FAST 2018): response times of the same requests, and how fast both simulate.

`BENCH_MQSIM` is the folder of a built MQSim: its program, and ssdconfig.xml, whose drive `iotrail_sim::ssd::Parameters` has
as default; like MQSim's, its dies of a chip don't work at the same time here, and 262,144 entries of the mapping (2 MiB) are in
memory. Neither has a cache of writes. Open loops are traces of random requests; closed loops are drawn by MQSim itself, whose requests can't be given. MQSim's quantiles come from its log of
response times, a line a completion, in whole µs.
"""

import os
import subprocess
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from rich.table import Table

from measure import ROOT, SEED, console, scratch

EXAMPLE = ROOT / "target" / "release" / "examples" / "ssd_trace"
COUNT = int(os.environ.get("BENCH_SSD_REQUESTS", "100_000"))
SECTOR = 512
# Of Parameters::default: addresses of 8 channels, 4 chips, 2 dies, 2 planes, 2,048 blocks, 256 pages of 8 KiB, 7 % spare.
CAPACITY = int(8 * 4 * 2 * 2 * 2048 * 256 * 8192 * 0.93)

LIKE_MQSIM = ("buffer=0", "queue=65535", "mapping=262144", "interleaving=off", "gc=exclusive")


@dataclass(frozen=True)
class Requests:
    """Requests in the order of their arrival: arrival in ns, offset and length in bytes."""

    arrival: np.ndarray
    pos: np.ndarray
    length: np.ndarray
    write: np.ndarray


@dataclass(frozen=True)
class Case:
    """What both are asked, and how the drive differs from the default: MQSim's names and those of `ssd_trace`."""

    name: str
    requests: Requests
    depth: int | None = None
    theirs: dict[str, str] = field(default_factory=dict)
    ours: tuple[str, ...] = ()


@dataclass(frozen=True)
class Found:
    """Response times in µs, and seconds of CPU."""

    count: int
    mean: float
    p99: float
    took: float


def random_requests(
    count: int, per_second: float, length: int, write_share: float, capacity: int = CAPACITY
) -> Requests:
    """Requests at uniformly random aligned offsets, with exponential gaps."""
    dice = np.random.default_rng(SEED)
    arrival = 1 + np.cumsum(dice.exponential(1e9 / per_second, count)).astype(np.int64)
    pos = dice.integers(0, capacity // length, count) * length
    return Requests(arrival, pos, np.full(count, length), dice.random(count) < write_share)


def read_trace(path: Path) -> Requests:
    """A trace in MQSim's format: arrival in ns, device, first sector, sectors, and 1 for a read."""
    columns = np.loadtxt(path, dtype=np.int64)
    order = np.argsort(columns[:, 0], kind="stable")
    arrival, _, sector, sectors, read = columns[order].T
    # MQSim takes the remainder where an address is beyond the drive.
    pos = sector * SECTOR % (CAPACITY // 8192 * 8192 - 1_048_576)
    return Requests(arrival, pos, sectors * SECTOR, read == 0)


def cases(folder: Path) -> list[Case]:
    """All comparisons."""
    # Small enough for a million writes to fill it five times; the thresholds of ssdconfig.xml, 0.05 and 0.005 of the blocks,
    # and MQSim's victim: the emptiest of log2(512) blocks.
    small = {
        "Flash_Channel_Count": "2",
        "Chip_No_Per_Channel": "1",
        "Block_No_Per_Plane": "512",
        "Page_No_Per_Block": "64",
        "Overprovisioning_Ratio": "0.2",
    }
    smaller = (
        "channels=2",
        "chips=1",
        "blocks=512",
        "pages=64",
        "op=0.2",
        "threshold=25",
        "hard=2",
        "choices=9",
    )
    writes = random_requests(10 * COUNT, 100, 8192, 1.0, int(2 * 4 * 512 * 64 * 8192 * 0.8))
    larger = {"CMT_Capacity": str(20 << 20)}
    halves = random_requests(COUNT, 2_000, 65_536, 0.5)
    return [
        Case("web search trace, reads", read_trace(folder / "traces/wsrch-small.trace")),
        Case("4 KiB reads, open loop", random_requests(COUNT, 50_000, 4096, 0)),
        Case("4 KiB writes, open loop", random_requests(COUNT, 20_000, 4096, 1)),
        Case("64 KiB, half writes, open loop", halves, None, larger, ("mapping=2621440",)),
        Case("the same, less mapping in memory than used", halves),
        Case("4 KiB reads, 128 deep", random_requests(COUNT, 1, 4096, 0), 128),
        Case("4 KiB writes, 128 deep", random_requests(COUNT, 1, 4096, 1), 128),
        Case("4 KiB, 70 % reads, 128 deep", random_requests(COUNT, 1, 4096, 0.3), 128),
        Case("8 KiB writes, garbage collection", writes, None, small, smaller),
    ]


def ask_own(folder: Path, case: Case) -> Found:
    """What iotrail says."""
    names = {False: "read", True: "write"}
    trace, log = folder / "requests", folder / "responses"
    requests = case.requests
    columns = zip(requests.arrival, requests.write, requests.pos, requests.length, strict=True)
    trace.write_text("".join(f"{at} {names[bool(write)]} {pos} {size}\n" for at, write, pos, size in columns))
    depth = [f"depth={case.depth}"] if case.depth else []
    options = [*LIKE_MQSIM, *depth, *case.ours, f"log={log}"]
    took = run([EXAMPLE, trace, *options], folder)
    return summarize(np.loadtxt(log) / 1e3, took)


def ask_mqsim(folder: Path, peer: Path, case: Case) -> Found:
    """What MQSim says."""
    drive = ElementTree.parse(peer / "ssdconfig.xml")
    settings = {
        "Enable_ResponseTime_Logging": "true",
        "ResponseTime_Logging_Period_Length": "1",
        **case.theirs,
    }
    for name, value in settings.items():
        found = drive.find(f".//{name}")
        assert found is not None, name
        found.text = value
    scenario = ElementTree.Element("MQSim_IO_Scenarios")
    flow = flow_of(
        folder, case, int(settings.get("Flash_Channel_Count", 8)), int(settings.get("Chip_No_Per_Channel", 4))
    )
    ElementTree.SubElement(scenario, "IO_Scenario").append(flow)
    drive.write(folder / "drive.xml")
    ElementTree.ElementTree(scenario).write(folder / "workload.xml")
    took = run([peer.resolve() / "MQSim", "-i", "drive.xml", "-w", "workload.xml"], folder)
    [log] = folder.glob("*.log")
    responses = np.loadtxt(log, skiprows=1)[:, 1]
    log.unlink()
    return summarize(responses, took)


def flow_of(folder: Path, case: Case, channels: int, chips: int) -> ElementTree.Element:
    """The requests of a case as MQSim takes them: a trace, or for a closed loop what it shall draw."""
    values = {
        "Priority_Class": "HIGH",
        "Device_Level_Data_Caching_Mode": "TURNED_OFF",
        "Channel_IDs": ",".join(map(str, range(channels))),
        "Chip_IDs": ",".join(map(str, range(chips))),
        "Die_IDs": "0,1",
        "Plane_IDs": "0,1",
        "Initial_Occupancy_Percentage": "0",
    }
    requests = case.requests
    if case.depth is None:
        kind = "IO_Flow_Parameter_Set_Trace_Based"
        columns = zip(
            requests.arrival, requests.pos // SECTOR, requests.length // SECTOR, ~requests.write, strict=True
        )
        trace = folder / "trace"
        trace.write_text("".join(f"{at} 0 {pos} {size} {int(read)}\n" for at, pos, size, read in columns))
        values |= {
            "File_Path": str(trace),
            "Percentage_To_Be_Executed": "100",
            "Relay_Count": "1",
            "Time_Unit": "NANOSECOND",
        }
    else:
        kind = "IO_Flow_Parameter_Set_Synthetic"
        sectors = str(requests.length[0] // SECTOR)
        values |= {
            "Working_Set_Percentage": "100",
            "Synthetic_Generator_Type": "QUEUE_DEPTH",
            "Read_Percentage": str(round(100 * (1 - requests.write.mean()))),
            "Address_Distribution": "RANDOM_UNIFORM",
            "Percentage_of_Hot_Region": "0",
            "Generated_Aligned_Addresses": "true",
            "Address_Alignment_Unit": sectors,
            "Request_Size_Distribution": "FIXED",
            "Average_Request_Size": sectors,
            "Variance_Request_Size": "0",
            "Seed": str(SEED),
            "Average_No_of_Reqs_in_Queue": str(case.depth),
            "Intensity": "32768",
            "Stop_Time": "0",
            "Total_Requests_To_Generate": str(len(requests.arrival)),
        }
    flow = ElementTree.Element(kind)
    for name, value in values.items():
        ElementTree.SubElement(flow, name).text = value
    return flow


def run(command: list[Path | str], folder: Path) -> float:
    """CPU time of a simulator from its start to its end, in seconds; reading its requests is part of it."""
    before = os.times()
    subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def summarize(responses: np.ndarray, took: float) -> Found:
    """Mean and 99th percentile of response times in µs."""
    return Found(len(responses), float(responses.mean()), float(np.quantile(responses, 0.99)), took)


def bench() -> None:
    """Print the table."""
    named = os.environ.get("BENCH_MQSIM")
    if not named:
        console.print("MQSim is left out: BENCH_MQSIM names the folder of a built one\n")
        return
    peer = Path(named)
    table = Table(title="Simulated SSDs beside MQSim, response times in µs", title_justify="left")
    table.add_column("requests")
    for name in ("MQSim mean", "iotrail", "off by", "MQSim p99", "iotrail", "off by", "times as fast"):
        table.add_column(name, justify="right")
    for case in cases(peer):
        with scratch() as folder:
            own, other = ask_own(folder, case), ask_mqsim(folder, peer, case)
        lost = len(case.requests.arrival) - other.count
        table.add_row(
            case.name + (f" (MQSim's log has {lost:,} fewer)" if lost > 0 else ""),
            f"{other.mean:,.1f}",
            f"{own.mean:,.1f}",
            f"{own.mean / other.mean - 1:+.1%}",
            f"{other.p99:,.0f}",
            f"{own.p99:,.0f}",
            f"{own.p99 / other.p99 - 1:+.1%}",
            f"{other.took / own.took:.1f}",
        )
    console.print(table)
    console.print()

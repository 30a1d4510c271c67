"""`iotrail whatif cache --on`: response times of the recorded requests on a device with a cache before it, by its size.

`iotrail-native simulate cached` puts the cache before the device (crates/sim/src/cached) and runs all requests in virtual
time, as Delimitrou et al. do with 0 to 4 SSDs of 8 GB
("Accurate Modeling and Generation of Storage I/O for Datacenter Workloads", §5.1, Figure 4).
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import rich.box
from rich.table import Table

from iotrail import units
from iotrail.errors import UsageError
from iotrail.terminal import Console, Text
from iotrail.whatif.cache import check_node, check_policies
from iotrail.whatif.device import requests
from iotrail.whatif.simulator import simulate
from iotrail.whatif.source import Source

# Of Figure 4: none to four SSDs of 8 GB.
SIZES = tuple(count * 8 * 10**9 for count in range(5))


@dataclass(frozen=True)
class Medium:
    """What the cache is in: another device, or memory with a latency."""

    device: str | None
    latency_ns: int | None


def run(
    source: Source,
    *,
    on: str,
    medium: Medium,
    policy: str,
    sizes: Sequence[int],
    block: int,
    write: str,
    node: str | None,
    fold: bool,
    as_json: bool,
) -> None:
    """Print mean response times by the size of the cache.

    Raises:
        UsageError: a policy that isn't known, a machine that doesn't exist.
        TrailError: there are no requests of disks, or none with a known time and place.
        SimulationError: a device file is wrong, or the cache doesn't fit its device.
    """
    check_policies([policy])
    if write not in ("back", "through", "around"):
        raise UsageError(f"--write: expected back, through or around, found {write!r}")
    if (medium.device is None) == (medium.latency_ns is None):
        raise UsageError("--on takes one of --cache-device and --cache-latency")
    trail = source.trail
    check_node(trail, node)
    query, left_out = requests(trail, node)
    arguments = ["cached", "--on", on, "--policy", policy, "--block", str(block), "--write", write]
    arguments += ["--size", ",".join(map(str, sorted({0, *(sizes or SIZES)})))]
    if medium.device is not None:
        arguments += ["--medium", medium.device]
    else:
        arguments += ["--latency", str(medium.latency_ns)]
    if fold:
        arguments.append("--fold")
    found = simulate(trail, query, arguments)
    found["left_out"] = left_out
    if as_json:
        print(json.dumps({**source.facts, **found}))
        return
    _show(found, medium, policy, write)
    source.show_note()


def mean_ns(outcome: dict[str, Any] | None) -> float | None:
    """Mean response time of reads and writes; None if there are none, or the outcome isn't known."""
    times = [each for each in outcome["times"] if each["op"] in ("read", "write")] if outcome else []
    count = sum(each["count"] for each in times)
    return sum(each["mean_ns"] * each["count"] for each in times) / count if count else None


def _show(found: dict[str, Any], medium: Medium, policy: str, write: str) -> None:
    console = Console(piped=120)
    within = found["medium"] or f"memory ({units.duration(medium.latency_ns or 0)})"
    count = found["devices"]
    each = "" if count == 1 else f", each of {count} devices with a cache of its own"
    console.print(f"{found['requests']:,} requests on {found['device']}{each}")
    console.print(f"cache: {policy}, write-{write}, in {within}")
    table = Table(box=rich.box.SIMPLE_HEAD)
    for name in ("cache", "from caches", "mean response", "speed-up", "if each waits", "speed-up"):
        table.add_column(name, justify="right")
    kinds = ("arrivals_recorded", "arrivals_after_completions")
    base = {kind: mean_ns(found["sizes"][0][kind]) for kind in kinds}
    for row in found["sizes"]:
        size = row["size_bytes"]
        cached = row["arrivals_recorded"]["cached"]
        cells = [
            units.size(size) if size else "none",
            "–" if cached is None else units.human(cached, "share"),
        ]
        for kind in kinds:
            mean, without = mean_ns(row[kind]), base[kind]
            cells += [
                "–" if mean is None else units.duration(mean),
                f"{without / mean:.2f}" if mean and without is not None else "–",
            ]
        table.add_row(*map(Text, cells))
    console.print(table)
    console.print(
        "Mean response of reads and writes at their recorded times, and if each waits for the last completion before it as in "
        "the record. Speed-up: without a cache by with it. From caches: served by this one, or by the device's own.",
        style="dim",
    )
    if found["sizes"][0]["arrivals_after_completions"] is None:
        console.print("The record has no response times: what waits for what isn't known.")
    if found["left_out"]:
        console.print(f"left out: {found['left_out']:,} requests without a known place")

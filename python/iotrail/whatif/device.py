"""`iotrail whatif device`: the recorded requests of disks on other devices.

`iotrail-native simulate device` has the devices (crates/sim) and runs all requests in virtual time.
"""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import rich.box
from rich.table import Table

from iotrail import units
from iotrail.device.observed import Ints
from iotrail.errors import TrailError
from iotrail.terminal import Console, Text
from iotrail.trail import Trail
from iotrail.whatif.simulator import simulate
from iotrail.whatif.source import Source

# What the simulator gets: `op` is 0 read, 1 write, 2 flush, 3 discard.
# As block_device counts them: no kernel makes requests of 4 GiB.
_PLACED = "r.pos IS NOT NULL AND (r.op = 2 OR r.length BETWEEN 1 AND 4294967295)"
# Share of the time of flushes without a request from which on it is said. Software takes some.
_UNEXPLAINED = 0.4


def requests(trail: Trail, node: str | None = None) -> tuple[str, int]:
    """A query for the requests of disks, of all machines or of one, and how many of them have no known place.

    Raises:
        TrailError: there are none, or none with a known time and place.
    """
    chosen = "" if node is None else "r.node = '" + node.replace("'", "''") + "'"
    where = f"WHERE {chosen}" if chosen else ""
    [[count, placed, instants, timed]] = trail.query(
        f"SELECT COUNT(*), COUNT(*) FILTER (WHERE {_PLACED}), COUNT(DISTINCT r.ts), "
        # devices of disk_op alone have no row: a program or an emulation has noted their times
        "COUNT(*) FILTER (WHERE d.device IS NULL OR d.tick_ns IS NOT NULL) "
        f"FROM device_request AS r LEFT JOIN block_device AS d ON d.device = r.device {where}"
    ).fetchall()
    if not placed:
        raise TrailError(
            f"{trail.path}: no requests of disks with a known place",
            f"{count:,} have none, no length, or one of 4 GiB and more, which no kernel makes"
            if count
            else "iotrail record --kernel records them (as root), and iotrail import reads block traces",
        )
    hint = "a trace without times says nothing of how requests follow each other"
    if not timed:
        raise TrailError(f"{trail.path}: the trace has no times", hint)
    if instants == 1 and count > 1:
        raise TrailError(f"{trail.path}: all {count:,} requests have the same time", hint)
    query = (
        "SELECT r.ts, r.dur, r.device, CAST(r.op AS BIGINT) AS op, r.pos, r.length, COALESCE(r.flags, 0) AS flags "
        f"FROM device_request AS r WHERE {_PLACED}{f' AND {chosen}' if chosen else ''} ORDER BY r.ts, r.trace_row, r.device, r.pos"
    )
    return query, count - placed


def flushed(trail: Trail) -> tuple[int, int]:
    """How long calls that flush files took (ns), and for how much of that any request of a disk of their machine was in the record.

    Calls at the same time count once. Requests that a file system's journal queues are its own threads': a recording of a
    program's threads lacks them.
    """
    calls = "FROM op WHERE kind = 'flush' AND dur IS NOT NULL"
    requests = "FROM disk_op WHERE kind = 'kernel' AND dur IS NOT NULL"
    flushing = covered = 0
    for [node] in trail.query(f"SELECT DISTINCT node {calls}").fetchall():
        called, busy = (_union(trail, query, node) for query in (calls, requests))
        # of a machine whose kernel said nothing nothing is known
        if busy.size:
            flushing += int((called[1] - called[0]).sum())
            before = np.concatenate(([0], np.cumsum(busy[1] - busy[0])))
            # how long requests were there until a time: those that began before, but for what the last has left
            at = np.searchsorted(busy[0], called, side="right")
            until = before[at] - np.where(at > 0, np.maximum(busy[1][at - 1] - called, 0), 0)
            covered += int((until[1] - until[0]).sum())
    return flushing, covered


def _union(trail: Trail, rows: str, node: str) -> Ints:
    """Begins and ends of the times in which any of the rows of a machine was there, as two rows."""
    chosen = f"SELECT ts, ts + dur AS stop {rows} AND node = $node ORDER BY ts"
    found = trail.query(chosen, {"node": node}).to_arrow_table()
    ts, stop = (found[name].to_numpy().astype(np.int64) for name in ("ts", "stop"))
    if not len(ts):
        return np.empty((2, 0), np.int64)
    latest = np.maximum.accumulate(stop)
    first = np.concatenate(([True], ts[1:] > latest[:-1]))
    return np.stack((ts[first], latest[np.concatenate((first[1:], [True]))]))


def run(source: Source, *, on: Sequence[str], fold: bool, as_json: bool) -> None:
    """Print response times on other devices beside the recorded ones.

    Raises:
        TrailError: there are no requests of disks, or none with a known time and place.
        SimulationError: a device file is wrong, or requests lie beyond the device.
    """
    trail = source.trail
    query, left_out = requests(trail)
    arguments = ["device", *(word for name in on for word in ("--on", name)), *(["--fold"] if fold else [])]
    found = simulate(trail, query, arguments)
    found["left_out"] = left_out
    found["flushing_ns"], found["flushing_with_requests_ns"] = flushed(trail)
    if as_json:
        print(json.dumps({**source.facts, **found}))
        return
    _show(found)
    source.show_note()


def _show(found: dict[str, Any]) -> None:
    console = Console(piped=120)
    devices = "1 device" if found["devices"] == 1 else f"{found['devices']} devices"
    console.print(f"{found['requests']:,} requests of {devices}")
    table = Table(box=rich.box.SIMPLE_HEAD)
    table.add_column("")
    table.add_column("elapsed", justify="right")
    ops = [times["op"] for times in found["simulated"][0]["arrivals_recorded"]["times"]]
    for op in ops:
        table.add_column(f"{op} mean", justify="right")
        table.add_column("p99", justify="right")
    has_energy = any(each["arrivals_recorded"]["energy_j"] is not None for each in found["simulated"])
    if has_energy:
        table.add_column("energy", justify="right")

    def row(name: str, elapsed: str, outcome: dict[str, Any]) -> None:
        by_op = {times["op"]: times for times in outcome["times"]}
        cells = [name, elapsed]
        for op in ops:
            times = by_op.get(op)
            cells += (
                [units.duration(times["mean_ns"]), units.duration(times["p99_ns"])] if times else ["–", "–"]
            )
        if has_energy:
            energy = outcome["energy_j"]
            cells.append("–" if energy is None else f"{energy:.3g} J")
        table.add_row(*map(Text, cells))

    recorded = found["recorded"]
    # without any completion nobody knows what waited for what
    has_ends = recorded["elapsed_ns"] is not None
    row("recorded", units.duration(recorded["elapsed_ns"]) if has_ends else "–", recorded)
    for each in found["simulated"]:
        waits, open_loop = each["arrivals_after_completions"], each["arrivals_recorded"]
        if has_ends:
            low, high = sorted((waits["elapsed_ns"], open_loop["elapsed_ns"]))
            row(each["device"], f"{units.duration(low)} – {units.duration(high)}", waits)
        else:
            row(each["device"], units.duration(open_loop["elapsed_ns"]), open_loop)
    console.print(table)
    if has_ends:
        console.print(
            "Elapsed: if nobody waits for requests, and if each waits for the last completion before it as in the record, "
            "for which the response times are.",
            style="dim",
        )
    else:
        console.print(
            "The record has no response times: what waits for what isn't known. Here nobody waits for requests."
        )
    if has_ends and found["without_end"]:
        console.print(
            f"{found['without_end']:,} requests never completed in the record: nobody waits for them"
        )
    flushing, explained = found["flushing_ns"], found["flushing_with_requests_ns"]
    if flushing - explained > _UNEXPLAINED * flushing:
        console.print(
            f"Calls that flush files took {units.duration(flushing)}, of which the record has requests of disks for "
            f"{units.duration(explained)}. Those of a file system's journal are the kernel's own: record --kernel=disk --system has "
            "them, and without them the program seems faster than it would be."
        )
    if found["left_out"]:
        console.print(f"left out: {found['left_out']:,} requests without a known place")

"""`iotrail whatif defrag`: response times before and after the blocks of each file are put one after the other.

`iotrail-native simulate defrag` rearranges (crates/sim/src/layout.rs) and runs all requests in virtual time, as Delimitrou et
al. do ("Accurate Modeling and Generation of Storage I/O for Datacenter Workloads", §5.2, Figure 5). Which file a part of a
device belongs to is in the trail (table `extent`), or in the maps of files that are still there.
"""

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import rich.box
from rich.table import Table

from iotrail import units
from iotrail.errors import TrailError, UsageError
from iotrail.terminal import Console, Text
from iotrail.trail import Trail
from iotrail.whatif.cached import mean_ns
from iotrail.whatif.device import requests
from iotrail.whatif.fiemap import disk_of, extents
from iotrail.whatif.simulator import simulate

KINDS = ("arrivals_recorded", "arrivals_after_completions")
# Changes of the mean response below this share are called none: so much models of SSDs are off others' (docs/performance.md).
NOTHING = 0.02
_SHOWN = 5
_COLUMNS = ("ts", "device", "pos", "length", "file", "file_pos")


@dataclass(frozen=True)
class Places:
    """Where files are on devices."""

    # Of _COLUMNS, all BIGINT, in the order of ts.
    rows: pa.Table
    # Whether the files have no other parts.
    complete: bool
    # What it rests on.
    basis: str


def run(
    trail: Trail,
    *,
    on: str,
    fiemap: bool,
    first_use: bool,
    output: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Print response times before and after, what rearranging takes, and when it has paid.

    Raises:
        UsageError: options that don't go together.
        TrailError: there are no requests of disks, or nobody knows which files they are for.
        SimulationError: a device file is wrong, or requests or files lie beyond the device.
    """
    if fiemap and first_use:
        raise UsageError("--fiemap can't be combined with --by-first-use: a map has the offsets in the files")
    query, left_out = requests(trail)
    places = _maps(trail) if fiemap else _recorded(trail, first_use)
    with tempfile.TemporaryDirectory(prefix="iotrail-") as folder:
        known, moved = Path(folder, "extents.arrow"), Path(folder, "rearranged.arrow")
        with pa.OSFile(str(known), "wb") as sink, pa.ipc.new_stream(sink, places.rows.schema) as stream:
            stream.write_table(places.rows)
        arguments = ["defrag", "--on", on, "--extents", str(known)]
        if places.complete:
            arguments.append("--complete")
        if output is not None:
            arguments += ["--rearranged", str(moved)]
        found = simulate(trail, query, arguments)
        if output is not None:
            from iotrail.whatif.rearranged import write

            write(trail, moved, output, force=force)
    if found["in_files"] == 0:
        raise TrailError(
            f"{trail.path}: none of {found['reads_and_writes']:,} reads and writes is in a known file",
            f"known are {units.counted(len(found['files']), 'file')} ({places.basis})",
        )
    [[without_end]] = trail.query("SELECT COUNT(*) - COUNT(dur) FROM device_request").fetchall()
    found |= {"basis": places.basis, "left_out": left_out, "without_end": without_end}
    found |= gains(found)
    names = {
        row["file"]: row["path"]
        for row in trail.rows_of("SELECT file, MIN(path) AS path FROM file GROUP BY file")
    }
    for each in found["files"]:
        each["path"] = names.get(each["file"])
    if as_json:
        print(json.dumps(found))
        return
    _show(found)


def _recorded(trail: Trail, first_use: bool) -> Places:
    """What the trail says of files on devices."""
    query = (
        "SELECT e.ts, d.device, e.pos, e.length, e.file, e.file_pos FROM extent AS e "
        "INNER JOIN block_device AS d ON d.node = e.node AND d.file = e.device ORDER BY e.ts, e.pos"
    )
    rows = trail.query(query).to_arrow_table().cast(pa.schema([(name, pa.int64()) for name in _COLUMNS]))
    if rows.num_rows == 0:
        raise TrailError(
            f"{trail.path}: its requests don't say which files they are for",
            "a block trace needs a column with the file's inode and one with the offset in it (iotrail import csv --map "
            "…,inode=COLUMN,file_pos=COLUMN); for a recording of this machine --fiemap asks the kernel where its files are",
        )
    unknown = rows["file_pos"].null_count
    if unknown and not first_use:
        raise TrailError(
            f"{trail.path}: {unknown:,} of {rows.num_rows:,} requests of known files don't say at which offset in the file "
            "they are: in which order its blocks belong isn't known",
            "--by-first-use takes the order in which blocks were first used, which is right for files written from front to end",
        )
    basis = (
        "inodes of requests, blocks in the order of their first use"
        if unknown
        else "inodes and offsets of requests"
    )
    return Places(rows, complete=False, basis=basis)


def _maps(trail: Trail) -> Places:
    """Where the recorded files are now, by the kernel of this machine.

    Raises:
        TrailError: the trail is of another machine, or nothing of it is left.
    """
    host = Path("/proc/sys/kernel/hostname").read_text().strip()
    disks = {
        (row["node"], row["dev"]): row["device"]
        for row in trail.rows_of("SELECT node, dev, device FROM block_device WHERE file IS NULL")
    }
    here = {node for node, _ in disks if node.rpartition("-")[0] == host}
    if not here:
        raise TrailError(
            f"{trail.path}: --fiemap needs requests that the kernel of this machine ({host}) recorded; "
            f"found {', '.join(sorted({node for node, _ in disks})) or 'none'}",
            "record with --kernel=disk as root, and ask on the same machine",
        )
    rows: list[tuple[int, ...]] = []
    seen: set[tuple[int, int]] = set()
    gone = elsewhere = 0
    for row in trail.rows_of(
        "SELECT f.node, f.file, f.path FROM file AS f SEMI JOIN file_op AS o ON o.node = f.node AND o.file = f.file "
        "WHERE f.path LIKE '/%'"
    ):
        path = Path(row["path"])
        if row["node"] not in here:
            continue
        try:
            if not path.is_file():
                gone += not path.exists()
                continue
            status = path.stat()
            if (status.st_dev, status.st_ino) in seen:
                # another name of one that is known
                continue
            seen.add((status.st_dev, status.st_ino))
            disk = disk_of(status.st_dev)
            device = None if disk is None else disks.get((row["node"], disk[0]))
            if disk is None or device is None:
                elsewhere += 1
                continue
            rows += [
                (0, device, disk[1] + each.pos, each.length, row["file"], each.file_pos)
                for each in extents(path)
            ]
        except OSError:
            gone += 1
    if not rows:
        raise TrailError(
            f"{trail.path}: no recorded file can be found on a recorded disk: {gone:,} are gone or have no map, "
            f"{elsewhere:,} are elsewhere",
            "--fiemap needs the files as they were; the recording has to have them (record without --kernel alone)",
        )
    columns = list(zip(*rows, strict=True))
    table = pa.table(
        {name: pa.array(column, pa.int64()) for name, column in zip(_COLUMNS, columns, strict=True)}
    )
    return Places(table, complete=True, basis="the kernel's maps of the files as they are now")


def gains(found: dict[str, Any]) -> dict[str, Any]:
    """Speed-ups and when rearranging has paid, by how requests arrive; null where it never does.

    If no request has an end, nobody knows who waits for which: both are null then. At recorded times, what is saved is the time that all requests wait; if each waits, the time that all takes. Either per
    time of the trace.
    """
    speed_ups: dict[str, float | None] = {}
    pays: dict[str, int | None] = {}
    cost = found["rearranging"]["elapsed_ns"]
    for kind in KINDS:
        before, after = found["before"][kind], found["after"][kind]
        speed_ups[kind] = pays[kind] = None
        if kind == "arrivals_after_completions" and found["without_end"] >= found["requests"]:
            continue
        speed_ups[kind] = speed_up(before, after)
        if kind == "arrivals_recorded":
            saved, span = _waited_ns(before) - _waited_ns(after), found["span_ns"]
        else:
            saved, span = before["elapsed_ns"] - after["elapsed_ns"], before["elapsed_ns"]
        is_gain = saved > 0 and span > 0 and (speed_ups[kind] or 1) >= 1 + NOTHING
        pays[kind] = round(cost / (saved / span)) if is_gain else None
    return {"speed_up": speed_ups, "pays_after_ns": pays}


def speed_up(before: dict[str, Any], after: dict[str, Any], op: str | None = None) -> float | None:
    """Mean response time of reads and writes, or of one of them, before by after; None without any."""
    mean_before, mean_after = (_mean_ns(outcome, op) for outcome in (before, after))
    return mean_before / mean_after if mean_before is not None and mean_after else None


def _mean_ns(outcome: dict[str, Any], op: str | None) -> float | None:
    return mean_ns({"times": [each for each in outcome["times"] if op in (None, each["op"])]})


def _waited_ns(outcome: dict[str, Any]) -> float:
    return sum((each["mean_ns"] * each["count"] for each in outcome["times"]), 0.0)


def _show(found: dict[str, Any]) -> None:
    console = Console(piped=120)
    files = found["files"]
    fragments = sum(each["fragments"] for each in files)
    scattered = sorted((each for each in files if each["fragments"] > 1), key=lambda each: -each["fragments"])
    console.print(
        f"{found['requests']:,} requests on {found['device']}; {found['in_files']:,} of {found['reads_and_writes']:,} "
        f"reads and writes are in {units.counted(len(files), 'known file')} ({found['basis']})"
    )
    if scattered:
        console.print(
            f"{len(scattered):,} of them fragmented; {fragments / len(files):.1f} fragments a file, at most "
            f"{scattered[0]['fragments']:,}:"
        )
        for each in scattered[:_SHOWN]:
            console.print(
                f"  {each['fragments']:,} in {units.size(each['bytes'])}: {each['path']}", markup=False
            )
    else:
        console.print("none of them is fragmented")
    console.print(_table(found))
    console.print(
        "Speed-up: mean response time of reads and writes before by after, at their recorded times, and if each waits for the "
        "last completion before it as in the record. Sequential: begins where one of the 16 before it ended.",
        style="dim",
    )
    console.print(verdict(found))
    if found["without_end"]:
        console.print(f"{found['without_end']:,} requests have no known response time: nobody waits for them")
    if found["left_out"]:
        console.print(f"left out: {found['left_out']:,} requests without a known place")


def _table(found: dict[str, Any]) -> Table:
    table = Table(box=rich.box.SIMPLE_HEAD)
    table.add_column("")
    for name in ("recorded", "rearranged", "speed-up"):
        table.add_column(name, justify="right")
    before, after = found["before"], found["after"]
    shares = [each["sequential"] / max(each["requests"], 1) for each in (before, after)]
    table.add_row("sequential", *(Text(units.human(share, "share")) for share in shares), "")
    for kind, name in zip(KINDS, ("mean response", "if each waits"), strict=True):
        if found["speed_up"][kind] is None:
            continue
        for op in (None, "read", "write"):
            change = speed_up(before[kind], after[kind], op)
            if change is None or (op is not None and speed_up(before[kind], after[kind]) == change):
                continue
            means = [_mean_ns(side[kind], op) or 0 for side in (before, after)]
            label = name if op is None else f"  {op}s"
            table.add_row(label, *(Text(units.duration(mean)) for mean in means), f"{change:.2f}")
    return table


def verdict(found: dict[str, Any]) -> str:
    """Whether and when rearranging pays, in sentences."""
    work = found["rearranging"]
    if work["bytes"] == 0:
        return "There is nothing to rearrange, and nothing to gain."
    cost = (
        f"Rearranging moves {units.size(work['bytes'])} in {work['reads']:,} reads and {work['writes']:,} writes, "
        f"which takes the device {units.duration(work['elapsed_ns'])} or more."
    )
    ways = dict(zip(KINDS, ("at recorded times", "if each waits"), strict=True))
    known = {kind: value for kind, value in found["speed_up"].items() if value is not None}
    if all(abs(value - 1) < NOTHING for value in known.values()):
        return (
            f"{cost} It brings nothing on this device: mean response times change by less than {NOTHING:.0%}."
        )
    sentences = [cost]
    for kind, way in ways.items():
        if kind not in known:
            continue
        pays = found["pays_after_ns"][kind]
        if pays is not None:
            sentences.append(f"It has paid after {units.duration(pays)} of such requests {way}.")
        else:
            sentences.append(f"It never pays {way}.")
    return " ".join(sentences)

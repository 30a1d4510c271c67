"""`iotrail summary`: one page on the terminal that says where a run's time went.

`collect` asks the modules; `show` prints what they say, or the same as JSON. Every number is that of
`iotrail sql`: nothing is computed here but shares of a bar's width.
"""

import json as json_text
import os
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table

from iotrail.diagnosis import collect_cards, describe_gain
from iotrail.terminal import Console, Text
from iotrail.trail import Trail
from iotrail.units import counted, decimal, duration, shell_line, size
from iotrail.waits import waited_object

# Rows of the tables of files and processes the page holds, and cards of the diagnosis; --json holds all.
MOST_ROWS = 10
MOST_CARDS = 5

STATES = (
    ("on a CPU", "compute_ns", "green", "░"),
    ("I/O", "io_ns", "red", "█"),
    ("waiting", "sync_ns", "yellow", "▒"),
    ("page faults", "fault_ns", "magenta", "▓"),
    ("for a CPU", "queued_ns", "cyan", "▚"),
    ("idle", "idle_ns", "blue", "·"),
    ("not known", "unknown_ns", "dim", "?"),
)
# States that a trail may have nothing of: their column is left out then.
RARE = ("fault_ns", "queued_ns", "idle_ns", "unknown_ns")
SEVERITY = {"high": "bold red", "medium": "yellow", "low": "cyan"}


def collect(trail: Trail) -> dict[str, Any]:
    """Everything the page shows. Times are ns, sizes bytes, as in the modules."""
    return {
        "trail": str(trail.path),
        "snapshot": trail.snapshot,
        "recording": {r["name"]: r["value"] for r in trail.rows_of("SELECT name, value FROM recording")},
        "overview": trail.rows_of("SELECT * FROM overview")[0],
        # An imported trace may know no duration at all.
        "timed": trail.rows_of(
            "SELECT COUNT(*) = 0 OR COUNT(dur) > 0 OR MAX(w.waits) > 0 AS timed FROM file_op, (SELECT COUNT(dur) AS waits FROM sync_op) AS w"
        )[0]["timed"],
        "programs": trail.rows_of("""
            SELECT process_name, COUNT(*) AS processes, CAST(SUM(threads) AS BIGINT) AS threads,
                CAST(SUM(thread_ns) AS BIGINT) AS thread_ns, CAST(SUM(compute_ns) AS BIGINT) AS compute_ns,
                CAST(SUM(io_ns) AS BIGINT) AS io_ns, CAST(SUM(sync_ns) AS BIGINT) AS sync_ns,
                CAST(SUM(fault_ns) AS BIGINT) AS fault_ns, CAST(SUM(queued_ns) AS BIGINT) AS queued_ns,
                CAST(SUM(idle_ns) AS BIGINT) AS idle_ns, CAST(SUM(unknown_ns) AS BIGINT) AS unknown_ns,
                CAST(SUM(n) AS BIGINT) AS n, CAST(SUM(bytes_read) AS BIGINT) AS bytes_read,
                CAST(SUM(bytes_written) AS BIGINT) AS bytes_written
            FROM process_summary GROUP BY process_name ORDER BY io_ns DESC, n DESC, process_name"""),
        "calls": trail.rows_of(
            "SELECT * FROM call_summary ORDER BY kind = 'wait', time_ns DESC NULLS LAST, n DESC, call"
        ),
        "waits": trail.rows_of("""
            SELECT process_name, waits_for, call, object, object_name, peer, peer_name,
                COUNT(DISTINCT thread) AS threads, CAST(SUM(n) AS BIGINT) AS n,
                CAST(SUM(time_ns) AS BIGINT) AS time_ns, MAX(max_ns) AS max_ns
            FROM waited_for GROUP BY process_name, waits_for, call, object, object_name, peer, peer_name
            ORDER BY time_ns DESC, process_name, call, object LIMIT 100"""),
        "files": trail.rows_of(
            "SELECT * FROM file_summary ORDER BY time_ns DESC NULLS LAST, n DESC, path LIMIT 100"
        ),
        "block": _collect_block(trail),
        "unseen": trail.rows_of("SELECT * FROM unseen_summary ORDER BY amount DESC, kind"),
        "diagnosis": collect_cards(trail),
    }


def _collect_block(trail: Trail) -> dict[str, Any] | None:
    """Of a block trace its devices and what is asked first of one; None if the trail has none."""
    devices = trail.rows_of("SELECT * FROM block_device ORDER BY device LIMIT 100")
    if not devices:
        return None
    return {
        "device_count": trail.rows_of("SELECT COUNT(*) AS n FROM block_device")[0]["n"],
        "devices": devices,
        "kinds": trail.rows_of("SELECT * FROM block_summary ORDER BY kind"),
        "sizes": trail.rows_of("""
            SELECT kind, size, CAST(SUM(n) AS BIGINT) AS n, CAST(SUM(bytes) AS BIGINT) AS bytes
            FROM block_size GROUP BY kind, size ORDER BY kind, size"""),
        "page_bytes": trail.rows_of("SELECT page_bytes FROM params")[0]["page_bytes"],
    }


def show(path: str | os.PathLike[str], json: bool = False) -> None:
    """Print the summary of a trail."""
    trail = Trail(path)
    data = collect(trail)
    if json:
        print(json_text.dumps(data, indent=1, ensure_ascii=False))
        return
    console = Console(piped=120)
    for part in _page(data, console.width):
        console.print(part)


def _page(data: dict[str, Any], width: int) -> list[RenderableType]:
    overview = data["overview"]
    parts: list[RenderableType] = [_head(data, width)]
    if not overview["ops"] and not overview["waits"]:
        parts.append(Text("\nNo call was recorded.", style="bold"))
        if data["block"]:
            parts.append(_section("Requests to devices", _block(data["block"])))
    else:
        if not data["timed"]:
            text = "How long operations took is not known: the trace has no response times."
            parts.append(_section("Time", Text(text, style="yellow")))
        elif overview["thread_ns"]:
            parts.append(_section("Where the threads' time went", _split(data, width)))
        if data["block"]:
            parts.append(_section("Requests to devices", _block(data["block"])))
        if data["diagnosis"]:
            parts.append(_section("Diagnosis", _diagnosis(data["diagnosis"])))
        parts.append(_section("Calls", _calls(data["calls"], width)))
        if data["waits"]:
            parts.append(_section("Waited for, idle threads too", _waits(data["waits"], width)))
        if data["files"]:
            parts.append(_section("Files by time", _files(data["files"], overview["files"], width)))
    if data["unseen"]:
        parts.append(_section("Not seen", _unseen(data["unseen"])))
    trail = data["trail"]
    parts.append(Text(f"\niotrail report {trail}\niotrail sql {trail}", style="dim"))
    return parts


def _section(title: str, body: RenderableType) -> RenderableType:
    return Group(Text(f"\n{title}", style="bold underline"), Padding(body, (0, 0, 0, 2)))


def _head(data: dict[str, Any], width: int) -> RenderableType:
    o = data["overview"]
    command = _command(data["recording"].get("command"), width)
    lines = Text()
    lines.append(Path(data["trail"]).name, style="bold")
    if command:
        lines.append(f"\n{command}")
    lines.append(
        f"\n{duration(o['duration_ns'])}  ·  {counted(o['processes'], 'process', 'processes')}"
        f"  ·  {counted(o['threads'], 'thread')}  ·  {counted(o['files'], 'file')}"
    )
    if o["nodes"] > 1:
        lines.append(f"  ·  {counted(o['nodes'], 'machine')}")
    if o["ranks"]:
        lines.append(f"  ·  {counted(o['ranks'], 'MPI rank')}")
    rate = f" ({decimal(o['iops'])}/s)" if o["iops"] else ""
    lines.append(f"\n{counted(o['ops'], 'operation')} on files{rate}: ")
    lines.append(
        f"{counted(o['reads'], 'read')} of {size(o['bytes_read'])}, {counted(o['writes'], 'write')} of "
        f"{size(o['bytes_written'])}, {counted(o['flushes'], 'flush', 'flushes')}, {o['metas']:,} others"
    )
    if o["errors"]:
        lines.append(f"; {o['errors']:,} failed")
    if o["unfinished"]:
        lines.append(f"; {o['unfinished']:,} never returned", style="yellow")
    return lines


def _command(recorded: str | None, width: int) -> str:
    line = " ".join(shell_line(recorded or "").split())
    return line if len(line) <= width else f"{line[: width - 1]}…"


def _split(data: dict[str, Any], width: int) -> RenderableType:
    o = data["overview"]
    rows = [("all", o["threads"], o)]
    if len(data["programs"]) > 1:
        rows += [(p["process_name"], p["threads"], p) for p in data["programs"][:MOST_ROWS] if p["thread_ns"]]
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column("program", overflow="ellipsis", no_wrap=True, max_width=24)
    table.add_column("threads", justify="right")
    # A state with less than half a percent of the time would read 0 %.
    states = [s for s in STATES if s[1] not in RARE or (o[s[1]] or 0) >= 0.005 * o["thread_ns"]]
    for name, _, style, _ in states:
        table.add_column(Text(name, style=style), justify="right", no_wrap=True)
    table.add_column("")
    bar = max(10, min(40, width - 32 - 14 * len(states)))
    # An import without CPU time and without any wait: waits were not traced.
    no_waits = o["compute_ns"] is None and not o["sync_ns"] and not o["idle_ns"]
    for name, threads, row in rows:
        shares = [(row[column] or 0) / row["thread_ns"] for _, column, _, _ in STATES]
        cells = [
            "not known"
            if row[column] is None or (no_waits and column == "sync_ns")
            else f"{duration(row[column])} {row[column] / row['thread_ns'] * 100:3.0f}%"
            for _, column, _, _ in states
        ]
        table.add_row(name, f"{threads:,}", *cells, _bar(shares, bar))
    return table


def _bar(shares: list[float], width: int) -> Text:
    """A bar of the states in their colours and, for those without colours, their own character."""
    bar = Text()
    ends = [round(sum(shares[: i + 1]) * width) for i in range(len(shares))]
    start = 0
    for end, (_, _, style, character) in zip(ends, STATES, strict=True):
        bar.append(character * (end - start), style=style)
        start = end
    return bar


def _diagnosis(cards: list[dict[str, Any]]) -> RenderableType:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for card in cards[:MOST_CARDS]:
        style = SEVERITY[card["severity"]]
        table.add_row(Text(card["severity"], style=style), Text(card["title"], style="bold"))
        gain = describe_gain(card)
        table.add_row(
            "", Text(card["evidence"] + (f" Mending it {gain}." if gain.startswith("saves") else ""))
        )
        if card["location"]:
            table.add_row("", Text(f"Where: {card['location']}"))
        table.add_row("", Text(f"Do: {card['advice']}", style="dim"))
    if len(cards) > MOST_CARDS:
        table.add_row("", Text(f"and {len(cards) - MOST_CARDS} more: iotrail report shows all", style="dim"))
    return table


def _block(block: dict[str, Any]) -> RenderableType:
    kinds = block["kinds"]
    # of a trace of reads alone both are the same
    shown = [k for k in kinds if k["kind"] != "all" or len(kinds) > 2]
    names = {"all": "both", "read": "reads", "write": "writes"}
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    devices = block["devices"]
    table.add_column(counted(block["device_count"], "device"), no_wrap=True)
    for kind in shown:
        table.add_column(names[kind["kind"]], justify="right", no_wrap=True)

    def most(kind: dict[str, Any]) -> str:
        """The most frequent size, and its share."""
        name = size(kind["common_bytes"]) if kind["common_bytes"] else "no length"
        return f"{name} {kind['common_n'] / kind['n'] * 100:.0f}%"

    # within a tick of the trace's clock a gap is 0: shorter than the tick is all that is known
    tick = max((device["tick_ns"] or 0 for device in devices), default=0)

    def gap(ns: int | None) -> Text:
        return Text(f"< {duration(tick)}") if ns == 0 and tick > 1 else _time(ns)

    def working_set(kind: dict[str, Any]) -> Text:
        if kind["working_set_bytes"] is None:
            return Text("–", style="dim")
        return Text(f"{'' if kind['followed'] == 1 else 'about '}{size(kind['working_set_bytes'])}")

    rows: list[tuple[str, list[str | Text]]] = [
        ("requests", [f"{k['n']:,}" for k in shown]),
        ("bytes", [size(k["bytes"]) for k in shown]),
        ("mean size", [size(round(k["bytes"] / k["n"])) for k in shown]),
        ("most frequent size", [most(k) for k in shown]),
        (
            "sequential",
            [
                Text("–", style="dim")
                if k["sequential_share"] is None
                else f"{k['sequential_share'] * 100:.1f}%"
                for k in shown
            ],
        ),
        ("time between, p50", [gap(k["gap_p50_ns"]) for k in shown]),
        ("time between, p99", [gap(k["gap_p99_ns"]) for k in shown]),
        (f"working set, {size(block['page_bytes'])} blocks", [working_set(k) for k in shown]),
    ]
    for name, cells in rows:
        table.add_row(Text(name, style="dim"), *cells)
    return table


def _calls(calls: list[dict[str, Any]], width: int) -> RenderableType:
    wide = width >= 100
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column("call", no_wrap=True, overflow="ellipsis")
    if wide:
        table.add_column("kind")
    for name in ("count", "errors", "time", "p50", "p99", "max", "bytes"):
        table.add_column(name, justify="right", no_wrap=True)
    for call in calls:
        kind = [Text(call["kind"], style="dim")] if wide else []
        count = f"{call['n']:,}" if wide or call["n"] < 1_000_000 else decimal(call["n"])
        table.add_row(
            call["call"],
            *kind,
            count,
            Text(f"{call['errors']:,}" if call["errors"] else "–", style="" if call["errors"] else "dim"),
            _time(call["time_ns"]),
            *(_time(call[column]) for column in ("p50_ns", "p99_ns", "max_ns")),
            size(call["bytes"]) if call["bytes"] else Text("–", style="dim"),
        )
    return table


def _waits(waits: list[dict[str, Any]], width: int) -> RenderableType:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for name, room in (("program", 84), ("waited for", 68), ("call", 84)):
        table.add_column(name, no_wrap=True, overflow="ellipsis", max_width=max(16, width - room))
    for name in ("time", "count", "threads", "longest"):
        table.add_column(name, justify="right", no_wrap=True)
    for wait in waits[:MOST_ROWS]:
        table.add_row(
            wait["process_name"],
            waited_object(wait),
            wait["call"],
            duration(wait["time_ns"]),
            f"{wait['n']:,}",
            f"{wait['threads']:,}",
            duration(wait["max_ns"]),
        )
    return table


def _files(files: list[dict[str, Any]], all_files: int, width: int) -> RenderableType:
    wide = width >= 100
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column("path", no_wrap=True)
    for name in ("time", "ops", "read", "written") + (("flush time", "processes") if wide else ()):
        table.add_column(name, justify="right", no_wrap=True)
    room = width - (72 if wide else 46)
    for file in files[:MOST_ROWS]:
        more = [_time(file["flush_ns"] or None), Text(f"{file['processes']:,}")] if wide else []
        table.add_row(
            _short(file["path"], room),
            _time(file["time_ns"]),
            f"{file['n']:,}" if wide else decimal(file["n"]),
            size(file["bytes_read"]) if file["bytes_read"] else Text("–", style="dim"),
            size(file["bytes_written"]) if file["bytes_written"] else Text("–", style="dim"),
            *more,
        )
    if all_files > MOST_ROWS:
        table.add_row(Text(f"… of {all_files:,} files", style="dim"))
    return table


def _unseen(unseen: list[dict[str, Any]]) -> RenderableType:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="fold")
    for row in unseen:
        amount = size(row["amount"]) if row["kind"] == "mapped_file" else f"{row['amount']:,}"
        what = row["detail"] or row["example_process"] or ""
        table.add_row(Text(row["kind"].replace("_", " "), style="yellow"), amount, Text(what))
    return table


def _time(ns: int | None) -> Text:
    return Text("–", style="dim") if ns is None else Text(duration(ns))


def _short(path: str, room: int) -> str:
    """The path, its middle left out where it is too long: the folder's begin and the name tell most."""
    room = max(room, 20)
    if len(path) <= room:
        return path
    head = room // 3
    return f"{path[:head]}…{path[len(path) - (room - head - 1) :]}"

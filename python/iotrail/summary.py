"""`iotrail summary`: one page on the terminal that says where a run's time went.

`collect` asks the modules; `show` prints what they say, or the same as JSON. Every number is that of
`iotrail sql`: nothing is computed here but shares of a bar's width.
"""

import json as json_text
import os
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from iotrail.trail import Trail
from iotrail.units import counted, decimal, duration, shell_line, size

# Rows of the tables of files and processes, findings and threads the page holds; --json holds all.
MOST_ROWS = 10

STATES = (
    ("compute", "compute_ns", "green"),
    ("I/O", "io_ns", "red"),
    ("waiting", "sync_ns", "yellow"),
)
SEVERITY = {"high": "bold red", "medium": "yellow", "low": "cyan"}


def collect(trail: Trail) -> dict[str, Any]:
    """Everything the page shows. Times are ns, sizes bytes, as in the modules."""
    findings: list[dict[str, Any]] = []
    for name in trail.modules:
        if name.startswith("finding_"):
            findings += trail.rows_of(f"SELECT * FROM {name}")
    order = list(SEVERITY)
    findings.sort(key=lambda f: (order.index(f["severity"]), -(f["cost_ns"] or 0)))
    return {
        "trail": str(trail.path),
        "snapshot": trail.snapshot,
        "recording": {r["name"]: r["value"] for r in trail.rows_of("SELECT name, value FROM recording")},
        "overview": trail.rows_of("SELECT * FROM overview")[0],
        "programs": trail.rows_of("""
            SELECT process_name, COUNT(*) AS processes, CAST(SUM(threads) AS BIGINT) AS threads,
                CAST(SUM(thread_ns) AS BIGINT) AS thread_ns, CAST(SUM(compute_ns) AS BIGINT) AS compute_ns,
                CAST(SUM(io_ns) AS BIGINT) AS io_ns, CAST(SUM(sync_ns) AS BIGINT) AS sync_ns,
                CAST(SUM(n) AS BIGINT) AS n, CAST(SUM(bytes_read) AS BIGINT) AS bytes_read,
                CAST(SUM(bytes_written) AS BIGINT) AS bytes_written
            FROM process_summary GROUP BY process_name ORDER BY io_ns DESC, n DESC, process_name"""),
        "calls": trail.rows_of("SELECT * FROM call_summary ORDER BY kind = 'wait', time_ns DESC, call"),
        "files": trail.rows_of("SELECT * FROM file_summary ORDER BY time_ns DESC, path LIMIT 100"),
        "unseen": trail.rows_of("SELECT * FROM unseen_summary ORDER BY amount DESC, kind"),
        "findings": findings,
    }


def show(path: str | os.PathLike[str], json: bool = False) -> None:
    """Print the summary of a trail."""
    trail = Trail(path)
    data = collect(trail)
    if json:
        print(json_text.dumps(data, indent=1, ensure_ascii=False))
        return
    console = Console(highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console = Console(highlight=False, width=120)
    for part in _page(data, console.width):
        console.print(part)


def _page(data: dict[str, Any], width: int) -> list[RenderableType]:
    overview = data["overview"]
    parts: list[RenderableType] = [_head(data, width)]
    if not overview["ops"] and not overview["waits"]:
        parts.append(Text("\nNo call was recorded.", style="bold"))
    else:
        if overview["thread_ns"]:
            parts.append(_section("Where the threads' time went", _split(data, width)))
        if data["findings"]:
            count = len(data["findings"])
            parts.append(_section(f"Findings ({count})", _findings(data["findings"])))
        parts.append(_section("Calls", _calls(data["calls"], width)))
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
    for name, _, style in STATES:
        table.add_column(Text(name, style=style), justify="right", no_wrap=True)
    table.add_column("")
    bar = max(10, min(40, width - 68))
    for name, threads, row in rows:
        shares = [row[column] / row["thread_ns"] for _, column, _ in STATES]
        cells = [
            f"{duration(row[column])} {share * 100:3.0f}%"
            for (_, column, _), share in zip(STATES, shares, strict=True)
        ]
        table.add_row(name, f"{threads:,}", *cells, _bar(shares, bar))
    return table


def _bar(shares: list[float], width: int) -> Text:
    """A bar of the states in their colours and, for those without colours, their own character."""
    bar = Text()
    ends = [round(sum(shares[: i + 1]) * width) for i in range(len(shares))]
    start = 0
    for end, character, (_, _, style) in zip(ends, "░█▒", STATES, strict=True):
        bar.append(character * (end - start), style=style)
        start = end
    return bar


def _findings(findings: list[dict[str, Any]]) -> RenderableType:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for finding in findings[:MOST_ROWS]:
        style = SEVERITY[finding["severity"]]
        table.add_row(Text(finding["severity"], style=style), Text(finding["title"], style="bold"))
        table.add_row("", Text(finding["advice"], style="dim"))
    if len(findings) > MOST_ROWS:
        table.add_row(
            "", Text(f"and {len(findings) - MOST_ROWS} more: iotrail report shows all", style="dim")
        )
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
            duration(call["time_ns"]),
            *(_time(call[column]) for column in ("p50_ns", "p99_ns", "max_ns")),
            size(call["bytes"]) if call["bytes"] else Text("–", style="dim"),
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
            duration(file["time_ns"]),
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

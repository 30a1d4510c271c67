"""A path on the terminal: as a tree of what happened, and as bars on one line of time."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.table import Table

from iotrail.requests import clocks
from iotrail.requests.path import WHOLE, Crumb, Path, Record, name, what
from iotrail.terminal import Console, Text
from iotrail.units import counted, duration, size
from iotrail.visible import one_line


@dataclass(frozen=True)
class Line:
    """One line: a record (several slices of CPU time are one), or a breadcrumb without records."""

    indent: str
    label: Text
    crumb: Crumb
    # None where there is no record to show
    ts: int | None
    dur: int | None
    # when the path came to this machine: times are shown since then
    since: int
    record: Record | None
    # the records it stands for, from when for how long
    parts: tuple[tuple[int, int | None], ...] = ()
    # of dur on a CPU, where it is time of a thread; None unknown
    cpu_ns: int | None = None


def head(path: Path) -> Text:
    """What the request was."""
    main = path.root.main
    text = Text(one_line(f"request {name(path.root.key)}"), style="bold")
    if main is not None:
        who = f" for {main.client}" if main.client else ""
        took = "no reply" if main.dur is None else duration(main.dur)
        failed = f", failed with {main.status}" if main.status else ""
        text.append(one_line(f": {main.component} {main.name}{who}, {took}{failed}"), style="not bold")
    nodes = len({crumb.node for crumb in path.crumbs})
    text.append(
        f"  ·  {counted(len(path.crumbs), 'breadcrumb')} on {counted(nodes, 'machine')}", style="not bold dim"
    )
    return text


COLUMNS = ("what", "node", "process", "crumb", "at", "time", "bytes", "")
LEGEND = "⇢ goes to another machine; `at` is since the path came to a machine."


def columns(path: Path) -> tuple[str, ...]:
    """Those of COLUMNS that say something: no process where none is known."""
    known = any(crumb.process for crumb in path.crumbs)
    return tuple(name for name in COLUMNS if known or name != "process")


def cells(line: Line) -> tuple[Text, ...]:
    """A line of the tree under COLUMNS."""
    first = line.record is None or line.record is line.crumb.main
    length = line.record.length if line.record else None
    return (
        Text(line.indent, style="dim") + line.label,
        Text(one_line(line.crumb.node) if first else ""),
        Text(one_line(line.crumb.process or "") if first else ""),
        Text(str(line.crumb.crumb) if first else ""),
        Text("" if line.ts is None else _since(line.ts - line.since)),
        Text("" if line.ts is None else took(line)),
        Text("" if length is None else size(length)),
        _notes(line, first),
    )


def _since(ns: int) -> str:
    return f"−{duration(-ns)}" if ns < 0 else f"+{duration(ns)}"


def show_tree(console: Console, path: Path) -> None:
    """Print the path as a tree."""
    console.print(head(path))
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    shown = columns(path)
    for column in shown:
        table.add_column(
            column,
            no_wrap=column != "",
            style="dim" if column in ("node", "process", "crumb") else "",
            justify="right" if column in ("at", "time", "bytes") else "left",
            overflow="ellipsis" if column else "fold",
        )
    for line in lines(path):
        table.add_row(*(cell for name, cell in zip(COLUMNS, cells(line), strict=True) if name in shown))
    console.print(table)
    _show_holes(console, path)
    if any(crumb.across for crumb in path.crumbs):
        console.print(Text(LEGEND, style="dim"))


@dataclass(frozen=True)
class Timeline:
    """The records of a path on the clock of the request's node."""

    # each line with its parts: since the path's first moment, for how long, ns
    rows: tuple[tuple[Line, tuple[tuple[int, int | None], ...]], ...]
    span: int
    # how other nodes' clocks were placed, and which could not be
    clocks: tuple[str, ...]
    missing: tuple[str, ...]


def timeline(path: Path, bounds: clocks.Bounds) -> Timeline:
    """A path's records on one clock; `bounds`: what the whole trail says of its machines' clocks."""
    offsets = clocks.offsets(path, bounds)
    placed = [
        (line, [(ts + offsets[line.crumb.node].shift, dur) for ts, dur in line.parts])
        for line in lines(path)
        if line.ts is not None and line.crumb.node in offsets
    ]
    start = min((at for _, parts in placed for at, _ in parts), default=0)
    end = max((at + (dur or 0) for _, parts in placed for at, dur in parts), default=0)
    said = []
    for node, offset in offsets.items():
        if node != path.root.node:
            sure = (
                "no reply says how exactly"
                if offset.error is None
                else f"at most {duration(offset.error)} wrong"
            )
            said.append(
                f"clock of {node}: {'+' if offset.shift >= 0 else ''}{duration(offset.shift)} to that of {path.root.node}, "
                f"estimated from the calls between them ({sure})"
            )
    missing = sorted({crumb.node for crumb in path.crumbs} - offsets.keys())
    return Timeline(
        tuple((line, tuple((at - start, dur) for at, dur in parts)) for line, parts in placed),
        end - start,
        tuple(said),
        tuple(f"{node} is not drawn: no call tells its clock" for node in missing),
    )


def show_timeline(console: Console, path: Path, bounds: clocks.Bounds) -> None:
    """Print the path as bars on the clock of the request's node."""
    console.print(head(path))
    drawn = timeline(path, bounds)
    if not drawn.rows:
        _show_holes(console, path)
        return
    labels = [len(line.indent) + line.label.cell_len for line, _ in drawn.rows]
    width = max(20, console.width - min(max(labels), 48) - max(len(n.node) for n in path.crumbs) - 16)
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column("what", no_wrap=True, max_width=48, overflow="ellipsis")
    table.add_column("node", no_wrap=True, style="dim")
    table.add_column(f"0 … {duration(drawn.span)}", no_wrap=True, min_width=width, max_width=width)
    table.add_column("time", justify="right", no_wrap=True)
    for line, parts in drawn.rows:
        bar = _bar(parts, drawn.span, width)
        style = "yellow" if line.dur is None else "cyan" if line.crumb.node != path.root.node else "green"
        table.add_row(
            Text(line.indent, style="dim") + line.label, line.crumb.node, Text(bar, style=style), took(line)
        )
    console.print(table)
    _show_holes(console, path)
    for said in drawn.clocks:
        console.print(Text(one_line(said), style="dim"))
    for said in drawn.missing:
        console.print(Text(one_line(said), style="yellow"))


def lines(path: Path) -> list[Line]:
    """The lines of a path, in order. Depth first without recursion."""
    found: list[Line] = []
    # of lines, and of breadcrumbs still to be opened
    stack: list[Line | tuple[Crumb, str, str, int]] = [(path.root, "", "", path.root.arrived or 0)]
    while stack:
        entry = stack.pop()
        if isinstance(entry, Line):
            found.append(entry)
            continue
        stack += reversed(list(_open(*entry)))
    return found


def _open(crumb: Crumb, first: str, rest: str, since: int) -> Iterator[Line | tuple[Crumb, str, str, int]]:
    """The line of a breadcrumb and what is below: `first` is what its own line begins with, `rest` the others."""
    main = crumb.main or (crumb.records[0] if crumb.records else None)
    label: Text = (
        Text("no records", style="yellow") if main is None else Text(one_line(what(main)), style="bold")
    )
    if crumb.across:
        label = Text("⇢ ", style="cyan bold") + label
    ts, dur = (None, None) if main is None else (main.ts, main.dur)
    yield Line(first, label, crumb, ts, dur, since, main, () if main is None else ((main.ts, main.dur),))
    if crumb.again:
        return
    items = _items(crumb, main)
    for number, item in enumerate(items):
        last = number == len(items) - 1
        branch, below = rest + ("└ " if last else "├ "), rest + ("  " if last else "│ ")
        if isinstance(item, Crumb):
            there = item.arrived if item.across and item.arrived is not None else since
            yield item, branch, below, there
        else:
            records = item
            dur = None if records[0].dur is None else sum(r.dur or 0 for r in records)
            times = f" × {len(records)}" if len(records) > 1 else ""
            yield Line(
                branch,
                Text(one_line(what(records[0])) + times),
                crumb,
                records[0].ts,
                dur,
                since,
                records[0],
                tuple((r.ts, r.dur) for r in records),
                _sum(r.cpu_ns for r in records),
            )


def _sum(values: Iterable[int | None]) -> int | None:
    """Their sum; None where one of them is unknown."""
    known = list(values)
    return None if None in known else sum(value or 0 for value in known)


def _items(crumb: Crumb, main: Record | None) -> list[list[Record] | Crumb]:
    """What is below a breadcrumb, by time: its records, slices of CPU time as one, and the breadcrumbs below."""
    timed: list[tuple[int, int, list[Record] | Crumb]] = []
    slices = [r for r in crumb.records if r.record == "cpu_slice" and r is not main]
    # where the kernel said when its threads ran, that counts
    slices = [r for r in slices if r.kind == "kernel"] or slices
    if slices:
        timed.append((slices[0].ts, 0, slices))
    timed += [(r.ts, 0, [r]) for r in crumb.records if r.record != "cpu_slice" and r is not main]
    # a call's serving comes after what was sent, on whatever clock
    sent = max((r.ts for r in crumb.records if r.record == "network_transmit"), default=crumb.start or 0)
    for child in crumb.children:
        same = child.node == crumb.node and child.start is not None
        timed.append(((child.start or 0) if same else sent, 1, child))
    return [item for _, _, item in sorted(timed, key=lambda entry: entry[:2])]


def took(line: Line) -> str:
    """How long it lasted."""
    if line.dur is None:
        return "unfinished"
    return duration(line.dur) if line.dur else "·"


def _notes(line: Line, first: bool) -> Text:
    notes = Text()
    crumb, record = line.crumb, line.record
    if record is not None and record.issued is not None and record.dur is not None:
        notes.append(f"queued {duration(record.issued - record.ts)}  ", style="dim")
    if record is not None and record.record == "cpu_slice" and record.kind != "kernel":
        cpu = "CPU time unknown" if line.cpu_ns is None else f"{duration(line.cpu_ns)} of it on a CPU"
        notes.append(f"{cpu}  ", style="dim")
    if record is not None and record.status:
        notes.append(f"failed with {record.status}  ", style="red")
    if first:
        if crumb.stitched == "coalesce":
            notes.append(f"coalesced: {100 * crumb.part / WHOLE:.3g} % of it is for this one  ", style="dim")
        if crumb.again:
            notes.append("shown above  ", style="dim")
        if crumb.leaf:
            notes.append("callee not instrumented  ", style="dim")
        if crumb.holes:
            notes.append("hole", style="yellow")
    return notes


def _bar(parts: Sequence[tuple[int, int | None]], span: int, width: int) -> str:
    """Bars in `width` characters; an instant is a dot, what never ended goes on to the right edge."""
    bar = [" "] * width
    scale = width / max(span, 1)
    for at, dur in parts:
        left = min(int(at * scale), width - 1)
        if dur is None:
            bar[left:] = "╌" * (width - left)
        elif dur:
            right = max(min(round((at + dur) * scale), width), left + 1)
            bar[left:right] = "█" * (right - left)
        elif bar[left] == " ":
            bar[left] = "·"
    return "".join(bar)


def _show_holes(console: Console, path: Path) -> None:
    for hole in path.holes:
        console.print(Text(one_line(f"hole: {hole}"), style="yellow"))

"""The comparison on a terminal: figures of both runs, differences by what they add, a verdict."""

import math
from collections.abc import Sequence

from rich.table import Table

from iotrail.diff.compare import ADVICE, Comparison
from iotrail.diff.difference import UNKNOWN, Difference, change_of, signed
from iotrail.diff.files import FileRow
from iotrail.terminal import Console, Text
from iotrail.units import duration, human, size

# Rows a table holds unless --limit says otherwise.
MOST_ROWS = 20
# Figures of both runs: name, column of module overview, unit.
OVERVIEW = (
    ("run time", "duration_ns", "ns"),
    ("operations", "ops", "ops"),
    ("read", "bytes_read", "bytes"),
    ("written", "bytes_written", "bytes"),
    ("operations a second", "iops", "1/s"),
    ("bytes a second", "bytes_per_s", "bytes/s"),
    ("threads on a CPU", "compute_ns", "ns"),
    ("threads waiting for a CPU", "queued_ns", "ns"),
    ("threads in page faults", "fault_ns", "ns"),
    ("threads in I/O", "io_ns", "ns"),
    ("threads waiting", "sync_ns", "ns"),
    ("threads idle", "idle_ns", "ns"),
    ("threads, not known", "unknown_ns", "ns"),
    ("files", "files", ""),
    ("failed operations", "errors", "ops"),
)


# Of one run each, and of several.
HEADINGS = {
    False: "Differ, by the time it adds (whether counts vary from run to run isn't known)",
    True: "Beyond what runs of one side differ by, by the time it adds",
}
OPEN_HEADINGS = {
    False: "Large, but one run each can't tell whether runs just differ by that",
    True: "Large, but not beyond what runs of one side differ by",
}


def show(result: Comparison, limit: int | None = None) -> None:
    """Print a comparison."""
    console = Console(piped=130)
    console.print(Text(f"A  {names(result.a)}\nB  {names(result.b)}"))
    if result.files is not None:
        most = MOST_ROWS if limit is None else limit
        console.print()
        console.print(_overview(result))
        _found(console, result, most)
        _unproven(console, result)
        _files(console, result, most)
    for note in result.notes:
        console.print(Text(f"\nnote: {note}", style="yellow"))
    console.print(Text(f"\n{result.verdict}", style="bold"))
    if result.files is not None and not result.several:
        console.print(Text(f"  {ADVICE}", style="dim"))


def names(trails: Sequence[str]) -> str:
    """The trails of a side."""
    return "  ".join(trails)


def judged(difference: Difference) -> str:
    """What a reported difference rests on: the share of noise among those as sure as it, or that it is exact."""
    if difference.q is not None:
        return f"{difference.q:.0e}" if difference.q else "0"
    return "one run" if difference.metric == "latency" else "exact"


def _overview(result: Comparison) -> Table:
    table = _table("", "A", "B", "change")
    for row in overview_rows(result):
        table.add_row(*row)
    return table


def overview_rows(result: Comparison) -> list[tuple[str, str, str, str]]:
    """Figures of both runs: name, A, B, change. Those that both lack are left out; null is not known."""
    rows = []
    for name, column, unit in OVERVIEW:
        a, b = result.overview_a[column], result.overview_b[column]
        if a or b:
            shown = ["not known" if value is None else figure(value, unit) for value in (a, b)]
            rows.append((name, shown[0], shown[1], "?" if a is None or b is None else change(a, b)))
    return rows


def change(a: float, b: float) -> str:
    """From A's figure to B's."""
    return "=" if a == b else "new" if not a else f"{b / a - 1:+.1%}"


def _found(console: Console, result: Comparison, most: int) -> None:
    if not result.found:
        return
    console.print(Text("\n" + HEADINGS[result.several], style="bold underline"))
    table = _table("what", "A", "B", "change", "95 % interval", "adds", "q", first=True)
    for difference in result.found[:most]:
        style = "red" if (difference.added_ns or 0) > 0 else "green" if difference.added_ns else ""
        table.add_row(
            Text(difference.name, style="bold"),
            figure(difference.a, difference.unit),
            figure(difference.b, difference.unit),
            change_of(difference),
            interval(difference),
            Text("" if difference.added_ns is None else signed(difference.added_ns), style=style),
            judged(difference),
        )
        if difference.note:
            table.add_row(Text(f"  {difference.note}", style="dim"))
    console.print(table)
    if len(result.found) > most:
        console.print(Text(f"… and {len(result.found) - most} more: --limit, --json", style="dim"))


def _unproven(console: Console, result: Comparison) -> None:
    if not result.unproven:
        return
    console.print(Text("\n" + OPEN_HEADINGS[result.several], style="underline"))
    for difference in result.unproven[:5]:
        note = f"; {difference.note}" if difference.note else ""
        console.print(
            f"  {difference.name}: {change_of(difference)}, {signed(difference.added_ns or 0)}, {doubt(difference)}{note}",
            style="dim",
        )


def doubt(difference: Difference) -> str:
    """Why a large difference isn't reported."""
    if difference.answer == UNKNOWN:
        return (
            "one run each can't tell"
            if len(difference.runs_a) + len(difference.runs_b) == 2
            else "runs vary too much"
        )
    return "too few to judge" if difference.p is None else f"p {difference.p:.2g}"


def _files(console: Console, result: Comparison, most: int) -> None:
    files = result.files
    if files is None or not (files.only_a or files.only_b or files.changed):
        return
    console.print(Text("\nFiles", style="underline"))
    if files.root_a != files.root_b:
        console.print(f"  {files.root_a} of A is taken for {files.root_b} of B", style="dim")
    for title, alone in (("only in A", files.only_a), ("only in B", files.only_b)):
        alone = sorted(alone, key=lambda row: -(row.mean_a + row.mean_b))
        for row in alone[: min(most, 5)]:
            console.print(
                f"  {title}: {row.name}  {row.mean_a + row.mean_b:,.0f} operations, {size(sum(row.mean_bytes))}"
            )
        if len(alone) > 5:
            console.print(Text(f"  … {len(alone):,} {title}", style="dim"))
    changed = by_change(files.changed)
    for row in changed[: min(most, 5)]:
        console.print(
            f"  changed: {row.name}  {row.mean_a:,.0f} → {row.mean_b:,.0f} operations, "
            f"{size(row.mean_bytes[0])} → {size(row.mean_bytes[1])}"
        )
    if len(changed) > 5:
        console.print(Text(f"  … {len(changed):,} changed", style="dim"))


def by_change(rows: Sequence[FileRow]) -> list[FileRow]:
    """Files whose numbers of operations differ most first."""
    return sorted(rows, key=lambda row: -abs(row.mean_b - row.mean_a))


def figure(value: float, unit: str) -> str:
    """A figure of one run."""
    if unit in ("ops", ""):
        return f"{value:,.0f}"
    return duration(value) if unit == "ns" else human(value, unit)


def interval(difference: Difference) -> str:
    """The confidence interval of the change."""
    if (
        not (math.isfinite(difference.low) and math.isfinite(difference.high))
        or difference.low == difference.high
    ):
        return ""
    scale, sign = 100, " points" if difference.unit == "share" else " %"
    return f"{difference.low * scale:+.1f} … {difference.high * scale:+.1f}{sign}"


def _table(*names: str, first: bool = False) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for number, name in enumerate(names):
        if number == 0:
            table.add_column(name, overflow="fold", min_width=30 if first else 20)
        else:
            table.add_column(name, justify="right", no_wrap=True)
    return table

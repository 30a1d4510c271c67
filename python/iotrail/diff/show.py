"""The comparison on a terminal: figures of both runs, differences by what they add, a verdict."""

import math
import os

from rich.console import Console
from rich.table import Table
from rich.text import Text

from iotrail.diff.compare import Comparison, Difference, signed
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
    ("threads computing", "compute_ns", "ns"),
    ("threads in I/O", "io_ns", "ns"),
    ("threads waiting", "sync_ns", "ns"),
    ("files", "files", ""),
    ("failed operations", "errors", "ops"),
)


def show(result: Comparison, limit: int | None = None) -> None:
    """Print a comparison."""
    console = Console(highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console = Console(highlight=False, width=130)
    console.print(Text(f"A  {result.a}\nB  {result.b}"))
    if result.run_time is not None:
        most = MOST_ROWS if limit is None else limit
        console.print()
        console.print(_overview(result))
        _found(console, result, most)
        _unproven(console, result)
        _files(console, result, most)
    console.print(Text(f"\n{result.verdict}", style="bold"))


def _overview(result: Comparison) -> Table:
    table = _table("", "A", "B", "change")
    for name, column, unit in OVERVIEW:
        a, b = result.overview_a[column], result.overview_b[column]
        if a or b:
            table.add_row(name, figure(a or 0, unit), figure(b or 0, unit), change(a or 0, b or 0))
    return table


def change(a: float, b: float) -> str:
    """From A's figure to B's."""
    return "=" if a == b else "new" if not a else f"{b / a - 1:+.1%}"


def _found(console: Console, result: Comparison, most: int) -> None:
    if not result.found:
        return
    console.print(Text("\nBeyond noise, by the time it adds", style="bold underline"))
    table = _table("what", "A", "B", "change", "95 % interval", "adds", "q", first=True)
    for difference in result.found[:most]:
        style = "red" if (difference.added_ns or 0) > 0 else "green" if difference.added_ns else ""
        table.add_row(
            Text(difference.name, style="bold"),
            figure(difference.a, difference.unit),
            figure(difference.b, difference.unit),
            effect(difference),
            interval(difference),
            Text("" if difference.added_ns is None else signed(difference.added_ns), style=style),
            f"{difference.q:.0e}" if difference.q else "exact",
        )
        if difference.note:
            table.add_row(Text(f"  {difference.note}", style="dim"))
    console.print(table)
    if len(result.found) > most:
        console.print(Text(f"… and {len(result.found) - most} more: --limit, --json", style="dim"))


def _unproven(console: Console, result: Comparison) -> None:
    if not result.unproven:
        return
    console.print(Text("\nLarge, but not shown to be more than noise", style="underline"))
    for difference in result.unproven[:5]:
        note = f"; {difference.note}" if difference.note else ""
        judged = "too few to judge" if difference.p is None else f"p {difference.p:.2g}"
        console.print(
            Text(
                f"  {difference.name}: {effect(difference)}, {signed(difference.added_ns or 0)}, {judged}{note}",
                style="dim",
            )
        )


def _files(console: Console, result: Comparison, most: int) -> None:
    files = result.files
    if files is None or not (files.only_a or files.only_b or files.changed):
        return
    console.print(Text("\nFiles", style="underline"))
    if files.root_a != files.root_b:
        console.print(Text(f"  {files.root_a} of A is taken for {files.root_b} of B", style="dim"))
    for title, alone in (("only in A", files.only_a), ("only in B", files.only_b)):
        alone = sorted(alone, key=lambda f: -f.ops)
        for file in alone[: min(most, 5)]:
            console.print(Text(f"  {title}: {file.name}  {file.ops:,} operations, {size(file.bytes)}"))
        if len(alone) > 5:
            console.print(Text(f"  … {len(alone):,} {title}", style="dim"))
    changed = sorted(files.changed, key=lambda p: -abs(p.ops_b - p.ops_a))
    for pair in changed[: min(most, 5)]:
        console.print(
            Text(
                f"  changed: {pair.name}  {pair.ops_a:,} → {pair.ops_b:,} operations, "
                f"{size(pair.bytes_a)} → {size(pair.bytes_b)}"
            )
        )
    if len(changed) > 5:
        console.print(Text(f"  … {len(changed):,} changed", style="dim"))


def figure(value: float, unit: str) -> str:
    """A figure of one run."""
    if unit in ("ops", ""):
        return f"{value:,.0f}"
    return duration(value) if unit == "ns" else human(value, unit)


def effect(difference: Difference) -> str:
    """The change in words."""
    if difference.unit == "share":
        return f"{difference.effect * 100:+.1f} points"
    return "new" if math.isinf(difference.effect) else f"{difference.effect:+.1%}"


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

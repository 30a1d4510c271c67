"""`iotrail trail prune`: its options, and what it says. `iotrail.native` hands it over: the other verbs of `trail` are
native."""

import json as jsons
import re
import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from iotrail import ask
from iotrail.errors import UsageError
from iotrail.moments import moment
from iotrail.options import TrailPath
from iotrail.requests import prune as pruning
from iotrail.requests.prune import Done, Size
from iotrail.terminal import WIDE, Console, Text
from iotrail.trail import Trail
from iotrail.units import human

# Of a trail that is being recorded only what ended so long ago is pruned unless said otherwise.
MARGIN = "10min"

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.command()
def prune(
    trail: TrailPath,
    every: Annotated[
        str, typer.Option("--every", metavar="60s", help="Sum over stretches of this time: 10s, 60s, 1h.")
    ] = "60s",
    keep: Annotated[
        str,
        typer.Option(
            "--keep",
            metavar="A,B",
            help="What is kept: the sums demand, graphs or both; buffer and disk keep those records as they are.",
        ),
    ] = "demand,graphs",
    before: Annotated[
        str | None,
        typer.Option(
            "--before", metavar="TIME", help="Only what ended before: 14:00, +30s.", show_default=False
        ),
    ] = None,
    older: Annotated[
        str | None,
        typer.Option(
            "--older",
            metavar="10min",
            help=f"Only what ended so long before the trail's end, or before now while it is recorded; then {MARGIN} "
            "unless said otherwise.",
            show_default=False,
        ),
    ] = None,
    grace: Annotated[
        str, typer.Option("--grace", metavar="TIME", help="How long to keep replaced files for readers.")
    ] = "60s",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print sizes as JSON.")] = False,
) -> None:
    """Replace raw records of requests by sums, from which demand, graph and counters answer as before.

    Examples:

      iotrail trail prune X.trail --every 60s --keep demand,graphs
      iotrail trail prune X.trail --keep demand,graphs,buffer --older 1h --dry-run
    """
    if not re.fullmatch(r"\d+(ms|s|min|m|h)", grace):
        raise UsageError(f"--grace: expected a time, found {grace!r}", "60s, or 0s to delete them now")
    every_ns, kept = ask.nanoseconds(every), pruning.keeps(keep)
    before_ts = _cutoff(trail, before, older)
    console = Console(stderr=True)
    with console.status("") as status:
        done = pruning.prune(
            trail,
            every_ns=every_ns,
            keep=kept,
            before_ts=before_ts,
            grace=grace,
            dry_run=dry_run,
            progress=status.update,
        )
    if json:
        print(jsons.dumps({"dry_run": dry_run, **asdict(done)}, indent=1))
    else:
        _show(trail, done, dry_run)


def _cutoff(path: Path, before: str | None, older: str | None) -> int | None:
    """The moment before which records ended that may go; None any."""
    if before is not None and older is not None:
        raise UsageError("--before and --older both say what may go", "leave out one of them")
    live = (path / "session.json").exists()
    if live and older is None and before is None:
        older = MARGIN
    if older is None and before is None:
        return None
    [span] = Trail(path).rows_of("SELECT start_ts, end_ts FROM trail_span")
    if before is not None:
        return moment(before, span["start_ts"] or 0, "--before")
    assert older is not None
    return (time.time_ns() if live else span["end_ts"] or 0) - ask.nanoseconds(older, "--older")


def _show(path: Path, done: Done, dry_run: bool) -> None:
    if not done.before and not done.after:
        print(f"{path}: nothing to prune")
        return
    console = Console(piped=WIDE)
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for number, name in enumerate(("table", "rows", "size", "rows after", "size after")):
        table.add_column(name, justify="right" if number else "left", no_wrap=True)
    for name in dict.fromkeys((*done.before, *done.after)):
        cells = [
            cell
            for size in (done.before.get(name, Size(0, 0)), done.after.get(name, Size(0, 0)))
            for cell in (f"{size.rows:,}", human(size.bytes, "bytes"))
        ]
        table.add_row(name, *cells)
    console.print(table)
    had, has = done.whole_before, done.whole_after
    verb = "would go from" if dry_run else "went from"
    saved = 1 - has.bytes / had.bytes if had.bytes else 0.0
    console.print(
        Text(
            f"{path} {verb} {had.rows:,} rows, {human(had.bytes, 'bytes')}, to {has.rows:,} rows, "
            f"{human(has.bytes, 'bytes')}: {abs(saved):.1%} {'less' if saved >= 0 else 'more: it is too small to gain'}"
        )
    )

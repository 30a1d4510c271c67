"""The verb `iotrail diff`: its options read, its parts called."""

import json as json_text
import sys
from collections.abc import Sequence
from pathlib import Path

import typer

from iotrail import page, report
from iotrail.diff import gate, show
from iotrail.diff.compare import ADVICE, compare_runs
from iotrail.diff.fidelity import fidelity as fidelity_of
from iotrail.diff.fidelity import show as show_fidelity
from iotrail.diff.page import render
from iotrail.diff.run import Run, Sides
from iotrail.errors import UsageError
from iotrail.options import one_each
from iotrail.trail import Trail
from iotrail.visible import one_line


def run(
    a: Sequence[Path],
    b: Sequence[Path],
    *,
    json: bool,
    html: Path | None,
    fail_on: Sequence[str],
    min_effect: str,
    fdr: str | None,
    renamed: Sequence[str],
    part: tuple[str | None, str | None],
    against: tuple[str | None, str | None],
    fidelity: bool,
    limit: int | None,
    force: bool,
) -> None:
    """Compare, print, write, judge. `part` is --from and --to, `against` B's own; if it names neither, they are A's."""
    smallest = gate.percent(min_effect, "--min-effect")
    gates = [gate.parse(text, smallest) for text in fail_on]
    directories = [_directories(text) for text in renamed]
    parts = (part, against if any(against) else part)
    if fidelity:
        if any(part) or any(against):
            raise UsageError("--fidelity compares whole runs: it takes no --from, --to or --against-…")
        replayed = fidelity_of(*map(Trail, one_each(a, b, "--fidelity")))
        if json:
            print(json_text.dumps(replayed.as_dict(), indent=1, ensure_ascii=False))
        else:
            show_fidelity(replayed)
        return
    if html is not None:
        page.check(html, "diff", force=force)
    share = gate.percent(fdr, "--fdr") if fdr is not None else None
    sides = Sides(*(tuple(_open(path, of) for path in side) for side, of in zip((a, b), parts, strict=True)))
    result = compare_runs(sides, smallest, share, tuple(directories))
    if html is not None:
        page.write(html, render(result, sides))
    if json:
        print(json_text.dumps(result.as_dict(), indent=1, ensure_ascii=False))
    else:
        show.show(result, limit)
    refused = [(each, difference) for each in gates if (difference := each.refuses(result))]
    for each, difference in refused:
        print(one_line(gate.line(each, difference)), file=sys.stderr)
    if refused:
        raise typer.Exit(gate.REFUSED)
    open_gates = [(each, reason) for each in gates if (reason := each.undecided(result))]
    for each, reason in open_gates:
        print(f"--fail-on {each.text}: can't tell: {reason}", file=sys.stderr)
    if open_gates:
        if not result.nothing:
            print(f"  hint: {ADVICE}", file=sys.stderr)
        raise typer.Exit(gate.UNDECIDED)


def _open(path: Path, part: tuple[str | None, str | None]) -> Run:
    trail = Trail(path)
    if any(part):
        report.cut(trail, *part)
    return Run(trail)


def _directories(text: str) -> tuple[str, str]:
    first, separator, second = text.partition("=")
    if not separator or not first or not second:
        raise UsageError(f"--map: expected FROM=TO, found {text!r}", "--map /srv/data=/mnt/replay")
    return first, second

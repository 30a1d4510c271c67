"""The verb `iotrail diff`: its options read, its parts called."""

import json as json_text
import sys
from collections.abc import Sequence
from pathlib import Path

import typer

from iotrail import page
from iotrail.diff import gate, show
from iotrail.diff.compare import compare_runs
from iotrail.diff.fidelity import fidelity as fidelity_of
from iotrail.diff.fidelity import show as show_fidelity
from iotrail.diff.page import render
from iotrail.diff.run import Run
from iotrail.errors import UsageError
from iotrail.trail import Trail


def run(
    a: Path,
    b: Path,
    *,
    json: bool,
    html: Path | None,
    fail_on: Sequence[str],
    min_effect: str,
    fdr: str,
    renamed: Sequence[str],
    again: Sequence[Path],
    fidelity: bool,
    limit: int | None,
    force: bool,
) -> None:
    """Compare, print, write, judge."""
    smallest = gate.percent(min_effect, "--min-effect")
    gates = [gate.parse(text, smallest) for text in fail_on]
    directories = [_directories(text) for text in renamed]
    first, second = Trail(a), Trail(b)
    if fidelity:
        replayed = fidelity_of(first, second)
        if json:
            print(json_text.dumps(replayed.as_dict(), indent=1, ensure_ascii=False))
        else:
            show_fidelity(replayed)
        return
    if html is not None:
        page.check(html, "diff", force=force)
    before, after = Run(first), Run(second)
    result = compare_runs(
        before,
        after,
        smallest,
        gate.percent(fdr, "--fdr"),
        tuple(directories),
        [Run(Trail(path)) for path in again],
    )
    if html is not None:
        page.write(html, render(result, before, after))
    if json:
        print(json_text.dumps(result.as_dict(), indent=1, ensure_ascii=False))
    else:
        show.show(result, limit)
    refused = [(each, difference) for each in gates if (difference := each.refuses(result))]
    for each, difference in refused:
        print(gate.line(each, difference), file=sys.stderr)
    if refused:
        raise typer.Exit(1)


def _directories(text: str) -> tuple[str, str]:
    first, separator, second = text.partition("=")
    if not separator or not first or not second:
        raise UsageError(f"--map: expected FROM=TO, found {text!r}", "--map /srv/data=/mnt/replay")
    return first, second

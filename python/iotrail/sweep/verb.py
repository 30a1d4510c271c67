"""The command line of `iotrail sweep`."""

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from iotrail.errors import SweepError, UsageError

if TYPE_CHECKING:
    from iotrail.sweep.plan import Plan
    from iotrail.sweep.run import Sweep

# Settings that --dry shows, and reasons of failures at the end.
_SHOWN = 5
_SHOWN_FAILURES = 3


def sweep(
    specification: Annotated[
        Path | None,
        typer.Argument(
            metavar="SPEC.toml", help="What is measured, over which settings.", show_default=False
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="X.trail", help="Trail to write.", show_default=False),
    ] = None,
    samples: Annotated[
        int | None,
        typer.Option(
            "--samples",
            metavar="N",
            min=1,
            help="Settings to measure. Default: the specification's, or 400.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            "--seed",
            min=0,
            help="Seed of their choice. Default: the specification's, or 1.",
            show_default=False,
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with a sweep that ended early: what it measured is kept.")
    ] = False,
    put_back: Annotated[
        Path | None,
        typer.Option(
            "--restore",
            metavar="X.trail",
            help="Only put back the settings that a sweep to X.trail left changed, after a power cut.",
            show_default=False,
        ),
    ] = None,
    dry: Annotated[
        bool, typer.Option("--dry", help="Only say what would be measured: nothing is set or measured.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was done as JSON.")] = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="Replace X.trail if it exists, and drop what a sweep before measured."),
    ] = False,
) -> None:
    """Measure a system over a space of settings, unattended: `iotrail anomalies` says where it falls short.

    SPEC.toml names a command that prints one number, the values of each dimension, and what is expected; settings are drawn at
    random and measured one after the other. Settings of the system are put back at the end, also after Ctrl-C, SIGTERM and
    SIGKILL. What is measured is kept in X.trail.sweep until the trail is whole.
    """
    from iotrail.sweep import journal
    from iotrail.sweep import plan as plans

    if put_back is not None:
        if specification is not None or output is not None or resume or dry:
            raise UsageError("--restore takes no other argument", "iotrail sweep --restore X.trail")
        path = plans.journal_of(put_back)
        commands = journal.read(path).restore
        if failed := journal.restore(path):
            raise SweepError(f"cannot put back {'; '.join(failed)}", "put it back by hand")
        print(f"iotrail: {len(commands)} settings put back" if commands else "iotrail: nothing to put back")
        return
    if specification is None:
        raise UsageError("which specification?", "iotrail sweep SPEC.toml -o X.trail")
    if output is None and not dry:
        raise UsageError("which trail?", "iotrail sweep SPEC.toml -o X.trail")
    planned = plans.plan(specification, samples=samples, seed=seed)
    if dry:
        _print_plan(planned, as_json)
        return
    assert output is not None
    command = ["iotrail", *sys.argv[1:]]
    try:
        with _progress(planned) as advance:
            done = planned.run(output, command=command, resume=resume, force=force, advance=advance)
    except KeyboardInterrupt:
        print(
            f"iotrail: what was measured is kept in {plans.journal_of(output)}: --resume goes on",
            file=sys.stderr,
        )
        raise
    _print_done(planned, done, output, as_json)


def _print_plan(planned: "Plan", as_json: bool) -> None:
    from iotrail.anomaly.describe import value_text
    from iotrail.sweep.sampling import seen_probability, unseen_share
    from iotrail.units import human

    settings, samples = len(planned.space.feasible), len(planned.codes)
    names = {one.name: len(one.values) for one in planned.space.dimensions}
    if as_json:
        print(json.dumps({"settings": settings, "samples": samples, "dimensions": names}, indent=2))
        return
    values = ", ".join(f"{name} {count}" for name, count in names.items())
    print(f"{settings:,} settings ({values}), of which {samples:,} are measured.")
    if samples < settings:
        share = unseen_share(samples)
        print(
            f"A zone of {human(share, 'share')} of all settings has a sample with a probability of "
            f"{human(seen_probability(share, samples), 'share')}."
        )
    for code in planned.codes[:_SHOWN]:
        setting = planned.space.setting(code)
        dimensions = {one.name: one for one in planned.space.dimensions}
        print(
            "  "
            + ", ".join(f"{name} {value_text(dimensions[name], value)}" for name, value in setting.items())
        )
    if samples > _SHOWN:
        print(f"  … {samples - _SHOWN:,} more")


def _print_done(planned: "Plan", done: "Sweep", output: Path, as_json: bool) -> None:
    states = Counter(done.sampled(code).state for code in done.measurements)
    measurements = sum(len(each) for each in done.measurements.values())
    failures = Counter(one.detail for each in done.measurements.values() for one in each if one.value is None)
    if as_json:
        answer = {
            "trail": str(output),
            "settings": len(planned.space.feasible),
            "samples": len(done.measurements),
            "measurements": measurements,
            "states": dict(states),
            "failures": dict(failures),
        }
        print(json.dumps(answer, indent=2))
        return
    counts = ", ".join(f"{count} {state}" for state, count in states.most_common())
    print(
        f"{output}: {len(done.measurements):,} of {len(planned.space.feasible):,} settings in {measurements:,} measurements: {counts}"
    )
    for detail, count in failures.most_common(_SHOWN_FAILURES):
        print(f"  {count} failed: {detail}")
    if len(failures) > _SHOWN_FAILURES:
        print(
            f"  … {sum(failures.values()) - sum(count for _, count in failures.most_common(_SHOWN_FAILURES)):,} failed for other reasons (table measurement)"
        )
    print(f"  iotrail anomalies {output}")


@contextmanager
def _progress(planned: "Plan") -> Iterator[Callable[[str], None]]:
    """A bar on a terminal, nothing elsewhere. Its value takes what is measured for."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from iotrail.sweep.run import AGAIN
    from iotrail.terminal import Console

    console = Console(stderr=True, soft_wrap=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    columns = TextColumn("iotrail: measuring"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=len(planned.codes))

        def advance(purpose: str) -> None:
            if purpose == AGAIN:
                bar.update(task, total=(bar.tasks[0].total or 0) + 1)
            bar.advance(task)

        yield advance

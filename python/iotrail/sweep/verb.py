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
    adaptive: Annotated[
        int | None,
        typer.Option(
            "--adaptive",
            metavar="N",
            min=1,
            help="Settings to measure, instead of --samples: a third at random, then where what was measured leaves most open, "
            "and at the end pairs that confirm what was found. It takes fewer measurements to find the same.",
            show_default=False,
        ),
    ] = None,
    confirm: Annotated[
        Path | None,
        typer.Option(
            "--confirm",
            metavar="X.trail",
            help="Measure fresh pairs of settings, just inside and just outside each face of the clusters that X.trail has, and add "
            "them to it, or write them with it to another trail (-o).",
            show_default=False,
        ),
    ] = None,
    pairs: Annotated[
        int | None,
        typer.Option(
            "--pairs",
            metavar="N",
            min=2,
            help="With --confirm: pairs for each face. Default: 5.",
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
    """Measure a system over a space of settings, unattended; `iotrail anomalies` reads the result.

    SPEC.toml names a command that prints one number, or a block device, the values of each dimension, and what is expected; settings are drawn at
    random, or chosen by what was measured (--adaptive), and measured one after the other. Settings of the system are put back at the end, also after Ctrl-C, SIGTERM and
    SIGKILL. What is measured is kept in X.trail.sweep until the trail is whole.
    """
    from iotrail.sweep import journal
    from iotrail.sweep import plan as plans

    if put_back is not None:
        if specification is not None or output is not None or resume or dry or confirm is not None:
            raise UsageError("--restore takes no other argument", "iotrail sweep --restore X.trail")
        path = plans.journal_of(put_back)
        commands = journal.read(path).restore
        if failed := journal.restore(path):
            raise SweepError(f"cannot put back {'; '.join(failed)}", "put it back by hand")
        print(f"iotrail: {len(commands)} settings put back" if commands else "iotrail: nothing to put back")
        return
    if confirm is not None:
        for name, is_given in {
            "SPEC.toml": specification is not None,
            "--samples": samples is not None,
            "--adaptive": adaptive is not None,
            "--seed": seed is not None,
            "--dry": dry,
        }.items():
            if is_given:
                raise UsageError(
                    f"--confirm can't be combined with {name}", "iotrail sweep --confirm X.trail [-o Y.trail]"
                )
        _confirm(confirm, output, pairs, resume=resume, force=force, as_json=as_json)
        return
    if pairs is not None:
        raise UsageError("--pairs needs --confirm", "iotrail sweep --confirm X.trail --pairs N")
    if specification is None:
        raise UsageError("which specification?", "iotrail sweep SPEC.toml -o X.trail")
    if output is None and not dry:
        raise UsageError("which trail?", "iotrail sweep SPEC.toml -o X.trail")
    if resume and samples is None and adaptive is None and output is not None:
        adaptive = plans.adaptive_before(output)
    planned = plans.plan(specification, samples=samples, adaptive=adaptive, seed=seed)
    if dry:
        _print_plan(planned, as_json)
        return
    assert output is not None
    command = ["iotrail", *sys.argv[1:]]
    with _kept(plans.journal_of(output)), _progress() as (begin, advance):
        begin(min(planned.spec.samples, len(planned.space.feasible)))
        done = planned.run(output, command=command, resume=resume, force=force, advance=advance)
    _print_done(planned, done, output, as_json)


@contextmanager
def _kept(journal: Path) -> Iterator[None]:
    """Says after Ctrl-C where to go on."""
    try:
        yield
    except KeyboardInterrupt:
        print(f"iotrail: what was measured is kept in {journal}: --resume goes on", file=sys.stderr)
        raise


def _confirm(
    trail: Path, output: Path | None, pairs: int | None, *, resume: bool, force: bool, as_json: bool
) -> None:
    """Measures pairs and says what they tell."""
    from iotrail.anomaly import answer, text
    from iotrail.sweep import extend
    from iotrail.sweep import plan as plans
    from iotrail.terminal import Console
    from iotrail.trail import Trail

    with _kept(plans.journal_of(output or trail)), _progress() as (begin, advance):
        path = extend.confirm(
            trail,
            output,
            command=["iotrail", *sys.argv[1:]],
            each=extend.EACH if pairs is None else pairs,
            resume=resume,
            force=force,
            begin=begin,
            advance=advance,
        )
    found = answer.find(answer.read(Trail(path)), str(path))
    if as_json:
        print(json.dumps(found.json(), indent=2))
        return
    console = Console(soft_wrap=True)
    for line in text.lines(found):
        console.print(line)


def _print_plan(planned: "Plan", as_json: bool) -> None:
    from iotrail.anomaly.describe import value_text
    from iotrail.sweep.sampling import seen_probability, unseen_share
    from iotrail.units import human

    settings, drawn = len(planned.space.feasible), len(planned.codes)
    samples = min(planned.spec.samples, settings)
    names = {one.name: len(one.values) for one in planned.space.dimensions}
    if as_json:
        known = {"settings": settings, "samples": samples, "uniform": drawn, "dimensions": names}
        print(json.dumps(known, indent=2))
        return
    values = ", ".join(f"{name} {count}" for name, count in names.items())
    print(f"{settings:,} settings ({values}), of which {samples:,} are measured.")
    if drawn < samples:
        print(f"{drawn:,} are drawn at random, the others follow from what is measured.")
    if drawn < settings:
        share = unseen_share(drawn)
        print(
            f"A zone of {human(share, 'share')} of all settings has a sample with a probability of "
            f"{human(seen_probability(share, drawn), 'share')}."
        )
    for code in planned.codes[:_SHOWN]:
        setting = planned.space.setting(code)
        dimensions = {one.name: one for one in planned.space.dimensions}
        print(
            "  "
            + ", ".join(f"{name} {value_text(dimensions[name], value)}" for name, value in setting.items())
        )
    if drawn > _SHOWN:
        print(f"  … {drawn - _SHOWN:,} more")


def _print_done(planned: "Plan", done: "Sweep", output: Path, as_json: bool) -> None:
    from iotrail.sweep.sampling import unseen_share
    from iotrail.units import human

    states = Counter(done.sampled(code).state for code in done.measurements)
    purposes = Counter(done.purpose(code) for code in done.measurements)
    hidden = unseen_share(done.uniform)
    measurements = sum(len(each) for each in done.measurements.values())
    failures = Counter(one.detail for each in done.measurements.values() for one in each if one.value is None)
    if as_json:
        answer = {
            "trail": str(output),
            "settings": len(planned.space.feasible),
            "samples": len(done.measurements),
            "measurements": measurements,
            "states": dict(states),
            "purposes": dict(purposes),
            "hidden": hidden,
            "failures": dict(failures),
        }
        print(json.dumps(answer, indent=2))
        return
    counts = ", ".join(f"{count} {state}" for state, count in states.most_common())
    print(
        f"{output}: {len(done.measurements):,} of {len(planned.space.feasible):,} settings in {measurements:,} measurements: {counts}"
    )
    if planned.spec.is_adaptive:
        kinds = ", ".join(f"{count:,} {purpose}" for purpose, count in purposes.most_common())
        print(
            f"  {kinds}; a zone of less than {human(hidden, 'share')} of all settings may have no uniform sample (95 %)"
        )
    for detail, count in failures.most_common(_SHOWN_FAILURES):
        print(f"  {count} failed: {detail}")
    if len(failures) > _SHOWN_FAILURES:
        print(
            f"  … {sum(failures.values()) - sum(count for _, count in failures.most_common(_SHOWN_FAILURES)):,} failed for other reasons (table measurement)"
        )
    print(f"  iotrail anomalies {output}")


@contextmanager
def _progress() -> Iterator[tuple[Callable[[int], None], Callable[[str], None]]]:
    """A bar on a terminal, nothing elsewhere. Its first value takes how many settings are measured, its second what is going on."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from iotrail.sweep.run import AGAIN, CHOOSING
    from iotrail.terminal import Console

    console = Console(stderr=True, soft_wrap=True)
    if not console.is_terminal:
        yield lambda _: None, lambda _: None
        return
    columns = (
        TextColumn("iotrail: {task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("measuring", total=None)

        def begin(number: int) -> None:
            bar.update(task, total=number)

        def advance(purpose: str) -> None:
            if purpose == CHOOSING:
                bar.update(task, description="choosing what to measure next")
                return
            bar.update(task, description="measuring")
            if purpose == AGAIN:
                bar.update(task, total=(bar.tasks[0].total or 0) + 1)
            bar.advance(task)

        yield begin, advance

"""The command line of `iotrail generate`."""

from pathlib import Path
from typing import Annotated

import typer

from iotrail import native, units
from iotrail.errors import UsageError
from iotrail.model.verbs import Seed

# Panel of the options that need --target; iotrail-native checks their values.
_RUN = "Running requests"
# Beyond, times have no nanoseconds left, or more than they can have.
_MOST_INTENSITY = 1e12


def generate(
    model: Annotated[
        Path | None, typer.Argument(metavar="MODEL", help="Model file.", show_default=False)
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="Y.trail",
            help="Trail to write: of the requests as they ran, or as they were drawn.",
            show_default=False,
        ),
    ] = None,
    target: Annotated[
        list[str] | None,
        typer.Option(
            "--target",
            metavar="[DEV=]PATH",
            help="Run the requests on this file or block device; one DEV=PATH for each device if the model has several.",
            show_default=False,
        ),
    ] = None,
    dry: Annotated[
        bool, typer.Option("--dry", help="Only draw requests, as without --target: nothing is run.")
    ] = False,
    seed: Seed = 1,
    intensity: Annotated[
        float, typer.Option("--intensity", metavar="F", help="Divide the gaps between requests by this.")
    ] = 1.0,
    length: Annotated[
        str | None,
        typer.Option(
            "--for",
            metavar="TIME",
            help="End after this time, such as 60s; the model is repeated, drawn with other seeds. "
            "Default: when the model ends.",
            show_default=False,
            rich_help_panel=_RUN,
        ),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="TIME",
            help="Start this far into the model, by its own time, such as 10min. Default: at its beginning.",
            show_default=False,
            rich_help_panel=_RUN,
        ),
    ] = None,
    warm_up: Annotated[
        str | None,
        typer.Option(
            "--warm-up",
            metavar="TIME",
            help="Don't count requests of the first seconds.",
            show_default=False,
            rich_help_panel=_RUN,
        ),
    ] = None,
    when: Annotated[
        str | None,
        typer.Option(
            "--loop",
            metavar="open|closed",
            help="When a request starts: at its drawn time, or when one in flight returns. Default: open.",
            show_default=False,
            rich_help_panel=_RUN,
        ),
    ] = None,
    depth: Annotated[
        str | None,
        typer.Option(
            "--depth",
            metavar="N",
            help="Maximum requests in flight. Default: 32 with --loop open, else 1.",
            show_default=False,
            rich_help_panel=_RUN,
        ),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            "--engine",
            metavar="psync|io_uring",
            help="How requests reach the kernel: calls of --depth threads, or one io_uring. Default: psync.",
            show_default=False,
            rich_help_panel=_RUN,
        ),
    ] = None,
    bench: Annotated[
        str | None,
        typer.Option(
            "--bench",
            metavar="KEY=VALUE,…",
            help="Run a micro-benchmark instead of a model, in a closed loop: threads=N, size=BYTES, stride=BYTES "
            "(default: the size), random=N%, read=N%, think=TIME; what is not named: threads=1,size=4KiB,random=100%,read=100%.",
            show_default=False,
            rich_help_panel=_RUN,
        ),
    ] = None,
    direct: Annotated[
        bool, typer.Option("--direct", help="Open targets with O_DIRECT.", rich_help_panel=_RUN)
    ] = False,
    zeros: Annotated[
        bool,
        typer.Option("--zeros", help="Write zeros instead of incompressible data.", rich_help_panel=_RUN),
    ] = False,
    fold: Annotated[
        bool,
        typer.Option(
            "--fold", help="Wrap offsets that lie beyond the end of a target.", rich_help_panel=_RUN
        ),
    ] = False,
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite",
            help="Allow the requests to overwrite data on the targets.",
            rich_help_panel=_RUN,
        ),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the summary as JSON.", rich_help_panel=_RUN)
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace Y.trail if it exists.")] = False,
) -> None:
    """Run the requests of a workload model, or a micro-benchmark, on storage; or only write down a model's requests.

    With --target requests are read from and written to it, and a summary is printed: rates, response times, lateness. Without it
    they are drawn and written to -o as a trail.
    """
    from iotrail.model import similarity_text
    from iotrail.model.generate import generate as draw
    from iotrail.terminal import Console

    if not 1 / _MOST_INTENSITY <= intensity <= _MOST_INTENSITY:
        raise UsageError(
            f"--intensity: expected {1 / _MOST_INTENSITY:g} to {_MOST_INTENSITY:g}, found {intensity:g}",
            "2 makes requests come twice as fast",
        )
    values = {
        "--for": length,
        "--from": start,
        "--warm-up": warm_up,
        "--loop": when,
        "--depth": depth,
        "--engine": engine,
        "--bench": bench,
    }
    switches = {
        "--direct": direct,
        "--zeros": zeros,
        "--fold": fold,
        "--overwrite": overwrite,
        "--json": as_json,
    }
    if target and not dry:
        given = [f"{name}={value}" for name, value in values.items() if value is not None]
        given += [name for name, is_given in switches.items() if is_given]
        given += [f"--target={each}" for each in target]
        if intensity != 1:
            given.append(f"--intensity={intensity!r}")
        if output is not None:
            given += [f"--output={output}"]
        if model is not None and length is not None and when != "closed":
            similar = similarity_text.of_run(
                model, seed=seed, length=length, warm_up=warm_up, start=start, intensity=intensity
            )
            given.append(f"--similarity={similarity_text.as_json(similar)}")
        named = ["--", str(model)] if model is not None else []
        native.run(["generate", *given, f"--seed={seed}", *["--force"] * force, *named])
    running = {**switches, **values, "--target": target}
    if others := [name for name, value in running.items() if value]:
        raise UsageError(
            f"{others[-1]} can't be combined with --dry"
            if dry
            else f"{others[0]} runs requests: expected --target PATH",
            "--dry draws requests, --target PATH runs them",
        )
    if model is None:
        raise UsageError(
            "no MODEL: expected the file of a workload model", "iotrail model fit makes one of a trail"
        )
    if output is None:
        raise UsageError(
            "neither --target nor -o: nothing to do",
            "--target PATH runs the requests on PATH, -o Y.trail only draws them",
        )
    count = draw(model, output, seed=seed, intensity=intensity, force=force)
    Console(stderr=True, soft_wrap=True).print(
        f"iotrail: {output}: {units.counted(count, 'request')}; next: iotrail report {output}"
    )

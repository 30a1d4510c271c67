"""The command line of `iotrail device`."""

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from iotrail import native, units
from iotrail.errors import DeviceError
from iotrail.options import TrailPath

if TYPE_CHECKING:
    from iotrail.device.compare import Comparison

app = typer.Typer(
    help="Show, fit and measure device files: descriptions of simulated storage.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)

AsJson = Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")]


def _ask(*words: str) -> Any:
    """What `iotrail-native device` says."""
    done = subprocess.run([native.binary(), "device", *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        message, _, hint = done.stderr.removeprefix("iotrail: error: ").partition("\n  hint: ")
        raise DeviceError(message.strip(), hint.strip() or None)
    return json.loads(done.stdout)


@app.command(name="list")
def list_devices(as_json: AsJson = False) -> None:
    """List the devices that come with iotrail."""
    from rich.table import Table

    from iotrail.terminal import Console, Text

    found = _ask("list")
    if as_json:
        print(json.dumps(found))
        return
    table = Table(box=None, pad_edge=False)
    for name in ("name", "device", "capacity"):
        table.add_column(name, justify="right" if name == "capacity" else "left")
    for each in found:
        table.add_row(*map(Text, (each["name"], each["device"], units.size(each["capacity"]))))
    Console().print(table)


@app.command()
def show(
    device: Annotated[
        Path,
        typer.Argument(metavar="DEVICE", help="Device file, or the name of one that comes with iotrail."),
    ],
    as_json: AsJson = False,
    html: Annotated[
        Path | None,
        typer.Option(
            "--html", metavar="FILE", help="Write a page: seek curve, transfer rate, values, residuals."
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace FILE if it exists.")] = False,
) -> None:
    """Show the values of a device, each with its unit, source and standard error."""
    from rich.table import Table

    from iotrail.terminal import Console, Text

    if html:
        from iotrail import page

        page.check(html, "device show", force=force)
    found = _ask("show", str(device))
    if html:
        from iotrail.device.page import render

        page.write(html, render(found, _short))
        if not as_json:
            return
    if as_json:
        print(json.dumps(found))
        return
    console = Console(piped=160)
    console.print(Text(f"{found['device']}: {found['kind']}, {units.size(found['capacity'])}"))
    table = Table(box=None, pad_edge=False)
    table.add_column("value")
    table.add_column("", justify="right")
    table.add_column("unit")
    # a file without errors needs no column for them
    has_errors = any(each["error"] is not None for each in found["values"])
    if has_errors:
        table.add_column("±", justify="right")
    table.add_column("source")
    for each in found["values"]:
        error = "" if each["error"] is None else _short(each["error"])
        cells = (each["key"], _short(each["value"]), each["unit"] or "", *([error] if has_errors else []))
        table.add_row(*map(Text, (*cells, each["source"])))
    console.print(table)


@app.command()
def schema() -> None:
    """Print the JSON Schema of device files, for editors and validators."""
    print(json.dumps(_ask("schema"), indent=2))


@app.command()
def measure(
    target: Annotated[
        Path, typer.Argument(metavar="TARGET", help="Block device, or a file on it without holes.")
    ],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="Device file to write.", show_default=False)
    ],
    write: Annotated[
        bool,
        typer.Option(
            "--write",
            help="Measure writes, flushes and trims too: where TARGET holds zeros, which are written back at the end.",
        ),
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="With --write: write anywhere. Data on TARGET is lost.")
    ] = False,
    seconds: Annotated[float, typer.Option("--seconds", help="About how long it may take (s).")] = 60.0,
    kind: Annotated[
        str, typer.Option("--kind", help="What to measure it as: auto, disk or volume.", metavar="KIND")
    ] = "auto",
    seed: Annotated[int, typer.Option("--seed", help="Seed of places and delays.")] = 1,
    force: Annotated[bool, typer.Option("--force", help="Replace FILE if it exists.")] = False,
    as_json: AsJson = False,
) -> None:
    """Measure a block device or file and describe it by a device file. It only reads, unless --write is given."""
    import sys

    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from iotrail.device.measure import measure as measure_device
    from iotrail.report import write_whole
    from iotrail.terminal import Console, Text

    if overwrite and not write:
        raise DeviceError("--overwrite needs --write: without it nothing is written")
    if output.exists() and not force:
        raise DeviceError(f"{output} exists", "--force replaces it")
    if not output.parent.is_dir():
        raise DeviceError(f"{output}: can't be written: {output.parent} is no folder")
    columns = (TextColumn("measuring"), BarColumn(), TimeElapsedColumn())
    errors = Console(stderr=True)
    with Progress(*columns, console=errors, transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("", total=1.0)
        found = measure_device(
            target,
            write=write,
            overwrite=overwrite,
            seconds=seconds,
            kind=kind,
            seed=seed,
            progress=lambda share: bar.update(task, completed=share),
        )
    write_whole(output, found.text.encode())
    # A file that can't be read again is a bug here: it must not be found later.
    shown = _ask("show", str(output))
    if as_json:
        print(
            json.dumps(
                {**shown, "reason": found.reason, "requests": found.requests, "seconds": found.seconds}
            )
        )
        return
    measured = sum(each["source"].startswith("measured") for each in shown["values"])
    console = Console(piped=160)
    console.print(Text(f"{output}: {found.kind}: {found.reason}"))
    console.print(
        Text(
            f"{measured} of {len(shown['values'])} values measured by {found.requests:,} requests in "
            f"{found.seconds:.0f} s{'' if found.target.realtime else ', without real-time priority'}; "
            f"iotrail device show {output} prints them"
        )
    )


def _short(value: Any) -> str:
    """A value in one line; of a list its length and ends."""
    if isinstance(value, list):
        ends = [_short(each) for each in (value[0], value[-1])] if value else []
        return f"{len(value)}: {' … '.join(ends)}"
    if isinstance(value, dict):
        return " ".join(f"{key} {_short(each)}" for key, each in value.items())
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:,}" if isinstance(value, int) else str(value)


@app.command()
def fit(
    trail: TrailPath,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="D.toml", help="Device file to write.")],
    device: Annotated[
        str | None,
        typer.Option(
            "--device", metavar="NAME", help="Device to fit, if the trail has several.", show_default=False
        ),
    ] = None,
    rpm: Annotated[
        float | None,
        typer.Option(
            "--rpm",
            metavar="RPM",
            help="Rotational speed, if known.",
            min=1000,
            max=30000,
            show_default=False,
        ),
    ] = None,
    capacity: Annotated[
        str | None,
        typer.Option(
            "--capacity",
            metavar="SIZE",
            help="Capacity, if known; default: where the requests end.",
            show_default=False,
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
    as_json: AsJson = False,
) -> None:
    """Fit a disk to the response times in a trail: a device file whose simulated times are distributed alike.

    Takes the reads and writes of one disk with platters. What they can't tell keeps a default, which the file says.
    """
    from iotrail.device import files
    from iotrail.device.fit import fit as fit_disk
    from iotrail.device.observe import observe
    from iotrail.options import size_of
    from iotrail.trail import Trail

    if output.exists() and not force:
        raise DeviceError(f"{output} exists", "--force replaces it")
    name, requests = observe(Trail(trail), device)
    bytes_ = None if capacity is None else size_of("--capacity", capacity)
    fitted = fit_disk(requests, [str(native.binary()), "simulate", "disk"], rpm, bytes_)
    files.write(
        output,
        name=f"{name}, fitted to {len(requests):,} requests",
        kind="disk",
        parameters=fitted.parameters,
        # track lengths make zones
        estimates={**fitted.estimates, "zones": fitted.estimates["track_bytes"]},
    )
    _ask("show", str(output))
    _show_fit(output, fitted.comparison, as_json)


def _show_fit(output: Path, found: "Comparison", as_json: bool) -> None:
    """Print how the fitted disk compares with the requests it was fitted to."""
    from dataclasses import asdict

    from rich.table import Table

    from iotrail.terminal import Console, Text

    if as_json:
        print(json.dumps({"device_file": str(output), **asdict(found)}))
        return
    console = Console(piped=120)
    share = found.demerit / found.measured_mean
    console.print(
        Text(
            f"{output}: fitted to {found.count:,} requests; distance of the distributions "
            f"{units.duration(found.demerit)}, {share:.1%} of the mean"
        )
    )
    table = Table(box=None, pad_edge=False)
    table.add_column("requests")
    for name in ("count", "measured mean", "simulated mean", "distance"):
        table.add_column(name, justify="right")
    for name, each in found.classes.items():
        times = (each.measured_mean, each.simulated_mean, each.demerit)
        table.add_row(*map(Text, (name, f"{each.count:,}", *map(units.duration, times))))
    console.print(table)
    console.print(
        "The distance is the root mean square of the horizontal distance between the two distributions.",
        style="dim",
    )

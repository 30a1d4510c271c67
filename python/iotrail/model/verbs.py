"""The command line of `iotrail model`."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from iotrail import units
from iotrail.errors import UsageError
from iotrail.options import TrailPath

if TYPE_CHECKING:
    from iotrail.model.check import Progress

app = typer.Typer(
    help="Fit, check and compare workload models.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)

# Of the native binary's numbers.
_MOST = 2**63 - 1

ModelPath = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL", help="Model file: JSON, or TOML if it ends with .toml.", show_default=False
    ),
]
ModelOutput = Annotated[
    Path, typer.Option("-o", "--output", metavar="FILE", help="Model file to write.", show_default=False)
]
Force = Annotated[bool, typer.Option("--force", help="Replace FILE if it exists.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")]
Seed = Annotated[int, typer.Option("--seed", min=0, max=_MOST, help="Seed of the random numbers.")]
MinCount = Annotated[
    int,
    typer.Option(
        "--min-count", min=1, max=_MOST, help="Sizes of fewer requests count as the mean of some near them."
    ),
]
Node = Annotated[
    str | None, typer.Option("--node", metavar="NAME", help="Of this machine only.", show_default=False)
]
On = Annotated[
    str | None,
    typer.Option(
        "--on", metavar="DEVICE", help="Compare response times on this device, simulated.", show_default=False
    ),
]
Seeds = Annotated[
    int,
    typer.Option(
        "--seeds",
        metavar="N",
        min=1,
        help="Draw with N seeds from --seed on (diff: from B): their median and spread.",
    ),
]
# A disk: on it places matter.
_DISK = "hdd-7200"
# As many devices with tables of their own still make a file that people read.
_MOST_FILES = 64


@app.callback()
def _main() -> None:
    pass


def _check_output(output: Path, force: bool) -> None:
    if output.suffix.lower() == ".toml":
        raise UsageError(f"{output}: a model is written as JSON", "name a file that doesn't end with .toml")
    if output.exists() and not force:
        raise UsageError(f"{output}: exists already", "--force replaces it, -o names another place")
    if not output.absolute().parent.is_dir():
        raise UsageError(f"{output}: can't be written: there is no folder {output.parent}")


def _write(text: str, output: Path) -> None:
    from iotrail.report import write_whole

    write_whole(output, text.encode())


@app.command()
def fit(
    trail: TrailPath,
    output: ModelOutput,
    levels: Annotated[
        str,
        typer.Option(
            "--levels",
            metavar="N|auto",
            help="How often ranges of addresses are divided in four; auto: until throughput changes by less than 2 %, at most 64 KiB.",
        ),
    ] = "auto",
    on: Annotated[
        str, typer.Option("--on", metavar="DEVICE", help="With --levels auto: the device, simulated.")
    ] = _DISK,
    min_count: MinCount = 5,
    node: Node = None,
    files: Annotated[
        int | None,
        typer.Option(
            "--files",
            metavar="N",
            min=1,
            max=_MOST_FILES,
            help="Fit reads, writes and flushes of programs in the N most used files, each as a device, instead of requests of disks.",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
    force: Force = False,
) -> None:
    """Fit a model to the requests of disks in a trail, or of files.

    How close its requests are, iotrail model check says: response times on a busy disk can be several times off.
    """
    from iotrail.model.fit import fit as fit_levels
    from iotrail.model.fit import fit_auto, text_of
    from iotrail.model.source import Source
    from iotrail.terminal import Console
    from iotrail.trail import Trail
    from iotrail.whatif.cache import check_node

    _check_output(output, force)
    if levels != "auto" and not (levels.isdecimal() and int(levels) <= 8):
        raise UsageError(f"--levels: expected auto or 0 to 8, found {levels!r}")
    opened, source = Trail(trail), Source(node, files)
    check_node(opened, node)
    if levels == "auto":
        model, series = fit_auto(opened, on, source=source, min_count=min_count)
    else:
        model, series = fit_levels(opened, int(levels), source=source, min_count=min_count), []
    named, left_out = source.files_of(opened), source.left_out(opened)
    text = text_of(model)
    _write(text, output)
    if as_json:
        print(
            json.dumps(
                {
                    "levels": model["levels"],
                    "bytes": len(text),
                    "series": [asdict(each) for each in series],
                    "files": [asdict(each) for each in named],
                    "left_out": left_out,
                }
            )
        )
        return
    console = Console(stderr=True, soft_wrap=True)
    for each in series:
        console.print(
            f"iotrail: {units.counted(each.levels, 'level')}, {units.size(each.bytes)}: "
            f"{each.iops:,.1f} requests per second on {on}"
        )
    for number, file in enumerate(named):
        console.print(f"iotrail: device {number}: {units.counted(file.requests, 'request')}, {file.path}")
    if left_out:
        why = "without a known place" if files is None else "of other files; a larger --files has more"
        console.print(f"iotrail: left out: {units.counted(left_out, 'request')} {why}")
    console.print(
        f"iotrail: {output}, {units.size(len(text))}: {units.counted(sum(model['rate']['counts']), 'request')}, "
        f"{units.counted(model['levels'], 'level')}; next: iotrail model check {output} --against {trail}"
    )


@app.command()
def show(
    model: ModelPath,
    reveals: Annotated[
        bool,
        typer.Option(
            "--reveals", help="Show what the file still tells about the original, and what it doesn't hold."
        ),
    ] = False,
    svg: Annotated[
        Path | None,
        typer.Option(
            "--svg",
            metavar="FILE",
            help="Draw the states and transitions; takes Graphviz.",
            show_default=False,
        ),
    ] = None,
    dot: Annotated[
        Path | None,
        typer.Option(
            "--dot", metavar="FILE", help="Write the drawing's graph for Graphviz.", show_default=False
        ),
    ] = None,
    windows: Annotated[
        str | None,
        typer.Option(
            "--windows",
            metavar="TIME",
            help="Show how windows of this length, such as 60s, differ from the whole: whether so short a run stands for it.",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
    force: Force = False,
) -> None:
    """Show what a model holds."""
    from iotrail.model import diagram, similarity_text
    from iotrail.model import reveals as revealing
    from iotrail.model.fit import load
    from iotrail.model.show import show as text
    from iotrail.requests.dot import write_source
    from iotrail.terminal import Console

    is_drawn = svg is not None or dot is not None
    if (is_drawn and (reveals or as_json or windows)) or (reveals and windows):
        raise UsageError(
            f"{'--svg' if svg else '--dot' if dot else '--windows'} can't be combined with "
            f"{'--reveals' if reveals else '--windows' if windows else '--json'}",
            "run iotrail model show twice",
        )
    found = load(model)
    if is_drawn:
        write_source(diagram.text(diagram.diagram(found)), dot, svg, force=force)
        return
    if windows is not None:
        similar = similarity_text.of_windows(model, windows)
        lines = similarity_text.show(similar)
        if as_json:
            print(similarity_text.as_json(similar))
            return
    elif reveals:
        revealed = revealing.reveal(found)
        lines = revealing.show(revealed)
        if as_json:
            print(json.dumps(revealed.as_dict()))
            return
    elif as_json:
        print(json.dumps(found))
        return
    else:
        lines = text(found)
    console = Console(piped=160)
    for line in lines:
        console.print(line)


@app.command()
def scale(
    model: ModelPath,
    output: ModelOutput,
    capacity: Annotated[
        float, typer.Option("--capacity", metavar="F", help="Multiply the addresses of devices by this.")
    ] = 1.0,
    rate: Annotated[
        float, typer.Option("--rate", metavar="F", help="Divide the times between requests by this.")
    ] = 1.0,
    force: Force = False,
) -> None:
    """Write a model with more or fewer addresses, or faster or slower arrivals.

    Sizes of requests, lengths of runs and offsets in the largest runs stay as they are.
    """
    from iotrail.model.fit import load, text_of
    from iotrail.model.scale import scale as scaled
    from iotrail.terminal import Console

    for name, factor in (("--capacity", capacity), ("--rate", rate)):
        if not 0 < factor < float("inf"):
            raise UsageError(f"{name}: expected a number above 0, found {factor:g}", "1 changes nothing")
    if capacity == rate == 1:
        raise UsageError(
            "neither --capacity nor --rate: nothing to scale", "name one of them, such as --capacity 2"
        )
    _check_output(output, force)
    found = scaled(load(model), capacity, rate)
    _write(text_of(found), output)
    reaches = ", ".join(units.size(each["reach_bytes"]) for each in found["devices"])
    Console(stderr=True, soft_wrap=True).print(
        f"iotrail: {output}: {sum(found['rate']['counts']):,} requests in {units.duration(found['rate']['length_ns'])}, "
        f"{reaches}; next: iotrail model diff {model} {output}"
    )


@app.command()
def merge(
    output: ModelOutput,
    models: Annotated[
        list[Path] | None,
        typer.Argument(metavar="MODEL…", help="Model files, two or more.", show_default=False),
    ] = None,
    same_devices: Annotated[
        bool,
        typer.Option(
            "--same-devices",
            help="Put device k of each model on the same device, at the same addresses. Default: each model has its own devices.",
        ),
    ] = False,
    repeat: Annotated[
        bool,
        typer.Option("--repeat", help="Draw shorter models again until the longest ends."),
    ] = False,
    seed: Seed = 1,
    min_count: MinCount = 5,
    as_json: AsJson = False,
    force: Force = False,
) -> None:
    """Write a model of several workloads that run side by side.

    Requests of all are drawn, each model's with another seed, put into the order of their times and fitted anew: errors of
    drawing and of fitting add up.
    """
    from iotrail.model.fit import load, text_of
    from iotrail.model.merge import merge as merge_models
    from iotrail.model.show import requests_of
    from iotrail.terminal import Console

    models = models or []
    if len(models) < 2:
        raise UsageError(
            f"expected two models or more, found {len(models)}",
            "iotrail model merge A.json B.json -o C.json; a model can be named twice",
        )
    if any(each.resolve() == output.resolve() for each in models):
        raise UsageError(f"{output}: is read and can't be written too", "-o names another place")
    _check_output(output, force)
    merged, parts = merge_models(
        [load(each) for each in models],
        same_devices=same_devices,
        repeat=repeat,
        seed=seed,
        min_count=min_count,
    )
    text = text_of(merged)
    _write(text, output)
    if as_json:
        rows = [{"model": str(path), **asdict(part)} for path, part in zip(models, parts, strict=True)]
        whole = {"levels": merged["levels"], "bytes": len(text), "requests": requests_of(merged)}
        print(json.dumps({**whole, "length_ns": merged["rate"]["length_ns"], "models": rows}))
        return
    console = Console(stderr=True, soft_wrap=True)
    longest_ns = max(part.length_ns for part in parts)
    for path, part in zip(models, parts, strict=True):
        # the last arrivals of two draws differ a little
        if part.length_ns < 0.99 * longest_ns:
            console.print(
                f"iotrail: {path} ends after {units.duration(part.length_ns)} of {units.duration(longest_ns)}"
            )
    console.print(
        f"iotrail: {output}, {units.size(len(text))}: {requests_of(merged):,} requests of "
        f"{units.counted(len(merged['devices']), 'device')}, {units.counted(merged['levels'], 'level')}; next: iotrail model show {output}"
    )


@app.command()
def diff(
    first: Annotated[Path, typer.Argument(metavar="A", help="Model file.", show_default=False)],
    second: Annotated[Path, typer.Argument(metavar="B", help="Model file.", show_default=False)],
    on: On = None,
    seed: Seed = 1,
    seeds: Seeds = 1,
    as_json: AsJson = False,
) -> None:
    """Compare the requests of two models.

    Requests are drawn from both and described as iotrail model check does. Beside each deviation of B from A stands that of a
    second draw from A.
    """
    from iotrail.model.check import diff as compare
    from iotrail.model.check_text import show as show_check
    from iotrail.model.fit import load

    models = load(first), load(second)
    with _progress() as progress:
        result = compare(*models, seed=seed, seeds=seeds, on=on, progress=progress)
    if as_json:
        asked = {"a": str(first), "b": str(second), "seed": seed, "seeds": seeds}
        print(json.dumps({**asked, **result.as_diff()}))
        return
    print(f"A: {first}\nB: {second}")
    show_check(result)


@app.command()
def schema() -> None:
    """Print the JSON Schema of model files."""
    import subprocess

    from iotrail import native

    done = subprocess.run([native.binary(), "model", "schema"], capture_output=True, text=True, check=True)
    print(json.dumps(json.loads(done.stdout), indent=2))


@app.command()
def check(
    model: ModelPath,
    against: Annotated[
        Path,
        typer.Option("--against", metavar="X.trail", help="The trail it was fitted to.", show_default=False),
    ],
    on: On = None,
    seed: Seed = 1,
    seeds: Seeds = 1,
    node: Node = None,
    html: Annotated[
        Path | None,
        typer.Option(
            "--html",
            metavar="FILE",
            help="Write a page: the table, maps of offsets, miss ratios, arrivals.",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
    force: Force = False,
) -> None:
    """Compare the requests of a model with those of a trail.

    Beside each deviation stand the trail's own noise, its halves from each other, and what requests with only the trail's
    aggregates deviate by.
    """
    from iotrail import page
    from iotrail.model.check import check as compare
    from iotrail.model.fit import load
    from iotrail.trail import Trail

    if html is not None:
        page.check(html, "model check", force=force)
    with _progress() as progress:
        result = compare(
            load(model), Trail(against), seed=seed, seeds=seeds, on=on, node=node, progress=progress
        )
    if html is not None:
        from iotrail.model.check_page import render

        page.write(html, render(result, str(model), str(against)))
    if as_json:
        asked = {"model": str(model), "against": str(against), "node": node, "seed": seed, "seeds": seeds}
        print(json.dumps({**asked, **result.as_dict()}))
    else:
        from iotrail.model.check_text import show as show_check

        show_check(result)


@app.command()
def export(
    format: Annotated[str, typer.Argument(metavar="FORMAT", help="fio.", show_default=False)],
    model: ModelPath,
    output: Annotated[
        Path,
        typer.Option("-o", "--output", metavar="FILE", help="Job file to write.", show_default=False),
    ],
    zoned: Annotated[
        bool,
        typer.Option("--zoned", help="Place requests by the shares of the model's states, in zones."),
    ] = False,
    seed: Seed = 1,
    force: Annotated[bool, typer.Option("--force", help="Replace FILE if it exists.")] = False,
) -> None:
    """Write a fio job with a model's aggregates: rates, mix, sizes, sequential shares.

    What a fio job can't hold, bursts, reuse and the order of requests, stands in the file.
    """
    from iotrail.model import fio
    from iotrail.terminal import Console

    if format != "fio":
        raise UsageError(
            f"no format {format!r}", "there is fio; iotrail export has more, for trails: iotrail generate -o"
        )
    _check_output(output, force)
    text = fio.export(model, seed=seed, zoned=zoned)
    _write(text, output)
    Console(stderr=True, soft_wrap=True).print(f"iotrail: {output}; next: TARGET=PATH fio {output}")


@contextmanager
def _progress() -> Iterator["Progress"]:
    """A bar on a terminal."""
    import sys

    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    from iotrail.terminal import Console

    columns = (TextColumn("iotrail: {task.description}"), BarColumn(), TimeElapsedColumn())
    errors = Console(stderr=True)
    with Bar(*columns, console=errors, transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("reading", total=None)
        yield lambda name, done, steps: bar.update(task, description=name, completed=done, total=steps)

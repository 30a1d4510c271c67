"""The command line of `iotrail whatif`."""

from typing import Annotated

import typer

from iotrail.errors import UsageError
from iotrail.options import TrailPath, size_of

app = typer.Typer(
    help="What a change would bring: asked of a trail, with the devices and caches simulated.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)


@app.callback()
def _main() -> None:
    pass


@app.command()
def cache(
    trail: TrailPath,
    policy: Annotated[
        str,
        typer.Option("--policy", metavar="NAME,…", help="Of lru, fifo, clock, lfu, 2q, arc, s3-fifo, sieve."),
    ] = "lru,fifo,clock,lfu,2q,arc,s3-fifo,sieve",
    size: Annotated[
        str | None,
        typer.Option(
            "--size",
            metavar="64M,…",
            help="Sizes of the cache; without, eight up to all different blocks, each half of the next.",
            show_default=False,
        ),
    ] = None,
    block: Annotated[str, typer.Option("--block", metavar="4k", help="Size of a block.")] = "4k",
    of: Annotated[
        str | None,
        typer.Option(
            "--of",
            metavar="files|disks",
            help="Reads and writes of files, or requests of disks; without, files if there are any.",
            show_default=False,
        ),
    ] = None,
    node: Annotated[
        str | None,
        typer.Option(
            "--node", metavar="NAME", help="Of this machine; without, one cache for all.", show_default=False
        ),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print counts as JSON, with the curve of LRU caches of all sizes.")
    ] = False,
) -> None:
    """What a cache would have missed, by its size and policy.

    Each read or write brings the blocks it touches into the cache, which is empty at first. Counts are exact.
    """
    from iotrail.trail import Trail
    from iotrail.whatif import cache as verb

    if of not in (None, "files", "disks"):
        raise UsageError(f"--of: expected files or disks, found {of!r}")
    verb.run(
        Trail(trail),
        policies=list(dict.fromkeys(name.strip().lower() for name in policy.split(",") if name.strip())),
        sizes=sorted({size_of("--size", part) for part in size.split(",")}) if size else [],
        block=size_of("--block", block),
        of=of,
        node=node,
        as_json=json,
    )


@app.command()
def device(
    trail: TrailPath,
    on: Annotated[
        list[str],
        typer.Option(
            "--on",
            metavar="DEVICE",
            help="Device file, or the name of one that comes with iotrail (iotrail device list). May be given several times.",
        ),
    ],
    fold: Annotated[
        bool, typer.Option("--fold", help="Wrap offsets that lie beyond the end of a device.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the numbers as JSON.")] = False,
) -> None:
    """Response times and elapsed time of the recorded requests on other devices.

    Takes the requests of disks: of a block trace, of [bold]record --kernel[/bold], or of an emulated disk. A record doesn't say
    whether a program waited for each request, so the elapsed time is a range: nobody waits, or each request waits for the
    last completion before it.
    """
    from iotrail.trail import Trail
    from iotrail.whatif import device as verb

    verb.run(Trail(trail), on=on, fold=fold, as_json=json)

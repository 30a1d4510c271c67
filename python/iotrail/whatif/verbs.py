"""The command line of `iotrail whatif`."""

import re
from pathlib import Path
from typing import Annotated

import typer

from iotrail.errors import UsageError
from iotrail.options import TrailPath, size_of
from iotrail.units import NANOSECONDS
from iotrail.whatif.system import verbs as system

app = typer.Typer(
    help="Predict what a change of devices, caches or the system brings.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)

# A trail, or a model to draw requests from.
RequestsPath = Annotated[
    Path,
    typer.Argument(metavar="X.trail|MODEL", help="The trail to read, or a model file.", show_default=False),
]
_Seed = Annotated[
    int | None,
    typer.Option(
        "--seed", min=0, help="Of a model: seed of the random numbers (default: 1).", show_default=False
    ),
]
_ALL = "lru,fifo,clock,lfu,2q,arc,s3-fifo,sieve"


def _nanoseconds(option: str, text: str) -> int:
    match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)\s*(ns|us|µs|ms|s)", text.strip())
    if match is None:
        raise UsageError(f"{option}: expected a time like 20us, found {text!r}")
    return round(float(match[1]) * NANOSECONDS[match[2]])


@app.callback()
def _main() -> None:
    pass


def _factors_or_devices(text: str) -> tuple[list[float], list[str]]:
    """What --io says: no device that comes with iotrail has a number as its name."""
    factors, devices = [], []
    for word in text.split(","):
        try:
            factors.append(float(word))
        except ValueError:
            devices.append(word.strip())
    if not all(0 <= factor <= 1e6 for factor in factors) or not all(devices):
        raise UsageError(f"--io: expected factors of at least 0 or devices, as 0.1,hdd-7200, found {text!r}")
    return factors, devices


def _kinds(text: str | None) -> list[str]:
    """What --by says."""
    known = ("file", "call", "rank", "lock")
    kinds = [] if text is None else [word.strip() for word in text.split(",")]
    if not all(kind in known for kind in kinds):
        raise UsageError(f"--by: expected some of {', '.join(known)}, found {text!r}")
    return kinds


@app.command()
def run(
    trail: TrailPath,
    io: Annotated[
        str,
        typer.Option(
            "--io",
            metavar="F|DEVICE,…",
            help="Factors on the time of calls on files (0.1 is ten times as fast), or devices that do them: files, or names of "
            "iotrail device list.",
        ),
    ] = "1",
    journal: Annotated[
        bool,
        typer.Option("--journal/--no-journal", help="Whether the file system on a device has a journal."),
    ] = True,
    volume: Annotated[
        str | None,
        typer.Option(
            "--volume", metavar="SIZE", help="Its size (default: the device's).", show_default=False
        ),
    ] = None,
    warm: Annotated[
        bool,
        typer.Option("--warm", help="The page cache there has the files at first (default: it is empty)."),
    ] = False,
    where: Annotated[
        str | None,
        typer.Option(
            "--where",
            metavar="SQL",
            help="Which calls --io is for: a condition on columns of module op (default: all).",
            show_default=False,
        ),
    ] = None,
    compute: Annotated[
        float,
        typer.Option("--compute", metavar="F", min=0, max=1e6, help="Factor on CPU time between calls."),
    ] = 1.0,
    lock: Annotated[
        float,
        typer.Option(
            "--lock",
            metavar="F",
            min=0,
            max=1e6,
            help="Factor on CPU time of threads while they have a lock.",
        ),
    ] = 1.0,
    by: Annotated[
        str | None,
        typer.Option(
            "--by",
            metavar="file,call,rank,lock",
            help="Print how much faster the run would be if each file, call, rank or lock took less time.",
            show_default=False,
        ),
    ] = None,
    cores: Annotated[
        int | None,
        typer.Option(
            "--cores", metavar="N", min=1, max=65536, help="Cores (default: as recorded).", show_default=False
        ),
    ] = None,
    samples: Annotated[
        int,
        typer.Option(
            "--samples", metavar="N", min=0, max=10_000, help="Simulations that the range is made of."
        ),
    ] = 20,
    seed: Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Of the samples.")] = 1,
    force: Annotated[
        bool, typer.Option("--force", help="Answer although half of what threads waited for is unexplained.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the same as JSON.")] = False,
) -> None:
    """How long a run recorded with --causal would take with other storage, faster or slower computing, or other cores."""
    from iotrail.trail import Trail
    from iotrail.whatif.run import run as ask

    io_factors, devices = _factors_or_devices(io)
    ask(
        Trail(trail),
        io=io_factors,
        devices=devices,
        journal=journal,
        volume=None if volume is None else size_of("--volume", volume),
        warm=warm,
        where=where,
        compute=compute,
        lock=lock,
        by=_kinds(by),
        cores=cores,
        samples=samples,
        seed=seed,
        force=force,
        as_json=json,
    )


@app.command()
def cache(
    trail: RequestsPath,
    policy: Annotated[
        str,
        typer.Option("--policy", metavar="NAME,…", help="Of lru, fifo, clock, lfu, 2q, arc, s3-fifo, sieve."),
    ] = _ALL,
    size: Annotated[
        str | None,
        typer.Option(
            "--size",
            metavar="64M,…",
            help="Sizes of the cache (default: eight up to all different blocks, each half of the next; "
            "with --on 0, 8, 16, 24 and 32 GB).",
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
    shards: Annotated[
        float | None,
        typer.Option(
            "--shards",
            metavar="RATE",
            help="Estimate from a sample of this share of all blocks (0.01), with confidence intervals.",
            show_default=False,
        ),
    ] = None,
    on: Annotated[
        str | None,
        typer.Option(
            "--on",
            metavar="DEVICE",
            help="Response times on this device with the cache before it: a device file, or a name of iotrail device list.",
            show_default=False,
        ),
    ] = None,
    cache_device: Annotated[
        str | None,
        typer.Option(
            "--cache-device",
            metavar="DEVICE",
            help="With --on: the device that the cache is in.",
            show_default=False,
        ),
    ] = None,
    cache_latency: Annotated[
        str | None,
        typer.Option(
            "--cache-latency",
            metavar="20us",
            help="With --on: the cache is in memory with this latency.",
            show_default=False,
        ),
    ] = None,
    write: Annotated[
        str, typer.Option("--write", metavar="back|through|around", help="With --on: where writes go.")
    ] = "back",
    fold: Annotated[
        bool, typer.Option("--fold", help="With --on: wrap offsets that lie beyond the end of the device.")
    ] = False,
    seed: _Seed = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print counts as JSON, with the curve of LRU caches of all sizes.")
    ] = False,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Write a page with the curves too.", show_default=False),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace FILE if it exists.")] = False,
) -> None:
    """What a cache would have missed, by its size and policy; with --on, what it would have brought.

    Each read or write brings the blocks it touches into the cache, which is empty at first. Counts are exact unless --shards
    estimates them. With --on, the requests of disks run in virtual time on a device with a cache of one policy before it.
    A model's requests are drawn first.
    """
    from iotrail.whatif.source import open_source

    if of not in (None, "files", "disks"):
        raise UsageError(f"--of: expected files or disks, found {of!r}")
    policies = list(dict.fromkeys(name.strip().lower() for name in policy.split(",") if name.strip()))
    block_bytes = size_of("--block", block)
    of_recording = "--of files" if of == "files" else "--node" if node is not None else None
    if on is not None:
        from iotrail.whatif import cached

        for option, is_given in (
            ("--shards", shards is not None),
            ("--html", html is not None),
            ("--of files", of == "files"),
        ):
            if is_given:
                raise UsageError(f"{option} can't be combined with --on")
        if policy != _ALL and len(policies) != 1:
            raise UsageError(f"--policy: expected one with --on, found {policy}")
        with open_source(trail, seed, of_recording=of_recording) as source:
            cached.run(
                source,
                on=on,
                medium=cached.Medium(
                    cache_device,
                    None if cache_latency is None else _nanoseconds("--cache-latency", cache_latency),
                ),
                policy="lru" if policy == _ALL else policies[0],
                sizes=[
                    0 if part.strip() == "0" else size_of("--size", part)
                    for part in (size or "").split(",")
                    if part
                ],
                block=block_bytes,
                write=write,
                node=node,
                fold=fold,
                as_json=json,
            )
        return
    if cache_device is not None or cache_latency is not None or fold:
        raise UsageError("--cache-device, --cache-latency and --fold need --on")
    from iotrail.whatif import cache as verb

    with open_source(trail, seed, of_recording=of_recording) as source:
        verb.run(
            source,
            policies=policies,
            sizes=sorted({size_of("--size", part) for part in size.split(",")}) if size else [],
            block=block_bytes,
            of=of,
            node=node,
            rate=shards,
            as_json=json,
            html=html,
            force=force,
        )


@app.command()
def device(
    trail: RequestsPath,
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
    seed: _Seed = None,
    json: Annotated[bool, typer.Option("--json", help="Print the numbers as JSON.")] = False,
) -> None:
    """Response times and elapsed time of the recorded requests on other devices.

    Takes the requests of disks: of a block trace, of [bold]record --kernel[/bold], or of an emulated disk. A record doesn't say
    whether a program waited for each request, so the elapsed time is a range: nobody waits, or each request waits for the
    last completion before it. A model's requests are drawn first, and nobody waits for them.
    """
    from iotrail.whatif import device as verb
    from iotrail.whatif.source import open_source

    with open_source(trail, seed) as source:
        verb.run(source, on=on, fold=fold, as_json=json)


@app.command()
def defrag(
    trail: TrailPath,
    on: Annotated[
        str,
        typer.Option(
            "--on",
            metavar="DEVICE",
            help="Device file, or the name of one that comes with iotrail (iotrail device list).",
        ),
    ],
    fiemap: Annotated[
        bool,
        typer.Option(
            "--fiemap", help="Ask the kernel of this machine where the recorded files are (FIEMAP)."
        ),
    ] = False,
    by_first_use: Annotated[
        bool,
        typer.Option(
            "--by-first-use",
            help="Where requests don't say their offset in the file: its blocks are in the order of their first use.",
        ),
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="Y.trail",
            help="Write the rearranged requests as a trail too.",
            show_default=False,
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace Y.trail if it exists.")] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print the numbers as JSON, with those of each file.")
    ] = False,
) -> None:
    """Response times if the blocks of each file lay one after the other, and when rearranging them has paid.

    Takes the requests of disks, as [bold]whatif device[/bold], that say which part of which file they are for: a block trace
    with inodes and offsets, or a recording of this machine, with [bold]--fiemap[/bold].
    """
    from iotrail.trail import Trail
    from iotrail.whatif import defrag as verb
    from iotrail.whatif.source import refuse_model

    refuse_model(trail, "which part of which file a request is for")
    verb.run(
        Trail(trail),
        on=on,
        fiemap=fiemap,
        first_use=by_first_use,
        output=output,
        force=force,
        as_json=json,
    )


for verb in (system.ram, system.move, system.merge, system.encode):
    app.command()(verb)

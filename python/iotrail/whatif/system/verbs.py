"""The command line of what is asked of trails of requests."""

from typing import Annotated

import typer

from iotrail.errors import UsageError
from iotrail.options import TrailPath, size_of

_On = Annotated[
    str | None,
    typer.Option(
        "--on",
        metavar="DEVICE",
        help="Disks are such devices: a device file, or a name of iotrail device list. Without, requests to disks take as "
        "long as in the record.",
        show_default=False,
    ),
]
_Json = Annotated[bool, typer.Option("--json", help="Print the numbers as JSON.")]
_Client = Annotated[str, typer.Option("--client", metavar="NAME", help="Whose files.", show_default=False)]

# What a model lacks.
_NEEDED = "requests of clients, which this verb needs"


def _names(text: str | None) -> list[str]:
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def ram(
    trail: TrailPath,
    size: Annotated[
        str, typer.Option("--size", metavar="64M,…", help="Sizes of the cache.", show_default=False)
    ],
    cache: Annotated[
        str | None,
        typer.Option(
            "--cache",
            metavar="NAME",
            help="Which: a component, of all machines, or MACHINE/COMPONENT; needed where there are several.",
            show_default=False,
        ),
    ] = None,
    policy: Annotated[
        str, typer.Option("--policy", metavar="NAME", help="As of whatif cache; all caches have it.")
    ] = "lru",
    on: _On = None,
    json: _Json = False,
) -> None:
    """What more memory, or less, would bring a system's clients.

    Takes trails of requests whose buffer caches were recorded (buffer_op). All accesses run through caches of these sizes; what
    a miss fetched from other machines and disks is left out where it is a hit now, and made where a hit is a miss now.
    """
    from iotrail.trail import Trail
    from iotrail.whatif.source import refuse_model
    from iotrail.whatif.system import ask

    refuse_model(trail, _NEEDED)

    sizes = [size_of("--size", part) for part in _names(size)]
    if not sizes:
        raise UsageError("--size: expected one or more sizes")
    ask.ram(Trail(trail), cache=cache, sizes=sizes, policy=policy, options=ask.Options(on, json))


def move(
    trail: TrailPath,
    client: _Client,
    to: Annotated[
        str, typer.Option("--to", metavar="MACHINE,…", help="Where they are then.", show_default=False)
    ],
    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="MACHINE,…",
            help="Where they are, one for each of --to (default: all machines with files of the client, by name).",
            show_default=False,
        ),
    ] = None,
    on: _On = None,
    json: _Json = False,
) -> None:
    """What a client's files on other machines would bring, to it and to all others.

    Caches and disks of these machines then serve who is there.
    """
    from iotrail.trail import Trail
    from iotrail.whatif.source import refuse_model
    from iotrail.whatif.system import ask

    refuse_model(trail, _NEEDED)

    ask.move(
        Trail(trail), client=client, sources=_names(source), targets=_names(to), options=ask.Options(on, json)
    )


def merge(
    trail: TrailPath,
    client: _Client,
    other: Annotated[
        str,
        typer.Option(
            "--with", metavar="NAME", help="Whose files come to the same machines.", show_default=False
        ),
    ],
    on: _On = None,
    json: _Json = False,
) -> None:
    """What another client's files on the machines of a client's would bring both."""
    from iotrail.trail import Trail
    from iotrail.whatif.source import refuse_model
    from iotrail.whatif.system import ask

    refuse_model(trail, _NEEDED)

    ask.merge(Trail(trail), client=client, other=other, options=ask.Options(on, json))


def encode(
    trail: TrailPath,
    client: _Client,
    copies: Annotated[
        int, typer.Option("--copies", metavar="N", help="Copies of each file.", show_default=False)
    ],
    on: _On = None,
    json: _Json = False,
) -> None:
    """What more or fewer copies of a client's files would bring, to it and to all others."""
    from iotrail.trail import Trail
    from iotrail.whatif.source import refuse_model
    from iotrail.whatif.system import ask

    refuse_model(trail, _NEEDED)

    ask.encode(Trail(trail), client=client, copies=copies, options=ask.Options(on, json))

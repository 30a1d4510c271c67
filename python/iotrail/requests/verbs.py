"""The command line's questions about requests: their options, and what each is for."""

import enum
import re
from pathlib import Path
from typing import Annotated

import typer

from iotrail.options import Format, TrailPath

ClientOption = Annotated[
    str | None,
    typer.Option("--client", metavar="A", help="Only requests of this client.", show_default=False),
]
OpOption = Annotated[
    str | None, typer.Option("--op", help="Only requests for this, like read.", show_default=False)
]
ComponentOption = Annotated[
    str | None,
    typer.Option("--component", help="Only requests that arrived at this component.", show_default=False),
]
SinceOption = Annotated[
    str | None,
    typer.Option(
        "--from", metavar="TIME", help="Start time: 2026-03-01T14:00, 14:00, or +30s.", show_default=False
    ),
]
UntilOption = Annotated[
    str | None, typer.Option("--to", metavar="TIME", help="End time, exclusive.", show_default=False)
]

ThroughOption = Annotated[
    str | None,
    typer.Option(
        "--through",
        metavar="NAME",
        help="Only requests that went through this machine or member (osd.3).",
        show_default=False,
    ),
]


class By(enum.StrEnum):
    """What tells the steps of requests apart, beside what happens in them."""

    NODE = "node"


ByOption = Annotated[
    By | None, typer.Option("--by", help="Steps of each machine by themselves.", show_default=False)
]
DotOption = Annotated[
    Path | None,
    typer.Option("--dot", metavar="FILE", help="Write the graph for Graphviz instead.", show_default=False),
]
SvgOption = Annotated[
    Path | None,
    typer.Option("--svg", metavar="FILE", help="Draw the graph instead: needs Graphviz.", show_default=False),
]
HtmlOption = Annotated[
    Path | None,
    typer.Option("--html", metavar="FILE", help="Also write a page that shows it.", show_default=False),
]
ForceDrawing = Annotated[bool, typer.Option("--force", help="Replace FILE if it exists.")]


def path(
    trail: TrailPath,
    crumb: Annotated[
        int | None,
        typer.Option(
            "--crumb", metavar="N", help="The request that this breadcrumb belongs to.", show_default=False
        ),
    ] = None,
    trace: Annotated[
        str | None,
        typer.Option(
            "--trace", metavar="ID", help="The requests of this OpenTelemetry trace.", show_default=False
        ),
    ] = None,
    node: Annotated[
        str | None, typer.Option("--node", help="The breadcrumb's machine.", show_default=False)
    ] = None,
    slowest: Annotated[
        int | None,
        typer.Option("--slowest", metavar="N", help="The N requests that took longest.", show_default=False),
    ] = None,
    client: ClientOption = None,
    op: OpOption = None,
    component: ComponentOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    through: ThroughOption = None,
    timeline: Annotated[bool, typer.Option("--timeline", help="Draw bars on one line of time.")] = False,
    dot: DotOption = None,
    svg: SvgOption = None,
    html: HtmlOption = None,
    force: ForceDrawing = False,
    json: Annotated[bool, typer.Option("--json", help="Print all records as JSON.")] = False,
) -> None:
    """Show the path of a request through components and machines, and what is missing from it.

    Examples:

      iotrail path X.trail --slowest 10 --client alice
      iotrail path X.trail --crumb 4711 --timeline
      iotrail path X.trail --trace 0af7651916cd43dd8448eb211c80319c
    """
    from iotrail.requests import path_command
    from iotrail.trail import Trail

    path_command.run(
        Trail(trail),
        crumb=crumb,
        trace=trace,
        node=node,
        slowest=slowest,
        client=client,
        op=op,
        component=component,
        since=since,
        until=until,
        through=through,
        timeline=timeline,
        dot=dot,
        svg=svg,
        html=html,
        force=force,
        as_json=json,
    )


def graph(
    trail: TrailPath,
    by: ByOption = None,
    client: ClientOption = None,
    op: OpOption = None,
    component: ComponentOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    through: ThroughOption = None,
    dot: DotOption = None,
    svg: SvgOption = None,
    html: HtmlOption = None,
    force: ForceDrawing = False,
    json: Annotated[bool, typer.Option("--json", help="Print the graph as JSON.")] = False,
) -> None:
    """Show where requests spend their time: each step between two points, and the critical path.

    Examples:

      iotrail graph X.trail --op create --client alice
      iotrail graph X.trail --from 14:00 --to 14:05 --svg slow.svg
      iotrail graph X.trail --through osd.3
      iotrail graph X.trail --op read --by node
    """
    from iotrail.requests import graph as question
    from iotrail.trail import Trail

    question.run(
        Trail(trail),
        client=client,
        op=op,
        component=component,
        since=since,
        until=until,
        through=through,
        by_node=by is By.NODE,
        dot=dot,
        svg=svg,
        html=html,
        as_json=json,
        force=force,
    )


def demand(
    trail: TrailPath,
    by: Annotated[
        str, typer.Option("--by", metavar="A,B", help="Group by these: client, resource, node, component.")
    ] = "client,resource",
    every: Annotated[
        str | None,
        typer.Option(
            "--every", metavar="60s", help="Also group by time: 10ms, 1s, 5min.", show_default=False
        ),
    ] = None,
    since: SinceOption = None,
    until: UntilOption = None,
    format: Annotated[Format, typer.Option("--format", help="How rows are written.")] = Format.TABLE,
    json: Annotated[bool, typer.Option("--json", help="As --format json.")] = False,
) -> None:
    """Show how much CPU, buffer cache, network and disk each client's requests used.

    Deferred work, and work done for several requests at once, is billed to the clients that caused it. Examples:

      iotrail demand X.trail
      iotrail demand X.trail --by client,resource,node --every 60s --format csv
    """
    from iotrail.requests import demand as question
    from iotrail.trail import Trail

    question.run(
        Trail(trail),
        by=[name for name in re.split(r"[,\s]+", by) if name],
        every=every,
        since=since,
        until=until,
        format="json" if json else format.value,
    )


class Level(enum.StrEnum):
    """Where arrivals are looked at."""

    REQUEST = "request"
    MESSAGE = "message"
    DISK = "disk"


def arrivals(
    trail: TrailPath,
    at: Annotated[
        Level | None,
        typer.Option(
            "--at",
            help="Only arrivals of requests, messages, or disk requests.",
            show_default=False,
        ),
    ] = None,
    client: ClientOption = None,
    op: OpOption = None,
    component: ComponentOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    svg: Annotated[
        Path | None,
        typer.Option("--svg", metavar="FILE", help="Draw the distributions instead.", show_default=False),
    ] = None,
    html: HtmlOption = None,
    force: ForceDrawing = False,
    json: Annotated[bool, typer.Option("--json", help="Print all figures as JSON.")] = False,
) -> None:
    """Show how requests arrive, and which response times a queueing model predicts.

    If no model fits, it says why. Examples:

      iotrail arrivals X.trail
      iotrail arrivals X.trail --at disk --client alice --svg arrivals.svg
    """
    from iotrail.requests import arrivals as question
    from iotrail.trail import Trail

    question.run(
        Trail(trail),
        at=at.value if at else None,
        client=client,
        op=op,
        component=component,
        since=since,
        until=until,
        svg=svg,
        html=html,
        as_json=json,
        force=force,
    )


def explain(
    trail: TrailPath,
    client: Annotated[
        str | None,
        typer.Option("--client", metavar="A", help="The client that complains.", show_default=False),
    ] = None,
    op: OpOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    link: Annotated[
        str | None,
        typer.Option(
            "--link",
            metavar="10Gbit/s",
            help="Bandwidth of each machine's network, to tell whether it was saturated.",
            show_default=False,
        ),
    ] = None,
    svg: Annotated[
        Path | None,
        typer.Option(
            "--svg",
            metavar="FILE",
            help="Instead, draw the client's accesses and the use of resources.",
            show_default=False,
        ),
    ] = None,
    html: HtmlOption = None,
    force: ForceDrawing = False,
    json: Annotated[bool, typer.Option("--json", help="Print all of it as JSON.")] = False,
) -> None:
    """Explain why a client's requests were slow: a saturated resource, a step that is slower than usual, or the access pattern.

    Each sentence shows its evidence. Examples:

      iotrail explain X.trail --client alice --from 14:00 --to 14:05
      iotrail explain X.trail --client alice --link 10Gbit/s --html why.html
    """
    from iotrail.requests.explain import command
    from iotrail.trail import Trail

    command.run(
        Trail(trail),
        client=client,
        op=op,
        since=since,
        until=until,
        link=link,
        svg=svg,
        html=html,
        as_json=json,
        force=force,
    )

"""`iotrail explain` on a terminal, and what its options mean."""

import re

from rich.table import Table

from iotrail.errors import IotrailError, UsageError
from iotrail.requests import find
from iotrail.requests.explain.command import Asked, Explanation
from iotrail.requests.explain.resources import Resource
from iotrail.requests.explain.verdict import Sentence
from iotrail.terminal import WIDE, Console, Text
from iotrail.trail import Trail
from iotrail.units import duration, human
from iotrail.visible import one_line

# Lines of a table.
MOST_ROWS = 12
_LINK = re.compile(r"(\d+(?:\.\d+)?)\s*([kMGT]?)(bit|B)(?:/s|ps)?", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
TITLES = {"resources": "Resources", "latency": "Latency", "pattern": "Pattern", "time": "Time"}


def the_client(trail: Trail, client: str | None) -> str:
    """Whom it is about: who is named, or the only one there is."""
    if client is not None:
        return client
    find.expect_requests(trail)
    rows = trail.rows_of("SELECT DISTINCT client FROM request WHERE client IS NOT NULL ORDER BY client")
    known = [row["client"] for row in rows]
    if len(known) == 1:
        return str(known[0])
    if not known:
        raise IotrailError(
            "no request names its client",
            "the component where requests enter says who asks: docs/requests.md",
        )
    raise UsageError("who complains?", f"--client {known[0]}; there are {', '.join(known[:10])}")


def link_speed(text: str | None) -> int:
    """What `--link` says, in bytes a second; 0 for none."""
    if text is None:
        return 0
    found = _LINK.fullmatch(text.strip())
    speed = float(found[1]) * 1000 ** _POWERS[found[2].lower()] if found else 0.0
    if found is None or not speed:
        raise UsageError(f"--link: expected a speed, found {text!r}", "10Gbit/s, 100Mbit/s or 1.25GB/s")
    return round(speed / 8 if found[3].lower() == "bit" else speed)


def show(found: Explanation) -> None:
    """Print it: the verdict, its sentences, the figures."""
    console = Console(piped=WIDE)
    console.print(Text(one_line(found.verdict.text), style="bold"))
    for said in found.verdict.sentences:
        _sentence(console, said)
    console.print()
    table = _table(*REQUESTS)
    for asked in found.asked[:MOST_ROWS]:
        table.add_row(*request_row(asked))
    console.print(table)
    console.print()
    table = _table(*RESOURCES)
    for resource in found.resources[:MOST_ROWS]:
        table.add_row(*resource_row(resource))
    console.print(table)
    console.print(Text(legend(found), style="dim"))
    if len(found.resources) > MOST_ROWS:
        console.print(Text(f"… and {len(found.resources) - MOST_ROWS} more: --json", style="dim"))


REQUESTS = ("requests", "n", "mean", "usually", "p99", "in all")
RESOURCES = ("resource", "p50", "p90", "p99", "most", "over 90 %", "queue", "bytes/s", "used by")


def request_row(asked: Asked) -> tuple[str, ...]:
    """Requests of a kind under REQUESTS."""
    times = ("–" if ns is None else duration(ns) for ns in (asked.mean_ns, asked.usual_ns, asked.p99_ns))
    return asked.kind, f"{asked.n:,}", *times, duration(asked.time_ns)


def resource_row(r: Resource) -> tuple[str, ...]:
    """A resource under RESOURCES."""
    return (
        r.name,
        *(
            "–" if share is None else f"{share:.0%}"
            for share in (r.p50, r.p90, r.p99, r.largest, r.saturated)
        ),
        f"{r.queue_depth:.2f}" if r.resource == "disk" else "",
        human(r.bytes_per_s, "bytes") if r.bytes_per_s else "",
        ", ".join(f"{u.client or 'unattributed'} {u.share:.0%}" for u in r.users[:3]),
    )


def legend(found: Explanation) -> str:
    """What the figures of resources mean."""
    every = duration(found.window.every_ns)
    return f"in use in buckets of {every}; used by: of CPU and disk time, of bytes sent"


def _sentence(console: Console, said: Sentence) -> None:
    console.print()
    style = "bold red" if said.cause else "bold"
    console.print(
        Text(f"{TITLES[said.about]}: ", style="dim"),
        Text(one_line(said.text), style=style),
        Text(f"  ({said.certainty})", style="dim"),
        sep="",
    )
    for line in said.evidence:
        console.print(Text(one_line(f"  {line}"), style="dim"))
    if said.advice:
        console.print(Text(one_line(f"  → {said.advice}"), style="green"))


def _table(first: str, *others: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column(first, no_wrap=True)
    for name in others:
        table.add_column(name, justify="left" if name == "used by" else "right", no_wrap=True)
    return table

"""What was posted and is not in the trail, said beside every answer about requests that lacks it."""

from iotrail.schema import load
from iotrail.terminal import Console, Text
from iotrail.trail import Trail
from iotrail.visible import one_line

# Tables whose rows a recorder posts one by one; those that a program declared are such too.
_POSTED = (
    "file_op",
    "sync_op",
    "service_op",
    "stitch",
    "buffer_op",
    "network_transmit",
    "disk_op",
    "cpu_slice",
)


def said(trail: Trail) -> list[str]:
    """A line for each kind of loss; none if nothing is known to be lost."""
    kept = _kept(trail)
    return [_line(row["amount"], kept, row["detail"] or row["kind"]) for row in trail.rows_of("FROM loss")]


def share(trail: Trail) -> float:
    """The share of records that is lost, as far as it is known."""
    amount = sum(row["amount"] for row in trail.rows_of("FROM loss"))
    return amount / (amount + _kept(trail)) if amount else 0.0


def tell(trail: Trail) -> None:
    """Print them to standard error, so that no reader of the answer takes them for a part of it."""
    console = Console(stderr=True)
    for line in said(trail):
        console.print(Text(one_line(line), style="yellow"))


def _kept(trail: Trail) -> int:
    known = load().tables
    return sum(n for table, n in trail.rows.items() if table in _POSTED or table not in known)


def _line(amount: int, kept: int, detail: str) -> str:
    part = 100 * amount / (amount + kept) if amount else 0.0
    return (
        f"lost: {amount:,} of {amount + kept:,} records ({part:.2g} %): {detail}; counts and sums lack them, paths have "
        "holes"
    )

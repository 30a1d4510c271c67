"""`iotrail demand`: what each client's requests used of CPU, buffer caches, network and disks.

The numbers are those of module `demand`. A table names what is billed to no one and leaves out zeros; other formats
give the module's own nulls and zeros. What they lack is said on standard error.
"""

from collections.abc import Sequence

from iotrail import ask, pruned
from iotrail.errors import UsageError
from iotrail.requests import find, lost
from iotrail.terminal import Console, Text
from iotrail.trail import Trail

_BY = ("client", "resource", "node", "component")
_NAMES = {"client": "unattributed", "component": "unknown"}


def run(
    trail: Trail, *, by: Sequence[str], every: str | None, since: str | None, until: str | None, format: str
) -> None:
    """Print the demand, grouped. `since` and `until` cut by the moment of use, on the clock of its machine."""
    find.expect_requests(trail)
    if not by:
        raise UsageError("--by: expected one or more names", f"of {', '.join(_BY)}")
    pruned.expect_kept(trail, "demand", "demand")
    start_ts, end_ts = find.times(trail, since, until)
    pruned.expect_edges(trail, "demand_rollup", start_ts, end_ts)
    limits = ([] if start_ts is None else [f"ts >= {start_ts}"]) + (
        [] if end_ts is None else [f"ts < {end_ts}"]
    )
    if "node" not in by:
        trail.number_nodes()
    query = ask.module_query(trail, "demand", by, every, " AND ".join(limits) or "true")
    if format == "table":
        measures = [name for name in trail.modules["demand"].measures if name != "unknown"]
        columns = [f"COALESCE({name}, '{_NAMES[name]}') AS {name}" if name in _NAMES else name for name in by]
        columns += [f"NULLIF({name}, 0) AS {name}" for name in measures]
        groups = ["ts", *by] if every else list(by)
        order = ", ".join(f"demand.{name} NULLS LAST" for name in groups)
        query = f"SELECT {', '.join(groups[: len(groups) - len(by)] + columns)} FROM ({query}) AS demand ORDER BY {order}"
    ask.show(trail, query, {}, None, format)
    for line in _unknown(trail, " AND ".join(limits) or "true"):
        Console(stderr=True).print(Text(line, style="yellow"))
    lost.tell(trail)


def _unknown(trail: Trail, where: str) -> list[str]:
    """What no row says: of how much work the time on a CPU was not measured."""
    [[unknown, n]] = trail.query(
        f"SELECT SUM(unknown), SUM(n) FROM demand WHERE resource = 'cpu' AND ({where})"
    ).fetchall()
    if not unknown:
        return []
    return [
        f"cpu: of {unknown:,} of {n:,} slices nobody knows how much was on a CPU; time_ns is that of the others "
        "(iotrail record --kernel=cpu records all)"
    ]

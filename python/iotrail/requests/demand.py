"""`iotrail demand`: what each client's requests used of CPU, buffer caches, network and disks.

The numbers are those of module `demand`. A table names what is billed to no one and leaves out zeros; other formats
give the module's own nulls and zeros.
"""

from collections.abc import Sequence

from iotrail import ask, pruned
from iotrail.errors import UsageError
from iotrail.requests import find
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
        measures = trail.modules["demand"].measures
        columns = [f"COALESCE({name}, '{_NAMES[name]}') AS {name}" if name in _NAMES else name for name in by]
        columns += [f"NULLIF({name}, 0) AS {name}" for name in measures]
        groups = ["ts", *by] if every else list(by)
        order = ", ".join(f"demand.{name} NULLS LAST" for name in groups)
        query = f"SELECT {', '.join(groups[: len(groups) - len(by)] + columns)} FROM ({query}) AS demand ORDER BY {order}"
    ask.show(trail, query, {}, None, format)

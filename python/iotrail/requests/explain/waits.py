"""What a client's requests waited for, resource by resource: along what their replies waited for last, and for CPUs.

That a resource was busy explains nothing of a request that didn't wait for it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from iotrail.requests import graph
from iotrail.requests.explain.resources import Resource
from iotrail.requests.find import Chosen
from iotrail.trail import Trail

# Moments of module point_kind.
_DONE, _ISSUED = 1, 3


@dataclass(frozen=True)
class Waits:
    """Shares of the time that requests took, 0 to 1."""

    # in the queue of a disk: (machine, disk)
    disk: Mapping[tuple[str, str], float]
    # served by a disk: (machine, disk)
    disk_served: Mapping[tuple[str, str], float]
    # on the way between machines, by the one sent to
    network: Mapping[str, float]
    # able to run and not running, by machine; None where the scheduler was not recorded
    cpu: Mapping[str, float] | None

    def served(self, resource: Resource) -> float:
        """The share of their time in which a disk served them."""
        return self.disk_served.get((resource.node, resource.place or ""), 0.0)

    def of(self, resource: Resource) -> float | None:
        """What requests waited for a resource; None not known."""
        match resource.resource:
            case "disk":
                return self.disk.get((resource.node, resource.place or ""), 0.0)
            case "network":
                return self.network.get(resource.node, 0.0)
            case _:
                return None if self.cpu is None else self.cpu.get(resource.node, 0.0)


NONE = Waits({}, {}, {}, None)


def collect(path: Path, chosen: Chosen) -> Waits:
    """What the chosen requests of a trail waited for."""
    trail = Trail(path, {"by_node": True})
    # DuckDB would draw it over stdout after two seconds
    trail.connection.execute("SET enable_progress_bar = false")
    whole = max(graph.collect(trail, chosen).total_ns, 1)
    at_disks = trail.rows_of(
        """SELECT k.node, k.place, k.moment_number AS moment, CAST(SUM(c.time_ns) AS BIGINT) AS ns FROM critical AS c
        JOIN point_kind AS k ON k.point_kind = c.to_kind
        WHERE k.record = 'disk_op' AND k.moment_number IN (1, 3) AND c.kind = 'within' AND k.node IS NOT NULL GROUP BY ALL"""
    )
    sent = trail.rows_of(
        """SELECT k.node, CAST(SUM(c.time_ns) AS BIGINT) AS ns FROM critical AS c
        JOIN point_kind AS k ON k.point_kind = c.to_kind
        WHERE c.across AND k.node IS NOT NULL AND c.time_ns IS NOT NULL GROUP BY ALL"""
    )
    [[scheduled]] = trail.query("SELECT COUNT(*) FROM cpu_slice WHERE kind = 'kernel'").fetchall()
    # from being taken off its CPU until it has one again, for the same work
    ready = trail.rows_of(
        """SELECT node, CAST(SUM(next_ts - end_ts) AS BIGINT) AS ns FROM (
            SELECT node, crumb, state, ts + dur AS end_ts, LEAD(ts) OVER w AS next_ts, LEAD(crumb) OVER w AS next_crumb
            FROM cpu_slice WHERE kind = 'kernel' WINDOW w AS (PARTITION BY node, thread ORDER BY ts)
        ) AS slice
        WHERE state = 'runnable' AND next_crumb = crumb AND crumb <> 0 GROUP BY node"""
    )
    disks = {
        moment: {
            (row["node"], row["place"]): row["ns"] / whole for row in at_disks if row["moment"] == moment
        }
        for moment in (_ISSUED, _DONE)
    }
    return Waits(
        disks[_ISSUED],
        disks[_DONE],
        {row["node"]: row["ns"] / whole for row in sent},
        {row["node"]: row["ns"] / whole for row in ready} if scheduled else None,
    )

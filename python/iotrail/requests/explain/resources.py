"""How busy every resource was while a client was served, as distributions over time, and whose requests used it.

Numbers are those of modules `utilization` and `demand`. Windows of time are on the clock of the machine that requests
arrive at; what other machines saw is placed by `clock_offset`, wrong by microseconds.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from iotrail.requests import clocks
from iotrail.trail import Trail

# In use for this share of a time bucket, a resource is saturated there.
SATURATED = 0.9
# Buckets that the window is cut into, about.
BUCKETS = 100
# Narrower ones would be narrower than a slow request.
LEAST_EVERY = 10_000_000


@dataclass(frozen=True)
class Window:
    """A stretch of time on the clock of `node`, ns since the epoch."""

    node: str
    start_ts: int
    end_ts: int

    @property
    def every_ns(self) -> int:
        """Width of its buckets: 1, 2 or 5 times a power of ten."""
        width = max((self.end_ts - self.start_ts) / BUCKETS, LEAST_EVERY)
        power = 10 ** int(np.floor(np.log10(width)))
        return int(next(step * power for step in (1, 2, 5, 10) if step * power >= width))


@dataclass(frozen=True)
class User:
    """A client's part of what a resource did: of CPU and disk time, of bytes sent."""

    # None: nobody's requests
    client: str | None
    share: float


@dataclass(frozen=True)
class Resource:
    """A resource of a machine in the window."""

    node: str
    # cpu, disk or network
    resource: str
    # which disk; None the machine's
    place: str | None
    # share in use: median, 90th, 99th percentile, largest of all buckets; None capacity unknown
    p50: float | None
    p90: float | None
    p99: float | None
    largest: float | None
    # share of the buckets in which it was saturated
    saturated: float | None
    # requests of a disk, queued or in service, on average
    queue_depth: float
    bytes_per_s: float
    # largest first
    users: tuple[User, ...]
    # share in use by bucket, for drawing; NaN capacity unknown
    series: NDArray[np.float64] = field(repr=False, compare=False)

    @property
    def key(self) -> tuple[str, str, str | None]:
        """What tells it from others."""
        return self.node, self.resource, self.place

    @property
    def name(self) -> str:
        """As people call it."""
        what = self.resource if self.place in (None, self.resource) else f"{self.resource} {self.place}"
        return f"{what} of {self.node}"

    def part(self, client: str | None) -> float:
        """A client's share of its use."""
        return next((user.share for user in self.users if user.client == client), 0.0)


def collect(trail: Trail, window: Window) -> list[Resource]:
    """All resources that did anything in the window, those that were saturated first."""
    every = window.every_ns
    trail.set_params({"every_ns": every})
    shifts = _shifts(trail, window.node)
    trail.connection.execute(
        "CREATE OR REPLACE TEMP TABLE explain_window AS SELECT unnest($nodes) AS machine, unnest($starts) AS start_ts, "
        "unnest($ends) AS end_ts",
        {
            "nodes": list(shifts),
            "starts": [window.start_ts - shift for shift in shifts.values()],
            "ends": [window.end_ts - shift for shift in shifts.values()],
        },
    )
    used = _users(trail)
    # the bucket that the window begins in is the first of its machine
    columns = trail.query(
        """SELECT u.node, u.resource, COALESCE(u.place, '') AS place, u.share, u.queued_ns, u.bytes,
            (u.ts - (w.start_ts - w.start_ts % u.every_ns)) // u.every_ns AS bucket
        FROM utilization AS u
        JOIN explain_window AS w ON w.machine = u.node AND u.ts + u.every_ns > w.start_ts AND u.ts < w.end_ts
        ORDER BY u.node, u.resource, u.place, u.ts"""
    ).fetchnumpy()
    count = (window.end_ts - window.start_ts + every - 1) // every + 1
    found = []
    keys = list(zip(columns["node"], columns["resource"], columns["place"], strict=True))
    for key in dict.fromkeys(keys):
        rows = np.fromiter((each == key for each in keys), bool, len(keys))
        found.append(
            _resource(key, {name: columns[name][rows] for name in columns}, count, every, used.get(key, ()))
        )
    return sorted(
        found, key=lambda r: (-(r.saturated or 0), -(r.p99 or 0), r.resource, r.node, r.place or "")
    )


def _resource(
    key: tuple[str, str, str],
    rows: dict[str, NDArray[np.generic]],
    count: int,
    every: int,
    users: tuple[User, ...],
) -> Resource:
    node, resource, place = (str(part) for part in key)
    share = np.ma.filled(np.ma.asarray(rows["share"]).astype(float), np.nan)
    bucket = np.clip(np.asarray(rows["bucket"], dtype=int), 0, count - 1)
    known = not np.isnan(share).all()
    series = np.zeros(count) if known else np.full(count, np.nan)
    series[bucket] = share
    p50, p90, p99, largest = (float(np.quantile(series, q)) if known else None for q in (0.5, 0.9, 0.99, 1))
    return Resource(
        node,
        resource,
        place or None,
        p50,
        p90,
        p99,
        largest,
        saturated=float((series >= SATURATED).mean()) if known else None,
        queue_depth=float(np.asarray(rows["queued_ns"], dtype=float).sum() / (every * count)),
        bytes_per_s=float(np.asarray(rows["bytes"], dtype=float).sum() / (every * count) * 1e9),
        users=users,
        series=series,
    )


def _users(trail: Trail) -> dict[tuple[str, str, str], tuple[User, ...]]:
    """Who used what, by machine, resource and which disk ("" the machine's)."""
    rows = trail.rows_of(
        """SELECT d.node, d.resource, CASE d.resource WHEN 'disk' THEN d.place ELSE '' END AS place, d.client,
            CAST(SUM(CASE d.resource WHEN 'network' THEN d.bytes ELSE d.time_ns END) AS DOUBLE) AS used
        FROM demand AS d
        JOIN explain_window AS w ON w.machine = d.node AND d.ts >= w.start_ts AND d.ts < w.end_ts
        WHERE d.resource <> 'cache'
        GROUP BY ALL ORDER BY used DESC, d.client"""
    )
    by_place: dict[tuple[str, str, str], list[tuple[str | None, float]]] = {}
    for row in rows:
        by_place.setdefault((row["node"], row["resource"], row["place"]), []).append(
            (row["client"], row["used"])
        )
    users = {}
    for key, used in by_place.items():
        total = sum(amount for _, amount in used) or 1.0
        users[key] = tuple(User(client, amount / total) for client, amount in used)
    return users


def _shifts(trail: Trail, node: str) -> dict[str, int]:
    """What a moment of each machine is moved by to be one of `node`'s clock; of those it never reaches, 0."""
    reached = clocks.placed(clocks.of_trail(trail), node)
    return dict.fromkeys(trail.nodes, 0) | {at: offset.shift for at, offset in reached.items()}

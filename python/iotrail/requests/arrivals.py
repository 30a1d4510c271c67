"""`iotrail arrivals`: how requests, messages and requests of disks arrive, and what queueing theory makes of it.

After figure 12 of Stardust (SIGMETRICS 2006). Moments and percentiles are module `arrival_point`'s, distributions
`distributions`', predictions `queueing`'s.
"""

import json
import math
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from iotrail import distributions, page, pruned
from iotrail.distributions import Fits
from iotrail.errors import IotrailError
from iotrail.requests import arrivals_svg, arrivals_text, find, lost, queueing, walk
from iotrail.requests.find import Chosen
from iotrail.requests.queueing import Arrivals, Prediction
from iotrail.trail import Trail

# Where requests enter, where messages are sent, where disks queue: `level` of module `interarrival`.
LEVELS = ("request", "message", "disk")
# Fewer times between arrivals are not fitted.
LEAST_FITTED = 20


@dataclass(frozen=True)
class Point:
    """Arrivals at one place. Times in ns; None as module `arrival_point` says."""

    level: str
    node: str
    place: str
    n: int
    # a second
    rate: float | None
    mean_ns: float | None
    cv: float | None
    p50_ns: int | None
    p99_ns: int | None
    max_ns: int | None
    service_ns: float | None
    service_cv: float | None
    # smallest time between arrivals of each bucket of the histogram, and how many are in it
    buckets: tuple[tuple[int, int], ...]
    # None: too few
    fits: Fits | None
    prediction: Prediction


def collect(trail: Trail, chosen: Chosen, levels: tuple[str, ...] = LEVELS) -> list[Point]:
    """The points at these levels that the chosen requests pass. Narrows the trail to them if they aren't all."""
    if not chosen.all:
        walk.down(trail, f"SELECT node, crumb FROM request WHERE {chosen.where}")
        walk.keep(trail)
    order = ", ".join(f"level = '{level}' DESC" for level in LEVELS)
    rows = trail.rows_of(f"SELECT * FROM arrival_point ORDER BY {order}, node, place")
    return [_point(trail, row) for row in rows if row["level"] in levels]


def _point(trail: Trail, row: dict[str, Any]) -> Point:
    here = {name: row[name] for name in ("level", "node", "place")}
    where = "level = $level AND node IS NOT DISTINCT FROM $node AND place IS NOT DISTINCT FROM $place"
    buckets = trail.rows_of(f"SELECT gap_ns, n FROM interarrival_bucket WHERE {where} ORDER BY gap_ns", here)
    columns = trail.query(
        "SELECT ts, gap_ns, COALESCE(service_ns, -1) AS service_ns, COALESCE(response_ns, -1) AS response_ns "
        f"FROM interarrival WHERE {where} ORDER BY ts, crumb",
        here,
    ).fetchnumpy()
    arrived = _arrivals(columns)
    measured = {name: row[name] for name in Point.__dataclass_fields__ if name in row}
    return Point(
        **measured,
        buckets=tuple((b["gap_ns"], b["n"]) for b in buckets),
        fits=arrived.fits,
        prediction=queueing.predict(arrived),
    )


def _arrivals(columns: dict[str, NDArray[Any]]) -> Arrivals:
    ts = np.asarray(columns["ts"], dtype=np.int64)
    gaps = np.diff(ts).astype(float)
    response = np.asarray(columns["response_ns"], dtype=np.int64)
    service = np.asarray(columns["service_ns"], dtype=float)
    served = (service >= 0) & (response >= 0)
    # what arrived at one moment only has no distribution
    fits = distributions.fit(gaps) if len(gaps) >= LEAST_FITTED and gaps.any() else None
    known = response[service >= 0] if served.any() else response[response >= 0]
    return Arrivals(ts, gaps, (ts + response)[served], service[served], known[known >= 0].astype(float), fits)


def run(
    trail: Trail,
    *,
    at: str | None,
    client: str | None,
    op: str | None,
    component: str | None,
    since: str | None,
    until: str | None,
    svg: Path | None,
    html: Path | None,
    as_json: bool,
    force: bool,
) -> None:
    """Print or draw the arrivals of the requests that the options leave."""
    if html is not None:
        page.check(html, "arrivals", force=force)
    # DuckDB would draw it over stdout after two seconds
    trail.connection.execute("SET enable_progress_bar = false")
    if any((client, op, component, since, until)):
        chosen = find.choose(trail, client, op, component, since, until)
    else:
        chosen = Chosen()
    pruned.expect_raw(trail, "times between arrivals", chosen.where)
    points = collect(trail, chosen, (at,) if at else LEVELS)
    if not points:
        raise IotrailError(
            f"nothing arrived: no {at or 'request, message or disk request'} is in this trail",
            "docs/requests.md says what components post",
        )
    lost.tell(trail)
    if html is not None:
        title = ", ".join(filter(None, (trail.path.name, chosen.words)))
        parts = [page.tag("p", title), *arrivals_svg.parts(points)]
        page.write(html, page.document("arrivals", title, parts))
    if svg is not None:
        arrivals_svg.write(points, svg, force=force)
    if as_json:
        json.dump([_finite(asdict(point)) for point in points], sys.stdout, indent=1, ensure_ascii=False)
        print()
    elif svg is None:
        arrivals_text.show(points)


def _finite(value: Any) -> Any:
    """For JSON, which has no infinity."""
    match value:
        case dict():
            return {key: _finite(of) for key, of in value.items()}
        case list() | tuple():
            return [_finite(of) for of in value]
        case float() if not math.isfinite(value):
            return None
    return value

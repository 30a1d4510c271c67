"""Requests through services of two kinds: with iotrail's SDK, and with OpenTelemetry."""

from typing import Any

from iotrail.requests.find import Chosen
from iotrail.requests.graph import collect
from iotrail.requests.path import paths
from iotrail.trail import Trail

from .conftest import MakeTrail

# A span is known by a hash of its trace and its own id.
SPAN = {"trace_hi": 1, "trace_lo": 2}
WEB, CALL, APP = 7_000_000_001, 7_000_000_002, 5


def rows(*, with_spans: bool) -> dict[str, list[dict[str, Any]]]:
    """A service with the SDK on `app`, whose caller on `web` has OpenTelemetry; and what it used of a CPU."""
    spans = [
        {"node": "web", "crumb": WEB, "ts": 1000, "dur": 900, "client": "alice", "op": "GET /", "span": 1}
        | SPAN,
        {"node": "web", "crumb": CALL, "ts": 1100, "dur": 700, "kind": "client", "op": "GET", "span": 2}
        | SPAN,
    ]
    served = {"node": "app", "crumb": APP, "ts": 5_000_000, "dur": 500, "client": "app's own", "op": "serve"}
    parent = {"parent_node": "opentelemetry", "parent_crumb": CALL}
    stitches = [{"node": "app", "crumb": APP, "ts": 5_000_000, "kind": "rpc", **parent}]
    if with_spans:
        stitches.append(
            {
                "node": "web",
                "crumb": CALL,
                "ts": 1100,
                "kind": "split",
                "parent_node": "web",
                "parent_crumb": WEB,
            }
        )
    return {
        "service_op": [*(spans if with_spans else []), served],
        "stitch": stitches,
        "cpu_slice": [{"node": "app", "crumb": APP, "ts": 5_000_100, "dur": 300, "kind": "kernel"}],
    }


def billed(trail: Trail) -> list[tuple[Any, ...]]:
    found = trail.rows_of(
        "SELECT client, SUM(time_ns) AS ns FROM demand WHERE resource = 'cpu' GROUP BY client"
    )
    return [(row["client"], row["ns"]) for row in found]


def test_a_service_below_a_span_is_on_its_path(make: MakeTrail) -> None:
    """One request of alice's through both, one path, one graph; what the service used is hers."""
    path = make(rows(with_spans=True))
    assert billed(Trail(path)) == [("alice", 300)]
    assert [row["crumb"] for row in Trail(path).rows_of("SELECT crumb FROM request")] == [WEB]
    [found] = paths(Trail(path), [("web", WEB)])
    assert [(crumb.node, crumb.crumb) for crumb in found.crumbs] == [
        ("web", WEB),
        ("web", CALL),
        ("app", APP),
    ]
    assert found.holes == []
    edges = {(str(e.source), str(e.target)): e for e in collect(Trail(path), Chosen()).edges}
    across = edges["head GET call", "head serve arrival"]
    assert across.across and across.mean_ns == 100
    # names of machines as numbers, which questions of all requests use
    whole = Trail(path)
    whole.number_nodes()
    assert billed(whole) == [("alice", 300)]


def test_a_request_whose_caller_nobody_recorded_begins_here(make: MakeTrail) -> None:
    """It has its own client, its cost, and a path of its own."""
    path = make(rows(with_spans=False))
    assert billed(Trail(path)) == [("app's own", 300)]
    [row] = Trail(path).rows_of("SELECT node, crumb, client FROM request")
    assert row == {"node": "app", "crumb": APP, "client": "app's own"}
    [found] = paths(Trail(path), [("app", APP)])
    assert [crumb.crumb for crumb in found.crumbs] == [APP] and found.holes == []

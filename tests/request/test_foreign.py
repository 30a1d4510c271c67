"""Requests through services of two kinds: with iotrail's SDK, and with OpenTelemetry."""

from typing import Any

import pytest
from typer.testing import CliRunner

from iotrail.cli import app
from iotrail.errors import UnknownNameError, UsageError
from iotrail.requests import find
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


def test_the_requests_of_a_trace(make: MakeTrail) -> None:
    """By its id in either spelling; wrong ones are said."""
    path = make(rows(with_spans=True))
    trail = Trail(path)
    trace = "0000000000000001" + "0000000000000002"
    assert find.of_trace(trail, trace) == [("web", WEB)]
    assert find.of_trace(trail, f"{trace[:8]}-{trace[8:]}".upper()) == [("web", WEB)]
    for wrong in ("", "1", "0" * 32, "g" * 32, trace + "0"):
        with pytest.raises(UsageError, match="expected 32 hexadecimal digits"):
            find.of_trace(trail, wrong)
    with pytest.raises(UnknownNameError, match="no request of trace"):
        find.of_trace(trail, "f" * 32)
    done = CliRunner().invoke(app, ["path", str(path), "--trace", trace])
    assert done.exit_code == 0 and "⇢ head serve" in done.stdout
    done = CliRunner().invoke(app, ["path", str(path), "--trace", trace, "--slowest", "2"])
    assert isinstance(done.exception, UsageError) and "can't be combined with --slowest" in str(
        done.exception
    )


def test_a_trace_that_began_with_the_sdk_has_its_breadcrumb(make: MakeTrail) -> None:
    trail = Trail(make(rows(with_spans=False)))
    assert find.of_trace(trail, f"{12345:016x}{APP:016x}") == [("app", APP)]


def test_calls_of_what_has_no_instruments_are_leaves(make: MakeTrail) -> None:
    """A database that never records its serving is no hole; a service that does elsewhere is one."""
    made = {"kind": "client", "dur": 10}
    path = make(
        {
            "service_op": [
                {"crumb": 1, "ts": 0, "dur": 100, "client": "a"},
                {"crumb": 2, "ts": 10, "component": "app", "op": "SELECT", **made},
                {"crumb": 3, "ts": 30, "component": "app", "op": "GET", **made},
                {"crumb": 11, "ts": 1000, "dur": 100, "client": "a"},
                {"crumb": 12, "ts": 1010, "component": "app", "op": "GET", **made},
                {"node": "m", "crumb": 13, "ts": 1012, "dur": 5},
            ],
            "stitch": [
                {"crumb": 2, "ts": 10, "parent_crumb": 1, "kind": "split"},
                {"crumb": 3, "ts": 30, "parent_crumb": 1, "kind": "split"},
                {"crumb": 12, "ts": 1010, "parent_crumb": 11, "kind": "split"},
                {"node": "m", "crumb": 13, "ts": 1012, "parent_crumb": 12, "kind": "rpc"},
            ],
        }
    )
    [found] = paths(Trail(path), [("n", 1)])
    assert found.holes == ["3 on n: a call whose serving nobody recorded"]
    assert [crumb.crumb for crumb in found.crumbs if crumb.leaf] == [2]
    assert "callee not instrumented" in CliRunner().invoke(app, ["path", str(path), "--crumb", "1"]).stdout

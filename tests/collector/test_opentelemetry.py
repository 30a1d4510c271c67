"""Programs that only know OpenTelemetry: the requests of examples/otel, from its SDK to `iotrail path`."""

import json
import os
import subprocess
import sys

import pytest

from .conftest import ROOT, Collector

ORDERS = 11


def iotrail(*words: str) -> str:
    """What the command prints."""
    command = [sys.executable, "-m", "iotrail", *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize(("protocol", "host"), [("grpc", None), ("http/protobuf", "machine-7")])
def test_a_trace_is_one_request_through_both_services(
    collector: Collector, protocol: str, host: str | None
) -> None:
    """All spans of a trace once, in the order in which they called each other, with what failed.

    Without a host's name the SDK gives each process an instance's id, which stands for its machine.
    """
    collector.start()
    bare = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    telemetry = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{collector.address}",
        "OTEL_EXPORTER_OTLP_PROTOCOL": protocol,
    }
    if host:
        telemetry["OTEL_RESOURCE_ATTRIBUTES"] = f"host.name={host}"
        telemetry["OTEL_EXPORTER_OTLP_COMPRESSION"] = "gzip"
    shop = [sys.executable, ROOT / "examples/otel/shop.py", str(ORDERS)]
    ran = subprocess.run(shop, env=bare | telemetry, check=True, capture_output=True, text=True, timeout=60)
    assert ran.stderr == "", "the exporters complain of nothing"
    trail = collector.sealed()

    spans = trail.rows_of(
        "SELECT component, kind, op, COUNT(*) AS n FROM service_op GROUP BY ALL ORDER BY ALL"
    )
    assert [tuple(row.values()) for row in spans] == [
        ("shop", "client", "GET", ORDERS),
        ("shop", "server", "order", ORDERS),
        ("store", "event", "cache miss", ORDERS),
        ("store", "internal", "look up", ORDERS),
        ("store", "internal", "read page", ORDERS),
        ("store", "server", "GET /order", ORDERS),
    ]
    # Four of the five spans of an order have a parent, of which one is another process's.
    stitches = trail.rows_of("SELECT kind, COUNT(*) AS n FROM stitch GROUP BY ALL ORDER BY ALL")
    assert stitches == [{"kind": "rpc", "n": ORDERS}, {"kind": "split", "n": 3 * ORDERS}]
    processes = trail.rows_of(
        "SELECT role, pid > 0 AS known, COUNT(*) AS n FROM process GROUP BY ALL ORDER BY ALL"
    )
    assert processes == [{"role": role, "known": True, "n": 1} for role in ("shop", "store")]
    if host:
        assert trail.rows_of("SELECT DISTINCT node FROM service_op") == [{"node": host}]

    orders = trail.rows_of("SELECT crumb, status, client FROM service_op WHERE op = 'order' ORDER BY ts")
    assert [row["status"] for row in orders] == [int(n % 5 == 0) for n in range(1, ORDERS + 1)]
    for number, row in list(enumerate(orders, 1))[3:5]:
        failed = 404 * (number % 5 == 0)
        (request,) = json.loads(iotrail("path", str(collector.trail), "--crumb", str(row["crumb"]), "--json"))
        records = [
            (piece["stitched"], record["component"], record["name"], record["client"], record["status"])
            for piece in request["crumbs"]
            for record in piece["records"]
        ]
        assert records == [
            (None, "shop", "order", f"user-{number % 3}", int(failed > 0)),
            ("split", "shop", "GET", None, failed),
            ("rpc", "store", "GET /order", None, failed),
            ("split", "store", "look up", None, 0),
            ("split", "store", "cache miss", None, 0),
            ("split", "store", "read page", None, 0),
        ]
    said = iotrail("path", str(collector.trail), "--crumb", str(orders[4]["crumb"]))
    assert "failed with 404" in said and "store read page" in said and "hole" not in said
    graph = json.loads(iotrail("graph", str(collector.trail), "--json"))
    assert (graph["requests"], graph["unfinished"]) == (ORDERS, 0)
    # A busy machine may let the store's span end after that of its caller, so the ways back differ.
    calls = [
        edge["count"]
        for edge in graph["edges"]
        if (edge["source"]["component"], edge["target"]["component"]) == ("shop", "store")
    ]
    assert sum(calls) == ORDERS

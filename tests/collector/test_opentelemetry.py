"""Programs that only know OpenTelemetry: the requests of examples/otel, from its SDK to `iotrail path`."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from iotrail.requests.path import paths
from iotrail.trail import Trail

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


# A chain of three services by HTTP: front and back know OpenTelemetry's SDK, middle iotrail's.
CHAIN = """
import http.client, http.server, sys, time
sys.path.insert(0, {otel!r})

def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass

def serve(handle):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            handle(dict(self.headers))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()
        def log_message(self, *_):
            pass
    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_port, flush=True)
    for _ in range({requests}):
        server.handle_request()

def get(port, headers):
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("GET", "/", headers=headers)
    connection.getresponse().read()

role, port = sys.argv[1], int(sys.argv[2])
if role == "middle":
    from iotrail import sdk
    def handle(headers):
        with sdk.request("middle", "work", headers=headers):
            burn(0.02)
            with sdk.call("middle", "ask back") as call:
                get(port, call.headers())
    serve(handle)
else:
    from opentelemetry import propagate, trace
    from opentelemetry.trace import SpanKind
    from telemetry import provider
    traces, tracer = provider(role), trace.get_tracer(role)
    if role == "back":
        def handle(headers):
            with tracer.start_as_current_span("answer", propagate.extract(headers), SpanKind.SERVER):
                time.sleep(0.01)
        serve(handle)
    for n in range({requests} if role == "front" else 0):
        with tracer.start_as_current_span("order", kind=SpanKind.SERVER, attributes={{"user.id": f"user-{{n % 2}}"}}):
            with tracer.start_as_current_span("GET", kind=SpanKind.CLIENT):
                headers = {{}}
                propagate.inject(headers)
                get(port, headers)
    traces.shutdown()
"""


def test_services_with_either_sdk_are_one_path(collector: Collector, tmp_path: Path) -> None:
    """OpenTelemetry calls iotrail's SDK, which calls OpenTelemetry: one path, and the middle's CPU time is the user's."""
    requests = 6
    program, middle = tmp_path / "chain.py", tmp_path / "middle.trail"
    program.write_text(CHAIN.format(otel=str(ROOT / "examples/otel"), requests=requests))
    collector.start()
    bare = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    environment = bare | {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{collector.address}"}

    def started(*words: object) -> subprocess.Popen[str]:
        command = [*map(str, words)]
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)

    def port(process: subprocess.Popen[str]) -> str:
        assert process.stdout is not None
        return process.stdout.readline().strip()

    python = [sys.executable, program]
    record = [sys.executable, "-m", "iotrail", "record", "--node", "m", "-o", middle, "--", *python]
    with started(*python, "back", 0) as back, started(*record, "middle", port(back)) as between:
        with started(*python, "front", port(between)) as front:
            assert front.wait(60) == 0
        assert (between.wait(60), back.wait(60)) == (0, 0)
    sealed = collector.sealed().path
    whole = tmp_path / "whole.trail"
    merge = [sys.executable, "-m", "iotrail", "trail", "merge", sealed, middle, "-o", whole]
    subprocess.run(merge, check=True, capture_output=True)
    trail = Trail(whole)
    roots = trail.rows_of("SELECT component, op, client FROM request ORDER BY client")
    assert [tuple(row.values()) for row in roots] == [
        ("front", "order", f"user-{n}") for n in (0, 1) for _ in range(requests // 2)
    ]
    keys = [(row["node"], row["crumb"]) for row in trail.rows_of("SELECT node, crumb FROM request")]
    for path in paths(Trail(whole), keys):
        seen = [(crumb.main.component, crumb.main.kind) for crumb in path.crumbs if crumb.main]
        assert seen == [
            ("front", "server"), ("front", "client"), ("middle", "server"), ("middle", "client"), ("back", "server"),
        ]  # fmt: skip
        assert path.holes == []
    # other tracing systems see one trace from end to end
    traces = trail.rows_of(
        "SELECT COUNT(DISTINCT trace_hi) AS n FROM service_op WHERE trace_hi IS NOT NULL GROUP BY component"
    )
    assert [row["n"] for row in traces] == [requests, requests]
    ids = {
        component: {
            (row["trace_hi"], row["trace_lo"])
            for row in trail.rows_of(
                f"SELECT trace_hi, trace_lo FROM service_op WHERE component = '{component}'"
            )
        }
        for component in ("front", "back")
    }
    assert ids["front"] == ids["back"]
    billed = trail.rows_of(
        "SELECT client, SUM(time_ns) AS ns FROM demand WHERE resource = 'cpu' GROUP BY client ORDER BY client"
    )
    assert [row["client"] for row in billed] == ["user-0", "user-1"]
    for row in billed:
        # what serving costs beside, is theirs too
        assert 0.02 * requests / 2 <= row["ns"] / 1e9 <= 0.03 * requests / 2 + 0.01

"""A shop and its store, two processes as OpenTelemetry instruments them: what a user of `iotrail collect` may have.

    iotrail-native collect -o shop.trail &
    pip install opentelemetry-sdk opentelemetry-exporter-otlp
    python examples/otel/shop.py [ORDERS]
    iotrail path shop.trail --slowest 1

Each order is one request: a span of the shop, in it a call by HTTP to the store (W3C Trace Context says whose it is),
and there its serving with what is nested in it. Each fifth order fails. Where spans go is said by OpenTelemetry's own
variables: OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_PROTOCOL (grpc or http/protobuf), OTEL_EXPORTER_OTLP_HEADERS.
"""

import http.client
import subprocess
import sys
from pathlib import Path

from opentelemetry import propagate, trace
from opentelemetry.trace import SpanKind
from telemetry import provider

tracer = trace.get_tracer("shop")


def order(store: http.client.HTTPConnection, number: int) -> None:
    """One request, for one of three users."""
    about = {"user.id": f"user-{number % 3}", "order": number}
    with (
        tracer.start_as_current_span("order", kind=SpanKind.SERVER, attributes=about) as whole,
        tracer.start_as_current_span("GET", kind=SpanKind.CLIENT) as call,
    ):
        headers: dict[str, str] = {}
        propagate.inject(headers)
        store.request("GET", f"/order/{number}", headers=headers)
        answer = store.getresponse()
        answer.read()
        call.set_attribute("http.response.status_code", answer.status)
        if answer.status != 200:
            call.set_status(trace.StatusCode.ERROR)
            whole.set_status(trace.StatusCode.ERROR, f"no order {number}")


def main() -> None:
    """Starts the store, orders, and ends both."""
    traces = provider("shop")
    command = [sys.executable, Path(__file__).with_name("store.py")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        store = http.client.HTTPConnection("127.0.0.1", int(process.stdout.readline()))
        for number in range(1, int(sys.argv[1] if len(sys.argv) > 1 else 10) + 1):
            order(store, number)
        store.close()
        process.stdin.close()
    traces.shutdown()


if __name__ == "__main__":
    main()

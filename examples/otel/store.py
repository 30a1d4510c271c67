"""The store of examples/otel: an HTTP server whose requests are spans below those of their callers.

    store.py        prints the port it took; ends with its standard input

Nothing in it knows iotrail: where spans go is said by OpenTelemetry's own variables.
"""

import http.server
import sys
import threading
import time

from opentelemetry import propagate, trace
from opentelemetry.trace import SpanKind
from telemetry import provider

tracer = trace.get_tracer("store")


class Store(http.server.BaseHTTPRequestHandler):
    """`GET /order/N`: those that 5 divides are not there."""

    def do_GET(self) -> None:
        number = int(self.path.rsplit("/", 1)[1])
        caller = propagate.extract(self.headers)
        with tracer.start_as_current_span("GET /order", caller, SpanKind.SERVER) as span:
            with tracer.start_as_current_span("look up", attributes={"order": number}) as found:
                time.sleep(0.001)
                found.add_event("cache miss")
                with tracer.start_as_current_span("read page"):
                    time.sleep(0.001)
            status = 404 if number % 5 == 0 else 200
            span.set_attribute("http.response.status_code", status)
            if status == 404:
                span.set_status(trace.StatusCode.ERROR, f"there is no order {number}")
            self.send_response(status)
            self.send_header("content-length", "0")
            self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Its spans say it."""


def main() -> None:
    """Serves until nobody holds the other end of its standard input."""
    traces = provider("store")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Store)
    # So that closing waits for the spans that are still open.
    server.daemon_threads = False
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)
    sys.stdin.read()
    server.shutdown()
    server.server_close()
    traces.shutdown()


if __name__ == "__main__":
    main()

"""How both programs of examples/otel set up OpenTelemetry: its SDK, with what its variables say."""

import os

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as ByGrpc
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as ByHttp
from opentelemetry.sdk.resources import ProcessResourceDetector, Resource, get_aggregated_resources
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor


def provider(service: str) -> TracerProvider:
    """Sends this process's spans, under the service's name and the process's number. Its `shutdown` sends the rest."""
    about = get_aggregated_resources([ProcessResourceDetector()], Resource.create({"service.name": service}))
    by_grpc = os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc") == "grpc"
    traces = TracerProvider(resource=about)
    traces.add_span_processor(BatchSpanProcessor(ByGrpc() if by_grpc else ByHttp()))
    trace.set_tracer_provider(traces)
    return traces

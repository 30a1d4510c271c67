//! OpenTelemetry's traces as they come, by gRPC and by HTTP.

use std::io::Write as _;

use crate::support::{Collector, Config, column, now};
use iotrail_format::schema::{PROCESS, SERVICE_OP, STITCH};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use prost::Message as _;
use serde_json::{Value, json};

fn span(id: u8, parent: u8, kind: u8, name: &str, more: Value) -> Value {
    let ns = now();
    let mut span = json!({
        "traceId": "0af7651916cd43dd8448eb211c80319c",
        "spanId": format!("00000000000000{id:02x}"),
        "parentSpanId": if parent == 0 { String::new() } else { format!("00000000000000{parent:02x}") },
        "name": name,
        "kind": kind,
        "startTimeUnixNano": ns.to_string(),
        "endTimeUnixNano": (ns + 1000).to_string(),
    });
    let more = more.as_object().expect("an object").clone();
    span.as_object_mut().expect("an object").extend(more);
    span
}

fn request(service: &str, host: &str, spans: Vec<Value>) -> Value {
    json!({"resourceSpans": [{
        "resource": {"attributes": [
            {"key": "service.name", "value": {"stringValue": service}},
            {"key": "host.name", "value": {"stringValue": host}},
            {"key": "process.pid", "value": {"intValue": "7"}},
        ]},
        "scopeSpans": [{"spans": spans}],
    }]})
}

/// A caller and whom it calls on another machine, exported each by itself, in an order that happens: a span ends before
/// its parent.
#[tokio::test]
async fn a_trace_is_a_path() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = Config::new(folder.path());
    let collector = Collector::start(&config);
    let callee = request(
        "store",
        "host-b",
        vec![
            span(3, 2, 2, "put", json!({"events": [{"name": "cached", "timeUnixNano": now().to_string()}]})),
            span(
                4,
                3,
                1,
                "hash",
                json!({"status": {"code": 2}, "links": [
                {"traceId": "0af7651916cd43dd8448eb211c80319c", "spanId": "0000000000000009",
                 "traceState": "x=1,iotrail=host-c"}]}),
            ),
        ],
    );
    let caller = request(
        "shop",
        "host-a",
        vec![
            span(2, 1, 3, "call", json!({})),
            span(
                1,
                0,
                2,
                "order",
                json!({"attributes": [
                {"key": "enduser.id", "value": {"stringValue": "alice"}}]}),
            ),
        ],
    );
    let headers = "content-type: application/json\r\n";
    let body = callee.to_string();
    let (status, answer) = collector.http("POST", "/v1/traces", headers, body.as_bytes()).await;
    assert_eq!((status, answer.as_slice()), (200, &b"{}"[..]));
    // The caller's by gRPC; and the callee's again, packed, as after an answer that got lost.
    let export: ExportTraceServiceRequest = serde_json::from_value(caller).expect("OTLP in JSON");
    let mut grpc =
        TraceServiceClient::connect(format!("http://{}", collector.address)).await.expect("it listens");
    let answer = grpc.export(export).await.expect("taken").into_inner();
    assert_eq!(answer, ExportTraceServiceResponse::default());
    let export: ExportTraceServiceRequest = serde_json::from_str(&body).expect("OTLP in JSON");
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(&export.encode_to_vec()).expect("in memory");
    let headers = "content-type: application/x-protobuf\r\ncontent-encoding: gzip\r\n";
    let packed = gzip.finish().expect("in memory");
    assert_eq!(collector.http("POST", "/v1/traces", headers, &packed).await.0, 200);
    collector.seal().await;
    let sorted = |mut texts: Vec<&str>| {
        texts.sort_unstable();
        texts.into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let trail = &config.trail;
    assert_eq!(column(trail, &SERVICE_OP, "op"), sorted(vec!["order", "call", "put", "hash", "cached"]));
    assert_eq!(
        column(trail, &SERVICE_OP, "kind"),
        sorted(vec!["server", "client", "server", "internal", "event"])
    );
    assert_eq!(column(trail, &SERVICE_OP, "status"), ["0", "0", "0", "0", "1"]);
    assert_eq!(column(trail, &SERVICE_OP, "client"), ["alice", "null", "null", "null", "null"]);
    assert_eq!(column(trail, &STITCH, "kind"), ["coalesce", "rpc", "split", "split"]);
    // The callee's parent was found when its own export came.
    assert_eq!(column(trail, &STITCH, "parent_node"), ["host-a", "host-a", "host-b", "host-c"]);
    assert_eq!(column(trail, &PROCESS, "name"), ["shop", "store"]);
    assert!(collector.end());
}

#[tokio::test]
async fn what_is_no_span_is_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = Config::new(folder.path());
    let collector = Collector::start(&config);
    let json_headers = "content-type: application/json\r\n";
    let bad = request(
        "s",
        "h",
        vec![
            span(1, 0, 1, "good", json!({})),
            span(0, 0, 1, "no id", json!({})),
            span(2, 0, 1, "backwards", json!({"endTimeUnixNano": "1"})),
        ],
    );
    let (status, answer) =
        collector.http("POST", "/v1/traces", json_headers, bad.to_string().as_bytes()).await;
    let answer: Value = serde_json::from_slice(&answer).expect("JSON");
    assert_eq!(status, 200);
    assert_eq!(answer["partialSuccess"]["rejectedSpans"], json!("2"), "{answer}");
    let why = answer["partialSuccess"]["errorMessage"].as_str().expect("a text");
    assert!(why.contains("\"no id\"") && why.contains("ends before"), "{why}");
    for (headers, body, expected) in [
        (json_headers, &b"{\"resourceSpans\": 7}"[..], 400),
        (json_headers, b"{", 400),
        ("content-type: application/x-protobuf\r\n", b"\xff\xff\xff", 400),
        ("content-type: application/x-protobuf\r\ncontent-encoding: gzip\r\n", b"not gzip", 400),
        ("content-type: application/x-protobuf\r\ncontent-encoding: br\r\n", b"", 400),
        ("content-type: text/plain\r\n", b"", 415),
    ] {
        let (status, answer) = collector.http("POST", "/v1/traces", headers, body).await;
        assert_eq!(status, expected, "{headers}: {}", String::from_utf8_lossy(&answer));
    }
    // A bomb: 64 MiB of zeros, packed.
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gzip.write_all(&vec![0; 64 << 20]).expect("in memory");
    let headers = "content-type: application/x-protobuf\r\ncontent-encoding: gzip\r\n";
    let bomb = gzip.finish().expect("in memory");
    assert_eq!(collector.http("POST", "/v1/traces", headers, &bomb).await.0, 413);
    collector.seal().await;
    assert_eq!(column(&config.trail, &SERVICE_OP, "op"), ["good"]);
    assert!(collector.end());
}

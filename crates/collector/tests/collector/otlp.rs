//! OpenTelemetry's traces as they come, by gRPC and by HTTP.

use std::io::Write as _;

use crate::support::{Collector, Config, column, now};
use iotrail_collector::otlp::measure::Decoded;
use iotrail_format::schema::{PROCESS, SERVICE_OP, STITCH};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message as _;
use serde_json::{Value, json};
use tonic::Code;
use tonic::codec::CompressionEncoding;

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
                 "traceState": "x=1,iotrail=host-c:0000000000000009"}]}),
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

/// iotrail's SDK calls a service with OpenTelemetry, which calls another one: the state goes all the way, the breadcrumb is
/// the parent of the first only.
#[tokio::test]
async fn a_caller_with_the_sdk_is_the_parent_of_the_span_it_called() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = Config::new(folder.path());
    let collector = Collector::start(&config);
    let state = json!({"traceState": "iotrail=host-a:0000000000000021"});
    let spans = request(
        "b",
        "host-b",
        vec![span(2, 0x21, 2, "serve", state.clone()), span(3, 2, 3, "call", state.clone())],
    );
    let below = request("c", "host-c", vec![span(4, 3, 2, "deeper", state)]);
    for body in [spans, below] {
        let headers = "content-type: application/json\r\n";
        let (status, _) = collector.http("POST", "/v1/traces", headers, body.to_string().as_bytes()).await;
        assert_eq!(status, 200);
    }
    collector.seal().await;
    let trail = &config.trail;
    assert_eq!(column(trail, &STITCH, "kind"), ["rpc", "rpc", "split"]);
    assert_eq!(column(trail, &STITCH, "parent_node"), ["host-a", "host-b", "host-b"]);
    assert!(column(trail, &STITCH, "parent_crumb").contains(&0x21.to_string()));
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

/// How a message is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Protobuf,
    Json,
    Grpc,
}

const WAYS: [(Way, bool); 6] = [
    (Way::Protobuf, false),
    (Way::Protobuf, true),
    (Way::Json, false),
    (Way::Json, true),
    (Way::Grpc, false),
    (Way::Grpc, true),
];

/// Bytes that a message may decode to: eight times those of the largest.
const MOST: u64 = 128 << 20;

/// A message of so many spans without a field, and of resources that each have so many scopes without one, for which there
/// are no rows.
#[derive(Clone)]
struct Empty {
    spans: usize,
    scopes: Vec<usize>,
}

impl Empty {
    fn protobuf(&self) -> ExportTraceServiceRequest {
        let resource = |scope_spans| ResourceSpans { scope_spans, ..ResourceSpans::default() };
        let spans = ScopeSpans { spans: vec![Span::default(); self.spans], ..ScopeSpans::default() };
        let others = self.scopes.iter().map(|scopes| resource(vec![ScopeSpans::default(); *scopes]));
        let resource_spans = [resource(vec![spans])].into_iter().chain(others).collect();
        ExportTraceServiceRequest { resource_spans }
    }

    /// The same, as short as it gets.
    fn json(&self) -> String {
        let list = |count: usize| vec!["{}"; count].join(",");
        let mut resources = vec![format!(r#"{{"scopeSpans":[{{"spans":[{}]}}]}}"#, list(self.spans))];
        resources.extend(self.scopes.iter().map(|scopes| format!(r#"{{"scopeSpans":[{}]}}"#, list(*scopes))));
        format!(r#"{{"resourceSpans":[{}]}}"#, resources.join(","))
    }

    /// Bytes that it decodes to.
    fn bytes(&self) -> u64 {
        let json = Decoded::of_json(self.json().as_bytes()).expect("it is one").bytes;
        let protobuf = Decoded::of_protobuf(&self.protobuf().encode_to_vec()).expect("it is one").bytes;
        assert_eq!(json, protobuf);
        protobuf
    }
}

/// Sends a message. Returns how many spans were rejected, or why it was refused.
async fn send(collector: &Collector, (way, gzip): (Way, bool), message: &Empty) -> Result<i64, String> {
    let body = match way {
        Way::Grpc => {
            let address = format!("http://{}", collector.address);
            let mut client = TraceServiceClient::connect(address).await.expect("it listens");
            if gzip {
                client = client.send_compressed(CompressionEncoding::Gzip);
            }
            let answer = client.export(message.protobuf()).await.map_err(|status| {
                assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
                status.message().to_owned()
            })?;
            return Ok(answer.into_inner().partial_success.map_or(0, |partial| partial.rejected_spans));
        }
        Way::Protobuf => message.protobuf().encode_to_vec(),
        Way::Json => message.json().into_bytes(),
    };
    let kind = if way == Way::Json { "json" } else { "x-protobuf" };
    let mut headers = format!("content-type: application/{kind}\r\n");
    let mut sent = body;
    if gzip {
        headers += "content-encoding: gzip\r\n";
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        packed.write_all(&sent).expect("in memory");
        sent = packed.finish().expect("in memory");
    }
    let (status, answer) = collector.http("POST", "/v1/traces", &headers, &sent).await;
    if status != 200 {
        assert_eq!(status, 413);
        return Err(String::from_utf8_lossy(&answer).into_owned());
    }
    Ok(if way == Way::Json {
        let answer: Value = serde_json::from_slice(&answer).expect("JSON");
        answer["partialSuccess"]["rejectedSpans"].as_str().expect("a number").parse().expect("a number")
    } else {
        let answer = ExportTraceServiceResponse::decode(&*answer).expect("an answer");
        answer.partial_success.expect("none is a span").rejected_spans
    })
}

/// Most memory that a process had, bytes.
fn peak(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a line");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
}

/// A span without a field is two bytes, and some 260 of memory; a million of them are two kilobytes of gzip.
#[tokio::test]
async fn what_decodes_to_much_is_refused_before_it_is_decoded() {
    let folder = tempfile::tempdir().expect("a folder");
    let collector = Collector::start(&Config::new(folder.path()));
    let mut message = Empty { spans: 10, scopes: Vec::new() };
    for way in WAYS {
        assert_eq!(send(&collector, way, &message).await, Ok(10));
    }
    let before = peak(collector.pid());
    let large = Empty { spans: 2_000_000, scopes: Vec::new() };
    for way in WAYS {
        let why = send(&collector, way, &large).await.expect_err("500 MB of spans");
        assert!(why.contains("2000000 spans"), "{way:?}: {why}");
        assert!(why.contains("expected at most 134217728 bytes: send fewer spans at once"), "{way:?}: {why}");
    }
    let grown = peak(collector.pid()) - before;
    assert!(grown < 64 << 20, "{grown} bytes");

    // Nearly as much as is allowed, and four scopes more than is.
    for scopes in (2..=20).rev().map(|power| 1 << power) {
        message.scopes.push(scopes);
        if message.bytes() > MOST {
            message.scopes.pop();
        }
    }
    let mut more = message.clone();
    more.scopes.push(4);
    assert!(message.bytes() > MOST - 4096 && more.bytes() > MOST);
    for way in WAYS {
        assert_eq!(send(&collector, way, &message).await, Ok(10), "{way:?}");
        assert!(send(&collector, way, &more).await.expect_err("more than is allowed").contains("decodes to"));
    }
    let refused = collector.metric("iotrail_collector_refused_total{reason=\"too_large\"}").await;
    assert_eq!(refused, 12.0);
    assert!(collector.end());
}

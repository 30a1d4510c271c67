//! OpenTelemetry's spans as rows: what `docs/requests.md` says a component posts.
//!
//! One breadcrumb a span, a hash of its trace and its own id, so that whoever names it names the same one. A span is one
//! `service_op`; its parent a `stitch`: `rpc` if it is in another process, else `split`; a link `coalesce`; an event an
//! instant of the span. OTLP 1.x, `opentelemetry/proto/trace/v1/trace.proto`; attributes by the semantic conventions.

use std::collections::{HashMap, HashSet};

use arrow_array::RecordBatch;
use iotrail_format::context::{self, LONGEST_NODE};
use iotrail_format::ids::hash63;
use iotrail_format::schema::{PROCESS, SERVICE_OP, STITCH, THREAD, Table};
use iotrail_format::wire::UNKNOWN_NODE;
use iotrail_trail::arrays::{Value, batch};
use iotrail_trail::{LATEST, LONGEST};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, Span, SpanFlags};

/// Rejected spans whose reasons are told.
const REASONS: usize = 3;

/// A request as rows.
#[derive(Debug, Default)]
pub struct Converted {
    /// Batches by table, none empty.
    pub batches: Vec<(&'static Table, RecordBatch)>,
    /// Spans that can't be taken.
    pub rejected: i64,
    /// Why, of the first few.
    pub reasons: Vec<String>,
}

/// Rows of all tables while they grow.
#[derive(Default)]
struct Tables {
    service_op: Vec<Vec<Value>>,
    stitch: Vec<Vec<Value>>,
    process: Vec<Vec<Value>>,
    thread: Vec<Vec<Value>>,
}

/// A process that has spans.
struct Source {
    node: String,
    component: String,
    /// Its identity: what ids of its threads are hashes of.
    identity: String,
    pid: i64,
    process: i64,
}

/// Bytes that the rows of a request take, as [`crate::rows::decoded_bytes`] counts them: the name of a machine, which the
/// request has once, is in the row of each span, event and link. To be bounded before rows are made.
#[must_use]
pub fn rows_bytes(request: &ExportTraceServiceRequest, peer: &str) -> u64 {
    let sources: Vec<Source> = request.resource_spans.iter().map(|spans| source(spans, peer)).collect();
    let longest = sources.iter().map(|source| source.node.len()).max().unwrap_or(0);
    let row = |table: &Table, texts: usize| (8 * table.columns.len()).saturating_add(texts) as u64;
    let mut sum = 0_u64;
    for (spans, source) in request.resource_spans.iter().zip(&sources) {
        let op = row(&SERVICE_OP, source.node.len() + source.component.len());
        // Its parent may be on the machine of another one's spans.
        let stitch = row(&STITCH, source.node.len() + longest);
        for span in spans.scope_spans.iter().flat_map(|scope| &scope.spans) {
            let ops = op.saturating_mul(1 + span.events.len() as u64);
            let parents = u64::from(!span.parent_span_id.is_empty()) + span.links.len() as u64;
            sum = sum.saturating_add(ops).saturating_add(stitch.saturating_mul(parents));
        }
    }
    sum
}

/// Makes rows of a request. `peer` is the machine of spans that name none.
///
/// # Errors
/// What the trail says of rows that don't fit it, which correct use doesn't see.
pub fn convert(request: &ExportTraceServiceRequest, peer: &str) -> Result<Converted, iotrail_trail::Error> {
    let (mut tables, mut converted) = (Tables::default(), Converted::default());
    // Spans of this request by breadcrumb: which process they are of.
    let mut local: HashMap<i64, (String, i64)> = HashMap::new();
    let sources: Vec<Source> = request.resource_spans.iter().map(|spans| source(spans, peer)).collect();
    for (spans, source) in request.resource_spans.iter().zip(&sources) {
        for span in spans.scope_spans.iter().flat_map(|scope| &scope.spans) {
            if let Some(crumb) = crumb(&span.trace_id, &span.span_id) {
                local.insert(crumb, (source.node.clone(), source.process));
            }
        }
    }
    for (spans, source) in request.resource_spans.iter().zip(&sources) {
        let mut threads = HashSet::new();
        let mut first = None;
        for span in spans.scope_spans.iter().flat_map(|scope| &scope.spans) {
            match tables.span(source, span, &local, &mut threads) {
                Ok(ts) => first = Some(first.map_or(ts, |first: i64| first.min(ts))),
                Err(why) => {
                    converted.rejected += 1;
                    if converted.reasons.len() < REASONS {
                        converted
                            .reasons
                            .push(format!("span {:?} of {}: {why}", span.name, source.component));
                    }
                }
            }
        }
        if let Some(first) = first {
            tables.process(source, spans, first);
        }
    }
    for (table, rows) in [
        (&PROCESS, tables.process),
        (&THREAD, tables.thread),
        (&SERVICE_OP, tables.service_op),
        (&STITCH, tables.stitch),
    ] {
        if !rows.is_empty() {
            converted.batches.push((table, batch(table, rows)?));
        }
    }
    Ok(converted)
}

impl Tables {
    /// Adds a span. Returns when it began.
    fn span(
        &mut self,
        source: &Source,
        span: &Span,
        local: &HashMap<i64, (String, i64)>,
        threads: &mut HashSet<i64>,
    ) -> Result<i64, String> {
        let own = crumb(&span.trace_id, &span.span_id)
            .ok_or("expected a trace id of 16 bytes and a span id of 8, not all 0")?;
        let ts = time(span.start_time_unix_nano).ok_or("its start is no time between 1970 and 2200")?;
        let end = span.end_time_unix_nano;
        let dur = match end {
            0 => None,
            _ => Some(
                time(end)
                    .map(|end| end - ts)
                    .filter(|dur| (0..=LONGEST).contains(dur))
                    .ok_or("it ends before it starts, after 2200, or lasts longer than 31 years")?,
            ),
        };
        let node = source.node.as_str();
        let thread = self.thread(source, span, ts, threads);
        let kind = SpanKind::try_from(span.kind).unwrap_or(SpanKind::Unspecified);
        let kind_name = match kind {
            SpanKind::Server | SpanKind::Consumer => "server",
            SpanKind::Client | SpanKind::Producer => "client",
            _ => "internal",
        };
        let is_root = span.parent_span_id.is_empty();
        let client = if is_root { text(&span.attributes, &["enduser.id", "user.id"]) } else { None };
        let halves = |at: usize| span.trace_id[at..at + 8].try_into().map(i64::from_be_bytes).ok();
        let id = <[u8; 8]>::try_from(span.span_id.as_slice()).map(i64::from_be_bytes).ok();
        let mut op =
            |ts: i64, dur: Option<i64>, kind: &str, op: &str, client: Option<String>, status: Option<i64>| {
                self.service_op.push(vec![
                    ts.into(),
                    dur.into(),
                    node.into(),
                    thread.into(),
                    own.into(),
                    source.component.as_str().into(),
                    kind.into(),
                    op.into(),
                    client.into(),
                    status.into(),
                    Value::Null,
                    Value::Null,
                    Value::Null,
                    halves(0).into(),
                    halves(8).into(),
                    id.into(),
                    Value::Null,
                ]);
            };
        op(ts, dur, kind_name, &span.name, client, dur.map(|_| status(span)));
        for event in &span.events {
            if let Some(ts) = time(event.time_unix_nano) {
                op(ts, Some(0), "event", &event.name, None, Some(0));
            }
        }
        if let Some(parent) = crumb(&span.trace_id, &span.parent_span_id) {
            let ours = breadcrumb_in(&span.trace_state, &span.parent_span_id);
            let (kind, parent_node, parent) = match (&ours, local.get(&parent), is_remote(span, kind)) {
                (Some((node, crumb)), ..) => ("rpc", node.as_str(), *crumb),
                (None, Some((node, process)), _) if *process == source.process => {
                    ("split", node.as_str(), parent)
                }
                (None, Some((node, _)), _) => ("rpc", node.as_str(), parent),
                (None, None, true) => ("rpc", UNKNOWN_NODE, parent),
                (None, None, false) => ("split", node, parent),
            };
            self.stitch(source, ts, thread, own, parent_node, parent, kind);
        }
        for link in &span.links {
            if let Some(parent) = crumb(&link.trace_id, &link.span_id).filter(|parent| *parent != own) {
                let ours = breadcrumb_in(&link.trace_state, &link.span_id);
                let known = local.get(&parent).map(|(node, _)| (node.clone(), parent));
                let (parent_node, parent) =
                    ours.or(known).unwrap_or_else(|| (UNKNOWN_NODE.to_owned(), parent));
                self.stitch(source, ts, thread, own, &parent_node, parent, "coalesce");
            }
        }
        Ok(ts)
    }

    #[expect(clippy::too_many_arguments, reason = "the columns of a stitch")]
    fn stitch(
        &mut self,
        source: &Source,
        ts: i64,
        thread: i64,
        crumb: i64,
        parent_node: &str,
        parent: i64,
        kind: &str,
    ) {
        self.stitch.push(vec![
            ts.into(),
            0.into(),
            source.node.as_str().into(),
            thread.into(),
            crumb.into(),
            parent_node.into(),
            parent.into(),
            kind.into(),
            1.into(),
            Value::Null,
        ]);
    }

    /// The thread of a span: by its attribute, else one that stands for the process.
    fn thread(&mut self, source: &Source, span: &Span, ts: i64, threads: &mut HashSet<i64>) -> i64 {
        let tid = int(&span.attributes, "thread.id");
        let number = tid.unwrap_or(source.pid);
        let thread = hash63(format!("{}\0{}", source.identity, number).as_bytes());
        if threads.insert(thread) {
            self.thread.push(vec![
                source.node.as_str().into(),
                thread.into(),
                source.pid.into(),
                number.into(),
                source.process.into(),
                text(&span.attributes, &["thread.name"]).into(),
                ts.into(),
                Value::Null,
            ]);
        }
        thread
    }

    fn process(&mut self, source: &Source, spans: &ResourceSpans, first: i64) {
        let none = Vec::new();
        let about = spans.resource.as_ref().map_or(&none, |resource| &resource.attributes);
        let name = text(about, &["process.executable.name"]).unwrap_or_else(|| source.component.clone());
        let mut row: Vec<Value> = vec![
            source.node.as_str().into(),
            source.process.into(),
            source.pid.into(),
            name.into(),
            source.component.as_str().into(),
            Value::Null,
            first.into(),
            Value::Null,
            Value::Null,
            text(about, &["process.executable.path"]).into(),
            text(about, &["process.command_line", "process.command"]).into(),
            text(about, &["process.working_directory"]).into(),
            "running".into(),
        ];
        row.resize(PROCESS.columns.len(), Value::Null);
        self.process.push(row);
    }
}

fn source(spans: &ResourceSpans, peer: &str) -> Source {
    let none = Vec::new();
    let about = spans.resource.as_ref().map_or(&none, |resource| &resource.attributes);
    let node =
        text(about, &["host.id", "host.name", "service.instance.id"]).unwrap_or_else(|| peer.to_owned());
    // The name that OpenTelemetry's own SDKs give a service without one.
    let component = text(about, &["service.name"]).unwrap_or_else(|| "unknown_service".to_owned());
    let pid = int(about, "process.pid").unwrap_or(0);
    let instance = text(about, &["service.instance.id"]).unwrap_or_default();
    let identity = format!("{node}\0{component}\0{pid}\0{instance}");
    let process = hash63(identity.as_bytes());
    Source { node, component, identity, pid, process }
}

/// The breadcrumb of a span; none if its ids are no ids.
fn crumb(trace: &[u8], span: &[u8]) -> Option<i64> {
    let is_id = |id: &[u8], length: usize| id.len() == length && id.iter().any(|byte| *byte != 0);
    (is_id(trace, 16) && is_id(span, 8)).then(|| hash63(&[trace, span].concat()))
}

fn time(ns: u64) -> Option<i64> {
    (1..=LATEST as u64).contains(&ns).then_some(ns as i64)
}

/// Whether a span's parent is in another process: as its flags say, else by its kind.
fn is_remote(span: &Span, kind: SpanKind) -> bool {
    let flag = |flag: SpanFlags| span.flags & flag as u32 != 0;
    if flag(SpanFlags::ContextHasIsRemoteMask) {
        return flag(SpanFlags::ContextIsRemoteMask);
    }
    matches!(kind, SpanKind::Server | SpanKind::Consumer)
}

/// 0, or the number of the error: a status of gRPC or HTTP, else 1.
fn status(span: &Span) -> i64 {
    let failed = span.status.as_ref().is_some_and(|status| status.code == StatusCode::Error as i32);
    if !failed {
        return 0;
    }
    let codes = ["rpc.grpc.status_code", "http.response.status_code", "http.status_code"];
    codes.iter().find_map(|code| int(&span.attributes, code)).filter(|code| *code != 0).unwrap_or(1)
}

/// The breadcrumb that a span id is, with its machine, if iotrail's SDK made it: `tracestate` (W3C Trace Context, section
/// 3.3) names both. OpenTelemetry's SDKs hand it on to spans further down, whose parents it doesn't name.
fn breadcrumb_in(trace_state: &str, span_id: &[u8]) -> Option<(String, i64)> {
    let id = <[u8; 8]>::try_from(span_id).ok().map(u64::from_be_bytes)?;
    let mut room = [0; LONGEST_NODE];
    context::breadcrumb(trace_state, id, &mut room).map(|(node, crumb)| (node.to_owned(), crumb))
}

fn value<'a>(attributes: &'a [KeyValue], key: &str) -> Option<&'a any_value::Value> {
    attributes.iter().find(|attribute| attribute.key == key)?.value.as_ref()?.value.as_ref()
}

/// The first of some attributes that is a text which isn't empty.
fn text(attributes: &[KeyValue], keys: &[&str]) -> Option<String> {
    keys.iter().find_map(|key| match value(attributes, key)? {
        any_value::Value::StringValue(text) if !text.is_empty() => Some(text.clone()),
        any_value::Value::IntValue(number) => Some(number.to_string()),
        _ => None,
    })
}

fn int(attributes: &[KeyValue], key: &str) -> Option<i64> {
    match value(attributes, key)? {
        any_value::Value::IntValue(number) => Some(*number),
        any_value::Value::StringValue(text) => text.parse().ok(),
        _ => None,
    }
}

//! OpenTelemetry's traces, by gRPC and by HTTP (OTLP 1.x specification, sections "OTLP/gRPC" and "OTLP/HTTP").
//!
//! An exporter sends again what wasn't answered, so each row is taken once. What can't be taken of a request is said
//! in its answer as a partial success, as the specification wants it; the rest is durable then.

pub mod spans;

use std::io::Read as _;
use std::net::SocketAddr;

use axum::body::{Bytes, to_bytes};
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Json, Response};
use flate2::read::MultiGzDecoder;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::TraceService;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use prost::Message;
use serde::Serialize;
use serde_json::json;
use tonic::Status;

use crate::error::Refusal;
use crate::router::Shared;
use crate::rows::Rows;

/// The gRPC service.
#[derive(Clone)]
pub struct Traces(pub Shared);

#[tonic::async_trait]
impl TraceService for Traces {
    async fn export(
        &self,
        request: tonic::Request<ExportTraceServiceRequest>,
    ) -> Result<tonic::Response<ExportTraceServiceResponse>, Status> {
        let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(peer)| *peer);
        Ok(tonic::Response::new(keep(&self.0, request.get_ref(), peer).await?))
    }
}

/// Takes a request; answers when it is durable.
async fn keep(
    shared: &Shared,
    request: &ExportTraceServiceRequest,
    peer: Option<SocketAddr>,
) -> Result<ExportTraceServiceResponse, Refusal> {
    let peer = peer.map_or_else(|| "unknown".to_owned(), |peer| peer.ip().to_string());
    let kept = async {
        let unfit =
            |e: &dyn std::fmt::Display| Refusal::Malformed(format!("spans that don't fit a trail: {e}"));
        let (bytes, most) = (spans::rows_bytes(request, &peer), shared.intake.most_decoded());
        if bytes > most {
            return Err(Refusal::TooLarge(format!(
                "spans whose rows take {bytes} bytes; expected at most {most}: send fewer at once"
            )));
        }
        let converted = spans::convert(request, &peer).map_err(|e| unfit(&e))?;
        let rows: Result<Vec<Rows>, _> =
            converted.batches.iter().map(|(table, batch)| Rows::of(table, batch.clone())).collect();
        let rows = rows.map_err(|e| unfit(&e))?;
        if !rows.is_empty() {
            shared.intake.keep(None, true, rows).await?;
        }
        Ok((converted.rejected, converted.reasons))
    };
    let (rejected, reasons) = kept.await.inspect_err(|refusal: &Refusal| {
        // The log counts what it refuses.
        if matches!(refusal, Refusal::Malformed(_)) {
            shared.metrics.refuse(refusal.reason());
        }
    })?;
    let partial_success = (rejected > 0).then(|| {
        shared.metrics.refuse("span");
        ExportTracePartialSuccess { rejected_spans: rejected, error_message: reasons.join("; ") }
    });
    Ok(ExportTraceServiceResponse { partial_success })
}

/// How a request over HTTP is encoded, and its answer.
#[derive(Clone, Copy)]
enum Encoding {
    Protobuf,
    Json,
}

/// `google.rpc.Status`: how an error is said over HTTP.
#[derive(Clone, PartialEq, Message, Serialize)]
struct Problem {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
}

impl Encoding {
    fn of(headers: &HeaderMap) -> Option<Self> {
        let kind = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
        match kind.split(';').next()?.trim() {
            "application/x-protobuf" => Some(Self::Protobuf),
            "application/json" => Some(Self::Json),
            _ => None,
        }
    }

    /// The answer to what was taken. JSON has 64-bit numbers as text (ProtoJSON), and nothing for what isn't there.
    fn accept(self, response: &ExportTraceServiceResponse) -> Response {
        match (self, &response.partial_success) {
            (Self::Protobuf, _) => self.answer(StatusCode::OK, response),
            (Self::Json, None) => Json(json!({})).into_response(),
            (Self::Json, Some(partial)) => Json(json!({"partialSuccess": {
                "rejectedSpans": partial.rejected_spans.to_string(),
                "errorMessage": partial.error_message,
            }}))
            .into_response(),
        }
    }

    fn answer<T: Message + Serialize>(self, code: StatusCode, message: &T) -> Response {
        let (kind, body) = match self {
            Self::Protobuf => ("application/x-protobuf", message.encode_to_vec()),
            Self::Json => ("application/json", serde_json::to_vec(message).expect("a message is plain data")),
        };
        (code, [(header::CONTENT_TYPE, kind)], body).into_response()
    }

    fn refuse(self, shared: &Shared, refusal: Refusal) -> Response {
        let code = StatusCode::from_u16(refusal.http()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        if !matches!(refusal, Refusal::NoSpace(_)) {
            shared.metrics.refuse(refusal.reason());
        }
        let status = Status::from(refusal);
        let problem = Problem { code: status.code() as i32, message: status.message().to_owned() };
        let mut answer = self.answer(code, &problem);
        if code == StatusCode::SERVICE_UNAVAILABLE {
            answer.headers_mut().insert(header::RETRY_AFTER, header::HeaderValue::from_static("5"));
        }
        answer
    }
}

/// `POST /v1/traces`.
pub async fn http(State(shared): State<Shared>, request: Request) -> Response {
    let Some(encoding) = Encoding::of(request.headers()) else {
        let what = "expected content-type application/x-protobuf or application/json\n";
        return (StatusCode::UNSUPPORTED_MEDIA_TYPE, what).into_response();
    };
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(peer)| *peer);
    let body = match body(&shared, request).await {
        Ok(body) => body,
        Err(refusal) => return encoding.refuse(&shared, refusal),
    };
    let request = match decode(matches!(encoding, Encoding::Json), &body) {
        Ok(request) => request,
        Err(why) => return encoding.refuse(&shared, Refusal::Malformed(why)),
    };
    match keep(&shared, &request, peer).await {
        Ok(response) => encoding.accept(&response),
        Err(refusal) => encoding.refuse(&shared, refusal),
    }
}

/// Decodes a request, as JSON or protobuf.
///
/// # Errors
/// What was expected and found.
pub fn decode(json: bool, body: &[u8]) -> Result<ExportTraceServiceRequest, String> {
    if json {
        serde_json::from_slice(body).map_err(|e| format!("not an ExportTraceServiceRequest in JSON: {e}"))
    } else {
        ExportTraceServiceRequest::decode(body)
            .map_err(|e| format!("not an ExportTraceServiceRequest in protobuf: {e}"))
    }
}

/// The body of a request, unpacked, within the bounds of a message.
async fn body(shared: &Shared, request: Request) -> Result<Bytes, Refusal> {
    let largest = shared.largest;
    let too_large =
        || Refusal::TooLarge(format!("expected a request of at most {largest} bytes; send fewer spans"));
    let length =
        |headers: &HeaderMap| headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse::<usize>().ok();
    let announced = length(request.headers()).unwrap_or(largest);
    if announced > largest {
        return Err(too_large());
    }
    let packed = match request.headers().get(header::CONTENT_ENCODING).map(|value| value.as_bytes()) {
        None | Some(b"identity") => false,
        Some(b"gzip") => true,
        Some(other) => {
            let other = String::from_utf8_lossy(other);
            return Err(Refusal::Malformed(format!("expected content-encoding gzip or none, found {other}")));
        }
    };
    // As much again for what it unpacks to, which is given back soon.
    let _room = shared.receiving.reserve(if packed { largest } else { announced }).await?;
    let read =
        tokio::time::timeout(shared.receiving.patience(), to_bytes(request.into_body(), largest)).await;
    let slow = || Refusal::Malformed("the request's body didn't come in time".to_owned());
    let body = read.map_err(|_| slow())?.map_err(|_| too_large())?;
    if !packed {
        return Ok(body);
    }
    let mut unpacked = Vec::new();
    MultiGzDecoder::new(&*body)
        .take(largest as u64 + 1)
        .read_to_end(&mut unpacked)
        .map_err(|e| Refusal::Malformed(format!("not gzip: {e}")))?;
    if unpacked.len() > largest { Err(too_large()) } else { Ok(unpacked.into()) }
}

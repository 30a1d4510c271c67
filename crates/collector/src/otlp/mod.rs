//! OpenTelemetry's traces, by gRPC and by HTTP (OTLP 1.x specification, sections "OTLP/gRPC" and "OTLP/HTTP").
//!
//! An exporter sends again what wasn't answered, so each row is taken once. What can't be taken of a request is said
//! in its answer as a partial success, as the specification wants it; the rest is durable then.

pub mod measure;
pub mod spans;

use std::io::Read as _;
use std::net::SocketAddr;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Json, Response};
use bytes::Buf as _;
use flate2::read::MultiGzDecoder;
use futures_util::future::BoxFuture;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use prost::Message;
use serde::Serialize;
use serde_json::json;
use tokio::sync::OwnedSemaphorePermit;
use tonic::codec::{Codec, CompressionEncoding, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::server::{Grpc, UnaryService};
use tonic::{Code, Status};

use self::measure::Decoded;
use crate::error::Refusal;
use crate::router::Shared;
use crate::rows::Rows;

/// Bytes that a message may decode to, in messages of the largest size. Spans of SDKs take 5 to 11 times their bytes: those of
/// an HTTP server with ten attributes 5.2 to 5.8 times, with twenty numbers as attributes up to 11.3 times.
const MOST_TIMES: u64 = 8;

/// Where gRPC has the one method of `TraceService`.
pub const EXPORT: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";

/// gRPC's [`EXPORT`].
pub async fn grpc(State(shared): State<Shared>, request: Request) -> Response {
    let mut grpc = Grpc::new(Messages)
        .accept_compressed(CompressionEncoding::Gzip)
        .max_decoding_message_size(shared.largest);
    grpc.unary(Export(shared), request).await.map(Body::new)
}

/// Hands messages over as they come: the service that tonic generates decodes them before anybody can bound that.
struct Messages;

impl Codec for Messages {
    type Encode = ExportTraceServiceResponse;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Messages {
    type Item = ExportTraceServiceResponse;
    type Error = Status;

    fn encode(&mut self, answer: Self::Item, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        answer.encode(buffer).map_err(|e| Status::internal(e.to_string()))
    }
}

impl Decoder for Messages {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(buffer.copy_to_bytes(buffer.remaining())))
    }
}

struct Export(Shared);

impl UnaryService<Bytes> for Export {
    type Response = ExportTraceServiceResponse;
    type Future = BoxFuture<'static, Result<tonic::Response<Self::Response>, Status>>;

    fn call(&mut self, request: tonic::Request<Bytes>) -> Self::Future {
        let shared = self.0.clone();
        Box::pin(async move {
            let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(peer)| *peer);
            let kept = keep(&shared, Encoding::Protobuf, request.into_inner(), peer).await;
            kept.map(tonic::Response::new).map_err(|refusal| {
                count(&shared, &refusal);
                status(refusal)
            })
        })
    }
}

/// As OTLP has it: exporters send again after `UNAVAILABLE` and `OUT_OF_RANGE`, and not after `RESOURCE_EXHAUSTED` unless
/// it says when (OTLP specification, "OTLP/gRPC Response", "Failures").
fn status(refusal: Refusal) -> Status {
    match refusal {
        Refusal::TooLarge(what) => Status::new(Code::ResourceExhausted, what),
        Refusal::NoSpace(what) => Status::new(Code::Unavailable, what),
        other => other.into(),
    }
}

fn count(shared: &Shared, refusal: &Refusal) {
    // What has no space is counted where that is found.
    if !matches!(refusal, Refusal::NoSpace(_)) {
        shared.metrics.refuse(refusal.reason());
    }
}

/// Takes a message; answers when it is durable.
async fn keep(
    shared: &Shared,
    encoding: Encoding,
    message: Bytes,
    peer: Option<SocketAddr>,
) -> Result<ExportTraceServiceResponse, Refusal> {
    let peer = peer.map_or_else(|| "unknown".to_owned(), |peer| peer.ip().to_string());
    let is_json = matches!(encoding, Encoding::Json);
    let decoded = measure(is_json, &message, MOST_TIMES * shared.largest as u64)?;
    let room = shared.receiving.reserve_decoded(decoded.bytes)?;
    let request = decode(is_json, &message)?;
    drop(message);
    let (bytes, most) = (spans::rows_bytes(&request, &peer), shared.intake.most_decoded());
    if bytes > most {
        return Err(Refusal::TooLarge(format!(
            "spans whose rows take {bytes} bytes; expected at most {most}: send fewer at once"
        )));
    }
    let unfit = |e: &dyn std::fmt::Display| Refusal::Malformed(format!("spans that don't fit a trail: {e}"));
    let converted = spans::convert(&request, &peer).map_err(|e| unfit(&e))?;
    drop(request);
    let rows: Result<Vec<Rows>, _> =
        converted.batches.into_iter().map(|(table, batch)| Rows::of(table, batch)).collect();
    let rows = rows.map_err(|e| unfit(&e))?;
    if !rows.is_empty() {
        let durable = shared.intake.submit(None, true, rows).await?;
        drop(room);
        durable.await.unwrap_or(Err(Refusal::Ending))?;
    }
    let (rejected, reasons) = (converted.rejected, converted.reasons);
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
        count(shared, &refusal);
        let status = status(refusal);
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
    let (message, _room) = match body(&shared, request).await {
        Ok(body) => body,
        Err(refusal) => return encoding.refuse(&shared, refusal),
    };
    match keep(&shared, encoding, message, peer).await {
        Ok(response) => encoding.accept(&response),
        Err(refusal) => encoding.refuse(&shared, refusal),
    }
}

/// What a request decodes to, as JSON or protobuf, and not more than `most` bytes.
///
/// # Errors
/// [`Refusal::Malformed`], [`Refusal::TooLarge`].
pub fn measure(json: bool, body: &[u8], most: u64) -> Result<Decoded, Refusal> {
    let decoded = if json {
        Decoded::of_json(body).map_err(|e| malformed("JSON", &e))
    } else {
        Decoded::of_protobuf(body).map_err(|e| malformed("protobuf", &e))
    }?;
    if decoded.bytes > most {
        return Err(Refusal::TooLarge(format!(
            "a message that decodes to {decoded}; expected at most {most} bytes: send fewer spans at once"
        )));
    }
    Ok(decoded)
}

/// Decodes a request, as JSON or protobuf, that was [measured](measure).
///
/// # Errors
/// [`Refusal::Malformed`].
pub fn decode(json: bool, body: &[u8]) -> Result<ExportTraceServiceRequest, Refusal> {
    if json {
        serde_json::from_slice(body).map_err(|e| malformed("JSON", &e))
    } else {
        ExportTraceServiceRequest::decode(body).map_err(|e| malformed("protobuf", &e))
    }
}

fn malformed(encoding: &str, why: &dyn std::fmt::Display) -> Refusal {
    Refusal::Malformed(format!("not an ExportTraceServiceRequest in {encoding}: {why}"))
}

/// The body of a request, unpacked, within the bounds of a message; and the room reserved for it.
async fn body(shared: &Shared, request: Request) -> Result<(Bytes, OwnedSemaphorePermit), Refusal> {
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
    // As much again for what it unpacks to, while the packed bytes are still there.
    let room = shared.receiving.reserve(if packed { largest } else { announced }).await?;
    let read =
        tokio::time::timeout(shared.receiving.patience(), to_bytes(request.into_body(), largest)).await;
    let slow = || Refusal::Malformed("the request's body didn't come in time".to_owned());
    let body = read.map_err(|_| slow())?.map_err(|_| too_large())?;
    if !packed {
        return Ok((body, room));
    }
    let mut unpacked = Vec::new();
    MultiGzDecoder::new(&*body)
        .take(largest as u64 + 1)
        .read_to_end(&mut unpacked)
        .map_err(|e| Refusal::Malformed(format!("not gzip: {e}")))?;
    if unpacked.len() > largest { Err(too_large()) } else { Ok((unpacked.into(), room)) }
}

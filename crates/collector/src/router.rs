//! Everything a listener serves, and who may have it.

use std::net::IpAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use arrow_flight::flight_service_server::FlightServiceServer;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Json, Response};
use axum::routing::{get, post};
use axum::{Router, extract::Query};
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq as _;
use tokio::sync::{mpsc, oneshot};
use tonic::Status;

use crate::aside::Aside;
use crate::connections::Connection;
use crate::flight::Flight;
use crate::intake::Intake;
use crate::keeper::{SealNow, ToKeeper};
use crate::live::{Told, socket};
use crate::metrics::Metrics;
use crate::otlp;
use crate::receiving::Receiving;

/// What handlers share.
#[derive(Clone)]
pub struct Shared {
    /// The trail, by its whole path.
    pub trail: Arc<Path>,
    /// What can't be sealed.
    pub aside: Aside,
    /// The way in.
    pub intake: Intake,
    /// The way to the trail.
    pub keeper: Sender<ToKeeper>,
    /// The way to the live stream.
    pub live: mpsc::Sender<Told>,
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// What peers must know; none if nothing.
    pub token: Option<Arc<str>>,
    /// Memory for messages while they are received.
    pub receiving: Receiving,
    /// Bytes of a message at most.
    pub largest: usize,
}

/// All of it.
pub fn router(shared: Shared) -> Router {
    let flight = Flight::new(shared.intake.clone(), shared.metrics.clone(), shared.largest);
    let flight = FlightServiceServer::new(flight).max_decoding_message_size(shared.largest);
    let receiving = shared.receiving.clone();
    let grpc = Router::new()
        .route_service("/arrow.flight.protocol.FlightService/{method}", flight)
        .route(otlp::EXPORT, post(otlp::grpc))
        .layer(middleware::map_request(move |request: Request| {
            let receiving = receiving.clone();
            async move { request.map(|body| receiving.measure(body)) }
        }));
    Router::new()
        .merge(grpc)
        .route("/v1/traces", post(otlp::http))
        .route("/metrics", get(metrics))
        .route("/info", get(info))
        .route("/live", get(socket::live))
        .route("/seal", post(seal))
        .layer(middleware::from_fn_with_state(shared.clone(), admit))
        .route("/health", get(|| async { "ok\n" }))
        .fallback(nothing)
        .with_state(shared)
}

async fn nothing(request: Request) -> Response {
    let what = "a collector has /arrow.flight.protocol.FlightService/DoPut, /v1/traces, /live, /seal, /info, /metrics, /health";
    refuse(&request, StatusCode::NOT_FOUND, Status::unimplemented(what), what)
}

/// An answer as the peer's protocol has it.
fn refuse(request: &Request, code: StatusCode, status: Status, text: &str) -> Response {
    if is_grpc(request) { status.into_http::<Body>() } else { (code, format!("{text}\n")).into_response() }
}

fn is_grpc(request: &Request) -> bool {
    let kind = request.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    kind.is_some_and(|kind| kind.starts_with(b"application/grpc"))
}

/// Lets those in who know the token; if none is needed, all of this machine but what a browser shows.
async fn admit(State(shared): State<Shared>, request: Request, next: Next) -> Response {
    let Some(token) = &shared.token else {
        let Some(why) = of_a_page(&request) else { return let_in(request, next).await };
        shared.metrics.refuse("page");
        return refuse(&request, StatusCode::FORBIDDEN, Status::permission_denied(why), why);
    };
    let given = request.headers().get(header::AUTHORIZATION).map(HeaderValue::as_bytes);
    let text = match given.map(|given| given.strip_prefix(b"Bearer ")) {
        Some(Some(given)) if bool::from(given.ct_eq(token.as_bytes())) => return let_in(request, next).await,
        Some(_) => "the token is not this collector's",
        None => "a token is needed: send it as header authorization: Bearer TOKEN",
    };
    shared.metrics.refuse("token");
    refuse(&request, StatusCode::UNAUTHORIZED, Status::unauthenticated(text), text)
}

async fn let_in(request: Request, next: Next) -> Response {
    if let Some(connection) = request.extensions().get::<Arc<Connection>>() {
        connection.admit();
    }
    next.run(request).await
}

/// Why a request may be one that a page makes a browser send; none if it can't be.
///
/// Browsers name the page in WebSockets and in all but GETs (Fetch standard, section 3.2), and keep answers to those from
/// other sites. Not from one whose name was made to resolve to this machine: that name is in the request.
fn of_a_page(request: &Request) -> Option<&'static str> {
    if request.headers().contains_key(header::ORIGIN) {
        return Some("pages of a browser get nothing here: iotrail serve has one");
    }
    let host =
        request.headers().get(header::HOST).and_then(|host| host.to_str().ok()?.parse::<Authority>().ok());
    let named = request.uri().authority().or(host.as_ref());
    let near = named.is_none_or(|name| {
        let name = name.host();
        let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        name == "localhost" || address.is_ok_and(|address| address.is_loopback())
    });
    (request.method() == Method::GET && !near)
        .then_some("this collector is for this machine only: ask for it as localhost or 127.0.0.1")
}

/// Answer of `GET /info`.
#[derive(Serialize)]
struct Info {
    version: &'static str,
    trail: TrailFolder,
    set_aside: SetAside,
}

/// Messages that were accepted and can't be sealed.
#[derive(Serialize)]
struct SetAside {
    folder: String,
    entries: u64,
}

/// Where the trail is, and by what one of this name is known to be this one.
#[derive(Serialize)]
struct TrailFolder {
    path: String,
    device: u64,
    inode: u64,
}

async fn info(State(shared): State<Shared>) -> Response {
    match std::fs::metadata(&shared.trail) {
        Ok(found) => {
            let path = shared.trail.display().to_string();
            let trail = TrailFolder { path, device: found.dev(), inode: found.ino() };
            let folder = shared.aside.folder().display().to_string();
            let set_aside = SetAside { folder, entries: shared.aside.entries() };
            Json(Info { version: env!("CARGO_PKG_VERSION"), trail, set_aside }).into_response()
        }
        Err(why) => {
            let text = format!("{}: {why}\n", shared.trail.display());
            (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
        }
    }
}

async fn metrics(State(shared): State<Shared>) -> Response {
    shared.intake.measure();
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], shared.metrics.text()).into_response()
}

/// Query of `POST /seal`.
#[derive(Deserialize)]
struct SealQuery {
    #[serde(default)]
    all: bool,
}

async fn seal(State(shared): State<Shared>, Query(query): Query<SealQuery>) -> Response {
    let (done, sealed) = oneshot::channel();
    let _ = shared.keeper.send(ToKeeper::Seal(SealNow { all: query.all, done }));
    match sealed.await {
        Ok(Ok(sealed)) => Json(sealed).into_response(),
        Ok(Err(why)) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")).into_response(),
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "the collector is ending\n").into_response(),
    }
}

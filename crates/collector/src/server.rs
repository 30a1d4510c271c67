//! The listeners: HTTP/1.1 and HTTP/2, with or without TLS, each with everything on it.
//!
//! A peer is given time and memory within bounds: for its first request ([`connections`](crate::connections)), for the head
//! of each, for what it sends and isn't read yet. One that is gone without a word is found by HTTP/2's pings.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use hyper::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tonic::codegen::Service as _;

use crate::connections::{Connection, Connections};

/// For the head of a request.
const HEAD: Duration = Duration::from_secs(10);
/// Silence after which a peer is asked whether it is there, and time for its answer.
const PING: Duration = Duration::from_secs(20);
/// Bytes of a stream, and of all streams of a connection, that may wait to be read.
const STREAM_WINDOW: u32 = 256 << 10;
const CONNECTION_WINDOW: u32 = 1 << 20;
/// Streams of a connection.
const STREAMS: u32 = 256;
/// For what is being answered when the collector ends.
const FAREWELL: Duration = Duration::from_secs(2);

/// Serves a listener until `ending` says so.
pub async fn serve(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    router: Router,
    connections: Arc<Connections>,
    mut ending: watch::Receiver<bool>,
) {
    loop {
        let (stream, peer) = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                // No descriptor left, or the peer left at once: the next one may do better.
                Err(_) => {
                    connections.make_room();
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
            () = ended(&mut ending) => return,
        };
        let Some(place) = connections.enter(peer.ip()) else { continue };
        let (router, tls, ending) = (router.clone(), tls.clone(), ending.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = connection(stream, peer, tls, router, place.clone(), ending) => {}
                () = place.overdue() => {}
            }
        });
    }
}

async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    tls: Option<TlsAcceptor>,
    router: Router,
    place: Arc<Connection>,
    ending: watch::Receiver<bool>,
) {
    // Answers are small, and waited for.
    let _ = stream.set_nodelay(true);
    let Some(tls) = tls else { return http(stream, peer, router, place, ending).await };
    if let Ok(stream) = tls.accept(stream).await {
        http(stream, peer, router, place, ending).await;
    }
}

async fn http<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    peer: SocketAddr,
    router: Router,
    place: Arc<Connection>,
    mut ending: watch::Receiver<bool>,
) {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD);
    builder
        .http2()
        .timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_concurrent_streams(STREAMS)
        .keep_alive_interval(PING)
        .keep_alive_timeout(PING);
    let service = service_fn(move |request: Request<Incoming>| {
        let mut router = router.clone();
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(ConnectInfo(peer));
        request.extensions_mut().insert(place.clone());
        async move { router.call(request).await as Result<_, Infallible> }
    });
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    // What goes wrong with a connection is known to its peer.
    tokio::select! {
        _ = connection.as_mut() => {}
        () = ended(&mut ending) => {
            connection.as_mut().graceful_shutdown();
            let _ = tokio::time::timeout(FAREWELL, connection).await;
        }
    }
}

async fn ended(ending: &mut watch::Receiver<bool>) {
    // A sender that is gone ends it too.
    let _ = ending.wait_for(|ending| *ending).await;
}

/// Waits for a signal to end.
///
/// # Errors
/// If signals can't be watched.
pub fn signal() -> std::io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}

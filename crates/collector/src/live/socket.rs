//! `GET /live`: a viewer's WebSocket.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::Told;
use super::viewer::See;
use crate::connections::Connection;
use crate::router::Shared;

/// A viewer that takes nothing for so long is closed.
const PATIENCE: Duration = Duration::from_secs(30);
/// For the answer to a close.
const FAREWELL: Duration = Duration::from_secs(2);
/// Bytes of what a viewer may say.
const SAID: usize = 4 << 20;
/// Viewers at a time: what one may say, and what is known of it, is held for each.
const MOST: i64 = 1024;

/// Takes a viewer.
pub async fn live(
    State(shared): State<Shared>,
    Extension(connection): Extension<Arc<Connection>>,
    upgrade: WebSocketUpgrade,
) -> Response {
    if shared.metrics.viewers.get() >= MOST {
        shared.metrics.refuse("viewers");
        let why = format!("{MOST} viewers watch, as many as may: try again when one has left\n");
        return (StatusCode::SERVICE_UNAVAILABLE, why).into_response();
    }
    upgrade.max_message_size(SAID).max_frame_size(SAID).on_upgrade(|socket| async move {
        watch(shared, socket).await;
        // It is one until here, though no longer of HTTP.
        drop(connection);
    })
}

async fn watch(shared: Shared, mut socket: WebSocket) {
    static IDS: AtomicU64 = AtomicU64::new(0);
    let id = IDS.fetch_add(1, Ordering::Relaxed);
    // Room for one text behind the one that is being sent.
    let (to, mut texts) = mpsc::channel(1);
    if shared.live.send(Told::Came(id, to)).await.is_err() {
        return;
    }
    loop {
        let sent = tokio::select! {
            text = texts.recv() => match text {
                Some(text) => timeout(PATIENCE, socket.send(Message::Text(text.into()))).await,
                None => break,
            },
            said = socket.recv() => match said {
                Some(Ok(Message::Text(text))) => match See::read(&text) {
                    Ok(see) => {
                        let _ = shared.live.send(Told::Sees(id, see)).await;
                        continue;
                    }
                    Err(why) => {
                        shared.metrics.refuse("see");
                        // A reason has at most 123 bytes (RFC 6455, section 5.5).
                        let why: String = why.chars().filter(char::is_ascii).take(120).collect();
                        let frame = CloseFrame { code: close_code::POLICY, reason: why.into() };
                        let _ = timeout(PATIENCE, socket.send(Message::Close(Some(frame)))).await;
                        // Until the viewer has answered: a connection that is dropped with something unread is reset,
                        // and the reason with it.
                        let answered = async { while let Some(Ok(_)) = socket.recv().await {} };
                        let _ = timeout(FAREWELL, answered).await;
                        break;
                    }
                },
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => continue,
                _ => break,
            },
        };
        match sent {
            Ok(Ok(())) => {}
            Ok(Err(_)) => break,
            Err(_) => {
                shared.metrics.closed_viewers.inc();
                break;
            }
        }
    }
    let _ = shared.live.send(Told::Went(id)).await;
}

//! Memory for messages while they are received: many large ones at once wait for each other.
//!
//! tonic collects a message whole before it hands it over. So the body of each gRPC request is looked at as it passes:
//! where a large message begins, room for all of it is reserved from one budget, and the stream isn't read before there
//! is. A peer that then doesn't send it in time is cut off, or a few of them could hold all room.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes};
use http_body::{Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Sleep, sleep};

use crate::error::Refusal;

/// Messages up to this size need no room reserved: a connection's windows hold as much.
const SMALL: usize = 64 << 10;
/// For a large message, from its first byte to its last.
const PATIENCE: Duration = Duration::from_secs(30);
/// Bytes of a permit.
const PERMIT: usize = 1024;
/// gRPC's head of a message: a flag and its length ("Length-Prefixed-Message").
const HEAD: usize = 5;

/// The budget. Cheap to clone.
#[derive(Clone)]
pub struct Receiving {
    room: Arc<Semaphore>,
    /// As much again for what messages decode to.
    decoded: Arc<Semaphore>,
    permits: usize,
    largest: usize,
}

impl Receiving {
    /// Of so many bytes, for messages of at most `largest`.
    #[must_use]
    pub fn new(bytes: usize, largest: usize) -> Self {
        let permits = (bytes.max(largest) / PERMIT).clamp(1, u32::MAX as usize >> 1);
        let budget = || Arc::new(Semaphore::new(permits));
        Self { room: budget(), decoded: budget(), permits, largest }
    }

    /// Time for a large message.
    #[must_use]
    pub fn patience(&self) -> Duration {
        PATIENCE
    }

    fn permits(&self, bytes: usize) -> u32 {
        (bytes / PERMIT + 1).min(self.permits) as u32
    }

    /// Room for a message, once there is.
    ///
    /// # Errors
    /// [`Refusal::NoSpace`] if there isn't for long.
    pub async fn reserve(&self, bytes: usize) -> Result<OwnedSemaphorePermit, Refusal> {
        let room = self.room.clone().acquire_many_owned(self.permits(bytes));
        match tokio::time::timeout(PATIENCE, room).await {
            Ok(Ok(room)) => Ok(room),
            _ => Err(Refusal::NoSpace(
                "too many large messages are being received; send it again later".to_owned(),
            )),
        }
    }

    /// Room for what a message decodes to. Doesn't wait for it: meanwhile messages would pile up undecoded.
    ///
    /// # Errors
    /// [`Refusal::NoSpace`] if there is none now.
    pub fn reserve_decoded(&self, bytes: u64) -> Result<OwnedSemaphorePermit, Refusal> {
        let permits = self.permits(usize::try_from(bytes).unwrap_or(usize::MAX));
        self.decoded.clone().try_acquire_many_owned(permits).map_err(|_| {
            Refusal::NoSpace("too many spans are being taken at once; send them again later".to_owned())
        })
    }

    /// A gRPC request's body whose large messages have room reserved.
    pub fn measure(&self, body: Body) -> Body {
        let measured = Measured {
            body,
            of: self.clone(),
            head: Vec::with_capacity(HEAD),
            left: 0,
            room: None,
            waiting: None,
            kept: Bytes::new(),
            until: None,
        };
        Body::new(measured)
    }
}

type Waiting = Pin<Box<dyn Future<Output = Option<OwnedSemaphorePermit>> + Send>>;

struct Measured {
    body: Body,
    of: Receiving,
    /// The head of the next message, as far as it came.
    head: Vec<u8>,
    /// Bytes of the message that are still to come.
    left: usize,
    room: Option<OwnedSemaphorePermit>,
    waiting: Option<Waiting>,
    /// Bytes that came and are not passed on yet.
    kept: Bytes,
    until: Option<Pin<Box<Sleep>>>,
}

impl Measured {
    /// Looks at bytes that came. Returns how many may pass on now; fewer than all if a large message begins behind them.
    fn look(&mut self, bytes: &[u8]) -> usize {
        let mut at = 0;
        while at < bytes.len() {
            if self.left > 0 {
                let here = self.left.min(bytes.len() - at);
                (self.left, at) = (self.left - here, at + here);
                if self.left == 0 {
                    // tonic has it whole with the next poll, and decodes it before it polls again.
                    self.until = None;
                }
                continue;
            }
            let here = (HEAD - self.head.len()).min(bytes.len() - at);
            self.head.extend_from_slice(&bytes[at..at + here]);
            at += here;
            if self.head.len() < HEAD {
                break;
            }
            let length = u32::from_be_bytes(self.head[1..].try_into().expect("4 bytes")) as usize;
            self.head.clear();
            self.left = length;
            self.room = None;
            // A message beyond the limit is refused by tonic as soon as it sees this head.
            if length > SMALL && length <= self.of.largest {
                let (room, permits) = (self.of.room.clone(), self.of.permits(length));
                self.waiting = Some(Box::pin(async move { room.acquire_many_owned(permits).await.ok() }));
                self.until = Some(Box::pin(sleep(PATIENCE)));
                break;
            }
        }
        at
    }
}

impl http_body::Body for Measured {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let slow = || {
            Poll::Ready(Some(Err(axum::Error::new("a large message didn't come in time, or had no room"))))
        };
        if let Some(until) = &mut self.until
            && until.as_mut().poll(context).is_ready()
        {
            return slow();
        }
        if let Some(waiting) = &mut self.waiting {
            let room = ready!(waiting.as_mut().poll(context));
            self.waiting = None;
            self.room = room;
        }
        let mut bytes = std::mem::take(&mut self.kept);
        if bytes.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => bytes = data,
                    Err(other) => return Poll::Ready(Some(Ok(other))),
                },
                other => return Poll::Ready(other),
            }
        }
        let passes = self.look(&bytes);
        self.kept = bytes.split_off(passes);
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.kept.is_empty() && self.waiting.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

//! The caller's side: connections to a peer, and calls of several peers at once.

use std::io::{self, ErrorKind};
use std::marker::PhantomData;
use std::net::TcpStream;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use iotrail_sdk::request::{Crumb, Name, Service};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{MsgFlags, recv};
use parking_lot::Mutex;

use super::{Answer, Conn, Errno, Message, Replied, SILENCE};
use crate::calls::Call;

/// For how long a peer that didn't answer is not the first choice.
const FORGIVEN: Duration = Duration::from_secs(1);

/// A service in another process, asked by `component`.
pub struct Peer<C> {
    component: &'static Name,
    /// What it is called.
    pub name: String,
    address: String,
    idle: Mutex<Vec<Conn>>,
    busy: AtomicUsize,
    failed: Mutex<Option<Instant>>,
    calls: PhantomData<fn(C)>,
}

impl<C: Call> Peer<C> {
    /// Nobody is connected yet.
    pub fn new(component: &'static Name, name: &str, address: &str) -> Self {
        Self {
            component,
            name: name.to_owned(),
            address: address.to_owned(),
            idle: Mutex::default(),
            busy: AtomicUsize::new(0),
            failed: Mutex::new(None),
            calls: PhantomData,
        }
    }

    /// Calls it is working on.
    pub fn busy(&self) -> usize {
        self.busy.load(Relaxed)
    }

    /// Whether it didn't answer the last time, and that was just now: it may be back.
    pub fn is_down(&self) -> bool {
        self.failed.lock().is_some_and(|failed| failed.elapsed() < FORGIVEN)
    }

    /// One call on behalf of `crumb`, and its reply.
    pub fn call(&self, call: C, data: &[u8], crumb: Crumb) -> Replied<C> {
        Flight::start(self, call, data, crumb).land()
    }

    /// A connection that its peer hasn't closed: after a restart the old ones are.
    fn connection(&self) -> io::Result<Conn> {
        while let Some(conn) = { self.idle.lock().pop() } {
            let flags = MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT;
            if recv(conn.stream.as_raw_fd(), &mut [0], flags) == Err(Errno::EAGAIN) {
                return Ok(conn);
            }
        }
        let stream = TcpStream::connect(&self.address)?;
        stream.set_read_timeout(Some(SILENCE))?;
        Conn::begin(stream, true)
    }
}

/// A call that was sent.
struct Flight<'a, C: Call> {
    peer: &'a Peer<C>,
    crumb: Crumb,
    service: Service,
    conn: io::Result<Conn>,
}

impl<'a, C: Call> Flight<'a, C> {
    /// Sends a call, with a breadcrumb split off the caller's.
    fn start(peer: &'a Peer<C>, call: C, data: &[u8], caller: Crumb) -> Self {
        let crumb = caller.split();
        let _here = crumb.enter();
        let service = call.about(Service::client_of(peer.component, call.op(), crumb));
        peer.busy.fetch_add(1, Relaxed);
        let conn = peer.connection().and_then(|mut conn| {
            conn.send(&Message::Call { crumb: crumb.raw(), call }, data, crumb)?;
            Ok(conn)
        });
        Self { peer, crumb, service, conn }
    }

    /// Waits for the reply.
    fn land(mut self) -> Replied<C> {
        let _here = self.crumb.enter();
        let replied = self.conn.and_then(|mut conn| {
            let replied = conn.receive::<Answer<C::Reply>>()?;
            self.peer.idle.lock().push(conn);
            Ok(replied)
        });
        self.peer.busy.fetch_sub(1, Relaxed);
        *self.peer.failed.lock() = replied.is_err().then(Instant::now);
        let replied = match replied {
            Ok((answer, data)) => answer.map(|reply| (reply, data)).map_err(Errno::from_raw),
            Err(error) => Err(unreachable(&error)),
        };
        if let Err(errno) = replied {
            self.service.status(errno as i32);
        }
        replied
    }
}

/// What the caller of a peer that didn't answer gets.
fn unreachable(error: &io::Error) -> Errno {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Errno::ETIMEDOUT,
        ErrorKind::InvalidData => Errno::EPROTO,
        _ => error.raw_os_error().map_or(Errno::ECONNRESET, Errno::from_raw),
    }
}

/// Calls several peers at once, and returns their replies in order. Each reply is taken when it is there, so
/// that each call's interval is its own.
pub fn call_all<'a, C: Call + Clone>(
    peers: impl IntoIterator<Item = &'a Peer<C>>,
    call: &C,
    data: &[u8],
    crumb: Crumb,
) -> Vec<Replied<C>> {
    let start = |peer| Some(Flight::start(peer, call.clone(), data, crumb));
    let mut flights: Vec<_> = peers.into_iter().map(start).collect();
    let mut replies: Vec<_> = flights.iter().map(|_| Err(Errno::ECONNRESET)).collect();
    while flights.iter().any(Option::is_some) {
        for (flight, reply) in flights.iter_mut().zip(&mut replies) {
            if flight.as_ref().is_some_and(Flight::landing)
                && let Some(flight) = flight.take()
            {
                *reply = flight.land();
            }
        }
        let conns = flights.iter().flatten().filter_map(|flight| flight.conn.as_ref().ok());
        let mut waited: Vec<_> =
            conns.map(|conn| PollFd::new(conn.stream.as_fd(), PollFlags::POLLIN)).collect();
        let silence = PollTimeout::try_from(SILENCE).unwrap_or(PollTimeout::NONE);
        if !waited.is_empty() && poll(&mut waited, silence) == Ok(0) {
            // All that are left are silent: each is waited for once more, and then given up.
            for (flight, reply) in flights.iter_mut().zip(&mut replies) {
                if let Some(flight) = flight.take() {
                    *reply = flight.land();
                }
            }
        }
    }
    replies
}

impl<C: Call> Flight<'_, C> {
    /// Whether [`Self::land`] returns without waiting for the peer.
    fn landing(&self) -> bool {
        let Ok(conn) = &self.conn else { return true };
        let mut waited = [PollFd::new(conn.stream.as_fd(), PollFlags::POLLIN)];
        poll(&mut waited, PollTimeout::ZERO) != Ok(0)
    }
}

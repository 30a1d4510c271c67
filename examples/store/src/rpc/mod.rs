//! Calls between daemons over TCP.
//!
//! ```text
//! u32 length of the head │ u32 length of the data │ head (postcard) │ data (raw)
//! ```
//!
//! A connection carries one call at a time. It begins with a [`Hello`] each way, so that the names of both
//! ends, which cost a hash, are made known once; each call then carries the caller's breadcrumb as a number.
//! Every message is a `network_transmit` of its sender, with its bytes as written to the socket.

mod client;
mod server;

use std::io::{self, Error, ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::OnceLock;
use std::time::Duration;

use iotrail_sdk::api;
use iotrail_sdk::request::{Crumb, Symbol, transmit};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

pub use client::{Peer, call_all};
pub use nix::errno::Errno;
pub use server::{NoCalls, Serve, listen};

use crate::calls::Call;
use crate::faults::Fault;

/// Most bytes of one part of a message: far above any message of this store.
const MOST: u32 = 64 << 20;
/// A peer that is silent for so long is taken for dead. Only a hung one is: a dead one's connection breaks.
const SILENCE: Duration = Duration::from_secs(60);

/// Who one end of a connection is.
#[derive(Serialize, Deserialize)]
struct Hello {
    /// Name of the daemon, as in `network_transmit`.
    name: String,
    /// Name of its node, without which its breadcrumbs are just numbers; empty if it isn't recorded.
    node: String,
}

/// A message to a service.
#[derive(Serialize, Deserialize)]
enum Message<C> {
    /// A call of the service, for the caller's breadcrumb.
    Call { crumb: i64, call: C },
    /// See [`crate::faults`].
    Fault(Fault),
}

/// An error number instead of a reply, if it failed.
type Answer<R> = Result<R, i32>;

/// A reply and its data, or why there is none.
pub type Replied<C> = Result<(<C as Call>::Reply, Vec<u8>), Errno>;

static NAME: OnceLock<(String, Symbol)> = OnceLock::new();

/// Says once what this daemon is called, and joins the recording it runs in.
pub fn introduce(name: &str) {
    api::init();
    api::role(name);
    NAME.get_or_init(|| (name.to_owned(), Symbol::new(name)));
}

fn own() -> (&'static str, Symbol) {
    NAME.get().map_or(("", Symbol::NONE), |(name, symbol)| (name.as_str(), *symbol))
}

/// The other end of a connection.
struct Conn {
    stream: TcpStream,
    /// Its name.
    peer: Symbol,
    /// Its node.
    node: Symbol,
}

impl Conn {
    /// Exchanges hellos; the end that connected speaks first.
    fn begin(stream: TcpStream, connected: bool) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        let mut conn = Self { stream, peer: Symbol::NONE, node: Symbol::NONE };
        let hello = Hello { name: own().0.to_owned(), node: api::node().to_owned() };
        let (theirs, sent) = if connected {
            // The receiver's name is known only after its hello.
            let sent = conn.put(&hello, &[])?;
            (conn.receive::<Hello>()?.0, sent)
        } else {
            let theirs = conn.receive::<Hello>()?.0;
            (theirs, conn.put(&hello, &[])?)
        };
        conn.peer = Symbol::new(&theirs.name);
        conn.node = if theirs.node.is_empty() { Symbol::NONE } else { Symbol::new(&theirs.node) };
        transmit(&own().1, &conn.peer, Crumb::NONE, sent);
        Ok(conn)
    }

    /// Sends a message on behalf of `crumb`.
    fn send(&mut self, head: &impl Serialize, data: &[u8], crumb: Crumb) -> io::Result<()> {
        let sent = self.put(head, data)?;
        transmit(&own().1, &self.peer, crumb, sent);
        Ok(())
    }

    fn put(&mut self, head: &impl Serialize, data: &[u8]) -> io::Result<u64> {
        let mut bytes = Vec::with_capacity(128 + data.len());
        bytes.extend([0; 8]);
        bytes = postcard::to_extend(head, bytes).map_err(Error::other)?;
        let lengths = [bytes.len() as u32 - 8, data.len() as u32];
        bytes[..4].copy_from_slice(&lengths[0].to_le_bytes());
        bytes[4..8].copy_from_slice(&lengths[1].to_le_bytes());
        bytes.extend_from_slice(data);
        self.stream.write_all(&bytes)?;
        Ok(bytes.len() as u64)
    }

    fn receive<T: DeserializeOwned>(&mut self) -> io::Result<(T, Vec<u8>)> {
        let mut lengths = [[0; 4]; 2];
        self.stream.read_exact(lengths.as_flattened_mut())?;
        let [head, data] = lengths.map(u32::from_le_bytes);
        if head > MOST || data > MOST {
            let what = format!("a message of {head} and {data} bytes; expected at most {MOST} each");
            return Err(Error::new(ErrorKind::InvalidData, what));
        }
        let mut bytes = vec![0; head as usize];
        self.stream.read_exact(&mut bytes)?;
        let head = postcard::from_bytes(&bytes).map_err(|error| Error::new(ErrorKind::InvalidData, error))?;
        let mut bytes = vec![0; data as usize];
        self.stream.read_exact(&mut bytes)?;
        Ok((head, bytes))
    }
}

/// Sets a fault in the daemon at `address`.
pub fn set_fault(address: &str, fault: &Fault) -> io::Result<()> {
    introduce("control");
    let mut conn = Conn::begin(TcpStream::connect(address)?, true)?;
    conn.send(&Message::<NoCalls>::Fault(fault.clone()), &[], Crumb::NONE)?;
    let (answer, _) = conn.receive::<Answer<()>>()?;
    answer.map_err(Error::from_raw_os_error)
}

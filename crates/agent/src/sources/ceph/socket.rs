//! One question to a daemon's admin socket, and its answer as it comes.
//!
//! The protocol (`AdminSocket::do_accept` in ceph/src/common/admin_socket.cc): a client connects, sends a command as
//! JSON with a NUL behind it, and reads 4 bytes, the length of the answer, big endian, and the answer. What a command
//! complains of is an answer too, that begins with `ERROR: `.
//!
//! Constraints: nothing here waits. [`Conversation::advance`] does what can be done now, so that one thread talks to
//! all daemons of a machine and one that hangs holds up no other. Of an answer only what its reader has not taken
//! yet is held.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use serde::Serialize;
use socket2::{Domain, SockAddr, Socket, Type};
use thiserror::Error;

/// Bytes taken from a socket at a time: a little more than its buffer holds by default
/// (net.core.wmem_default, 212,992).
const READ: usize = 256 << 10;

/// Largest answer that is read at all: a history of 20,000 requests has 25 MB.
const MOST: u32 = 256 << 20;

/// What went wrong with a question.
#[derive(Debug, Error)]
pub enum SocketError {
    /// Nobody listens.
    #[error("{}: can't connect: {source}; is the daemon gone?", path.display())]
    Connect {
        /// Socket.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The connection broke.
    #[error("{}: the connection broke in the answer to \"{command}\": {source}", path.display())]
    Io {
        /// Socket.
        path: PathBuf,
        /// Command.
        command: String,
        /// Why.
        source: io::Error,
    },
    /// The answer ended too early.
    #[error("{}: the answer to \"{command}\" ended with {left} bytes to come; did the daemon stop?", path.display())]
    Cut {
        /// Socket.
        path: PathBuf,
        /// Command.
        command: String,
        /// Bytes that are missing.
        left: u64,
    },
    /// The answer is too long.
    #[error("{}: the answer to \"{command}\" has {length} bytes, expected at most {most}; is this a Ceph daemon's \
             admin socket?", path.display())]
    TooLong {
        /// Socket.
        path: PathBuf,
        /// Command.
        command: String,
        /// Its bytes.
        length: u64,
        /// Limit.
        most: u64,
    },
    /// The daemon takes too long.
    #[error("{}: no answer to \"{command}\" within {} s; the daemon hangs or its machine is overloaded",
            path.display(), after.as_secs())]
    Late {
        /// Socket.
        path: PathBuf,
        /// Command.
        command: String,
        /// Time that was given.
        after: Duration,
    },
}

impl SocketError {
    /// Whether the daemon is gone, rather than something is wrong with what it says.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        matches!(self, Self::Connect { .. } | Self::Io { .. } | Self::Cut { .. })
    }
}

/// A command, as daemons want it.
#[derive(Clone, Debug, Serialize)]
pub struct Command<'a> {
    /// What is asked.
    pub prefix: &'a str,
    /// Setting it is about.
    #[serde(rename = "var", skip_serializing_if = "Option::is_none")]
    pub setting: Option<&'a str>,
    /// What it is to be.
    #[serde(rename = "val", skip_serializing_if = "Option::is_none")]
    pub value: Option<[&'a str; 1]>,
    /// Addresses of which requests are shown.
    #[serde(rename = "filterstr", skip_serializing_if = "Option::is_none")]
    pub filter: Option<[&'a str; 1]>,
    /// Compact JSON.
    pub format: &'static str,
}

impl<'a> Command<'a> {
    /// A command without arguments.
    #[must_use]
    pub const fn new(prefix: &'a str) -> Self {
        Self { prefix, setting: None, value: None, filter: None, format: "json" }
    }
}

/// How far a conversation has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The daemon has to do something first.
    Waits,
    /// There is more to read now.
    More,
    /// The answer is all there.
    Done,
}

/// A question on its way.
#[derive(Debug)]
pub struct Conversation {
    socket: Socket,
    path: PathBuf,
    command: String,
    out: Vec<u8>,
    head: [u8; 4],
    head_got: usize,
    left: u64,
    most: u32,
    moved: Instant,
    within: Duration,
    /// What came of the answer, and its reader has not taken.
    pub body: Vec<u8>,
}

impl Conversation {
    /// Asks the daemon behind `path`, which has some time for each part of its answer; `streamed` if the answer's reader
    /// takes from [`Self::body`] while it comes, so that it may be long.
    pub fn ask(
        path: &Path,
        command: &Command<'_>,
        streamed: bool,
        within: Duration,
    ) -> Result<Self, SocketError> {
        let connect = |source| SocketError::Connect { path: path.to_owned(), source };
        let socket =
            Socket::new(Domain::UNIX, Type::STREAM.nonblocking().cloexec(), None).map_err(connect)?;
        // Without waiting even here: with a full backlog it is EAGAIN, and the next tick tries again.
        socket.connect(&SockAddr::unix(path).map_err(connect)?).map_err(connect)?;
        let mut out = serde_json::to_vec(command).expect("a command of strings is JSON");
        out.push(0);
        Ok(Self {
            socket,
            path: path.to_owned(),
            command: command.prefix.to_owned(),
            out,
            head: [0; 4],
            head_got: 0,
            left: 0,
            most: if streamed { MOST } else { 4 << 20 },
            moved: Instant::now(),
            within,
            body: Vec::new(),
        })
    }

    /// Process that listens; none if it is in another namespace.
    #[must_use]
    pub fn pid(&self) -> Option<i32> {
        let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
        let mut length = size_of::<libc::ucred>() as libc::socklen_t;
        // SAFETY: the descriptor is open, and peer is as large as length says.
        let failed = unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERCRED,
                (&raw mut peer).cast(),
                &raw mut length,
            )
        };
        (failed == 0 && peer.pid > 0).then_some(peer.pid)
    }

    /// Bytes of the answer, once it has begun.
    #[must_use]
    pub fn length(&self) -> u64 {
        u32::from_be_bytes(self.head).into()
    }

    /// Sends and reads what it can now.
    pub fn advance(&mut self) -> Result<Progress, SocketError> {
        match self.step() {
            Ok(Progress::Waits) if self.moved.elapsed() > self.within => Err(SocketError::Late {
                path: self.path.clone(),
                command: self.command.clone(),
                after: self.within,
            }),
            Ok(progress) => Ok(progress),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                unreachable!("a step that would wait says so")
            }
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(SocketError::Cut {
                path: self.path.clone(),
                command: self.command.clone(),
                left: if self.head_got < 4 { 4 } else { self.left },
            }),
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => Err(SocketError::TooLong {
                path: self.path.clone(),
                command: self.command.clone(),
                length: self.left,
                most: self.most.into(),
            }),
            Err(source) => {
                Err(SocketError::Io { path: self.path.clone(), command: self.command.clone(), source })
            }
        }
    }

    fn step(&mut self) -> io::Result<Progress> {
        while !self.out.is_empty() {
            let Some(sent) = ready(self.socket.send_with_flags(&self.out, libc::MSG_NOSIGNAL))? else {
                return Ok(Progress::Waits);
            };
            self.out.drain(..sent);
        }
        while self.head_got < 4 {
            let mut head = [MaybeUninit::uninit(); 4];
            let Some(got) = ready(self.socket.recv(&mut head[self.head_got..]))? else {
                return Ok(Progress::Waits);
            };
            if got == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            for byte in &head[self.head_got..self.head_got + got] {
                // SAFETY: the call wrote this many of them.
                self.head[self.head_got] = unsafe { byte.assume_init() };
                self.head_got += 1;
            }
            self.left = u32::from_be_bytes(self.head).into();
        }
        if self.left > self.most.into() {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        if self.left == 0 {
            return Ok(Progress::Done);
        }
        let room = READ.min(usize::try_from(self.left).unwrap_or(READ));
        self.body.reserve(room);
        let held = self.body.len();
        let got = ready(self.socket.recv(&mut self.body.spare_capacity_mut()[..room]));
        if let Ok(Some(got)) = got {
            // SAFETY: the call wrote this many bytes behind the ones held.
            unsafe { self.body.set_len(held + got) };
        }
        match got? {
            None => Ok(Progress::Waits),
            Some(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Some(got) => {
                self.left -= got as u64;
                self.moved = Instant::now();
                Ok(if self.left == 0 { Progress::Done } else { Progress::More })
            }
        }
    }
}

/// What a call moved; none if it would have had to wait.
fn ready(moved: io::Result<usize>) -> io::Result<Option<usize>> {
    match moved {
        Ok(moved) => Ok(Some(moved)),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Waits until one of the conversations can go on, at most some time.
pub fn wait<'a>(conversations: impl Iterator<Item = &'a Conversation>, at_most: Duration) {
    let mut polled: Vec<PollFd<'_>> = conversations
        .map(|conversation| {
            let events = if conversation.out.is_empty() { PollFlags::IN } else { PollFlags::OUT };
            PollFd::new(&conversation.socket, events)
        })
        .collect();
    let at_most = Timespec { tv_sec: at_most.as_secs() as i64, tv_nsec: at_most.subsec_nanos().into() };
    // An error (EINTR) is the same as nothing ready yet.
    let _ = rustix::event::poll(&mut polled, Some(&at_most));
}

//! How the parts of a replay find each other, and begin when all have the files they need.
//!
//! Part 1 listens. Each other part connects and says which it is and what it replays; part 1 answers whether that fits. When part 1 has
//! made its files it says by what mark their folder is known: a part that sees it there shares the folder, any other makes files of its
//! own. The replay begins when all have said that they are ready. Nobody proves who they are: that is for networks whose machines trust
//! each other.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use crate::Error;
use crate::parts::Parts;

const MAGIC: [u8; 8] = *b"IOTRPRT1";
/// Between two looks whether to go on.
const TICK: Duration = Duration::from_millis(100);
/// How long a connection may take to say who it is.
const HELLO: Duration = Duration::from_secs(5);

/// What part 1 answers.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Answer {
    Welcome = 0,
    /// Another trail, or another number of parts.
    Other = 1,
    /// There is such a part.
    Taken = 2,
}

/// The parts, connected.
pub struct Meeting {
    mine: u32,
    streams: Vec<TcpStream>,
}

/// Whether to go on waiting: asked ten times a second, with what is waited for.
pub type Patience<'a> = &'a mut dyn FnMut(&str) -> bool;

impl Meeting {
    /// All parts, at the address of part 1.
    ///
    /// # Errors
    /// [`Error::Place`] if it can't be used or another part doesn't fit, [`Error::Interrupted`] if `patience` says so.
    pub fn join(
        address: &str,
        parts: &Parts,
        fingerprint: u64,
        patience: Patience<'_>,
    ) -> Result<Self, Error> {
        let streams = if parts.mine == 0 {
            Self::gather(address, parts.count, fingerprint, patience)?
        } else {
            vec![Self::connect(address, parts.mine, fingerprint, patience)?]
        };
        Ok(Self { mine: parts.mine, streams })
    }

    fn gather(
        address: &str,
        count: u32,
        fingerprint: u64,
        patience: Patience<'_>,
    ) -> Result<Vec<TcpStream>, Error> {
        let refused = |error: std::io::Error| {
            Error::place(
                format!("cannot listen at {address}: {error}"),
                "--meet names an address of the machine of part 1, and a free port",
            )
        };
        let listener = TcpListener::bind(address).map_err(refused)?;
        listener.set_nonblocking(true).map_err(refused)?;
        let mut found: Vec<Option<TcpStream>> = (1..count).map(|_| None).collect();
        while let Some(missing) = found.iter().position(Option::is_none) {
            match listener.accept() {
                Ok((stream, _)) => {
                    if let Some((part, stream)) = welcome(stream, fingerprint, &found) {
                        found[part] = Some(stream);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if !patience(&format!("part {} of {count}", missing + 2)) {
                        return Err(Error::Interrupted);
                    }
                    std::thread::sleep(TICK);
                }
                // a connection that was gone again
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                Err(error) => return Err(refused(error)),
            }
        }
        Ok(found.into_iter().flatten().collect())
    }

    fn connect(
        address: &str,
        mine: u32,
        fingerprint: u64,
        patience: Patience<'_>,
    ) -> Result<TcpStream, Error> {
        let wrong = |error: std::io::Error| {
            Error::place(format!("cannot use {address}: {error}"), "--meet HOST:PORT is where part 1 listens")
        };
        loop {
            let addresses = address.to_socket_addrs().map_err(wrong)?;
            let tried = addresses.map(|one| TcpStream::connect_timeout(&one, HELLO)).find(Result::is_ok);
            let Some(Ok(mut stream)) = tried else {
                if !patience(&format!("part 1 at {address}")) {
                    return Err(Error::Interrupted);
                }
                std::thread::sleep(TICK);
                continue;
            };
            let mut hello = [0; 20];
            hello[..8].copy_from_slice(&MAGIC);
            hello[8..12].copy_from_slice(&mine.to_le_bytes());
            hello[12..].copy_from_slice(&fingerprint.to_le_bytes());
            stream.write_all(&hello).map_err(wrong)?;
            let mut answer = [u8::MAX];
            read(&mut stream, &mut answer, "part 1", patience)?;
            return match answer[0] {
                answer if answer == Answer::Welcome as u8 => Ok(stream),
                answer if answer == Answer::Other as u8 => Err(Error::place(
                    "part 1 replays another trail, or in another number of parts",
                    "all parts are given the same trail, and N of --part K/N",
                )),
                answer if answer == Answer::Taken as u8 => Err(Error::place(
                    format!("there is a part {} already", mine + 1),
                    "each part has a K of its own in --part K/N",
                )),
                _ => Err(Error::place(format!("what listens at {address} is no replay"), None)),
            };
        }
    }

    /// Part 1 has made its files, in a folder with this mark.
    ///
    /// # Errors
    /// A part is gone.
    pub fn show(&mut self, mark: u64) -> Result<(), Error> {
        for (stream, number) in self.streams.iter_mut().zip(2..) {
            stream.write_all(&mark.to_le_bytes()).map_err(|_| gone(number))?;
        }
        Ok(())
    }

    /// The mark of part 1's folder, when its files are made.
    ///
    /// # Errors
    /// Part 1 is gone, or `patience` ends.
    pub fn mark(&mut self, patience: Patience<'_>) -> Result<u64, Error> {
        let mut mark = [0; 8];
        read(&mut self.streams[0], &mut mark, "the files of part 1", patience)?;
        Ok(u64::from_le_bytes(mark))
    }

    /// This part is ready; part 1 waits until all are.
    ///
    /// # Errors
    /// A part is gone, or `patience` ends.
    pub fn ready(&mut self, patience: Patience<'_>) -> Result<(), Error> {
        if self.mine > 0 {
            return self.streams[0].write_all(&[1]).map_err(|_| gone(1));
        }
        for (stream, number) in self.streams.iter_mut().zip(2..) {
            read(stream, &mut [0], &format!("the files of part {number}"), patience)?;
        }
        Ok(())
    }

    /// The connections: of part 1 to each other part, of another to part 1.
    #[must_use]
    pub fn into_streams(self) -> Vec<TcpStream> {
        self.streams
    }
}

fn gone(part: usize) -> Error {
    Error::place(format!("part {part} ended before the replay began"), None)
}

/// Who it is, if it fits: its place among the others.
fn welcome(
    mut stream: TcpStream,
    fingerprint: u64,
    found: &[Option<TcpStream>],
) -> Option<(usize, TcpStream)> {
    let mut hello = [0; 20];
    stream.set_nonblocking(false).ok()?;
    stream.set_read_timeout(Some(HELLO)).ok()?;
    stream.read_exact(&mut hello).ok()?;
    if hello[..8] != MAGIC {
        return None;
    }
    let part = u32::from_le_bytes([hello[8], hello[9], hello[10], hello[11]]) as usize;
    let answer = if hello[12..] != fingerprint.to_le_bytes() {
        Answer::Other
    } else if found.get(part.wrapping_sub(1)).is_none_or(Option::is_some) {
        Answer::Taken
    } else {
        Answer::Welcome
    };
    stream.write_all(&[answer as u8]).ok()?;
    (answer == Answer::Welcome).then_some((part - 1, stream))
}

/// Reads all of it, however long that takes.
fn read(stream: &mut TcpStream, into: &mut [u8], what: &str, patience: Patience<'_>) -> Result<(), Error> {
    let failed = |error: std::io::Error| Error::place(format!("waiting for {what}: {error}"), None);
    stream.set_read_timeout(Some(TICK)).map_err(failed)?;
    let mut done = 0;
    while done < into.len() {
        match stream.read(&mut into[done..]) {
            Ok(0) => return Err(Error::place(format!("waiting for {what}: it ended"), None)),
            Ok(count) => done += count,
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                ) =>
            {
                if !patience(what) {
                    return Err(Error::Interrupted);
                }
            }
            Err(error) => return Err(failed(error)),
        }
    }
    stream.set_read_timeout(None).map_err(failed)
}

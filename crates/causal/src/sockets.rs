//! Sockets: which bytes come from which end, and which connection was accepted.
//!
//! A row's `object` is the end of a connection that the process has, its `peer` the other one where that is known: of TCP
//! from the addresses, of socketpair from its row. Other connections of the domain of UNIX are found by who connects:
//! the n-th that a process makes to an address is the n-th that is accepted of it there.

use std::collections::{HashMap, HashSet};

use iotrail_format::call::{Call, CallKind};

use crate::calls::{EAGAIN, Row, act};
use crate::matching::{Act, Channel, Room, What};

/// Error number of a connection that is made meanwhile (errno(3)).
const EINPROGRESS: i64 = 115;

/// Timeouts of sockets are no shorter, ns: a tick of the kernel at 1,000 Hz.
const TICK: i64 = 1_000_000;

/// An end of a connection: of inodes only together with the machine.
type End = (u32, i64);

/// A row, where it is from.
pub(crate) struct OnSocket {
    pub row: Row,
    pub machine: u32,
    /// Of its process.
    pub pid: i64,
    /// When the call began that it is inside of.
    pub inside: Option<i64>,
}

impl OnSocket {
    fn end(&self) -> Option<End> {
        Some((self.machine, self.row.object?))
    }

    /// Whether it has the address that a connection of the domain of UNIX was made to.
    fn address(&self) -> Option<i64> {
        let is_of = matches!(self.row.call, Call::Connect | Call::Accept) && self.row.errno == 0;
        self.row.seq.filter(|_| is_of)
    }
}

/// Which ends belong together.
#[derive(Default)]
pub(crate) struct Connections {
    /// The other end.
    other: HashMap<End, End>,
    /// Ends at which somebody wrote.
    written: HashSet<End>,
}

impl Connections {
    /// As these rows say.
    pub(crate) fn of(rows: &[OnSocket]) -> Self {
        let mut found = Self::default();
        let mut objects: HashMap<i64, Vec<u32>> = HashMap::new();
        for on in rows {
            if let Some((machine, object)) = on.end() {
                let machines = objects.entry(object).or_default();
                if !machines.contains(&machine) {
                    machines.push(machine);
                }
            }
        }
        for on in rows.iter().filter(|on| on.address().is_none()) {
            let (Some(end), Some(peer)) = (on.end(), on.row.peer) else { continue };
            // on this machine, or on the one that has it
            let machines = objects.get(&peer).map_or(&[][..], Vec::as_slice);
            let machine = match machines {
                [only] => *only,
                machines if machines.contains(&on.machine) => on.machine,
                _ => continue,
            };
            found.pair(end, (machine, peer));
        }
        found.pair_accepted(rows);
        let writes = rows.iter().filter(|on| moved(&on.row, CallKind::Write).is_some_and(|bytes| bytes > 0));
        found.written = writes.filter_map(OnSocket::end).collect();
        found
    }

    /// What the rows do.
    pub(crate) fn acts(&self, rows: &[OnSocket]) -> Vec<Act> {
        let what = |on: &OnSocket| self.what(on).unwrap_or(What::Wait { kind: "socket" });
        rows.iter().filter_map(|on| act(&on.row, what(on), on.inside)).collect()
    }

    /// The bytes that come to an end of a connection; `None` if it is none.
    pub(crate) fn stream_to(&self, machine: u32, object: i64) -> Option<Channel> {
        let (machine, object) = *self.other.get(&(machine, object))?;
        Some(Channel::Stream { machine, object })
    }

    fn pair(&mut self, one: End, other: End) {
        self.other.insert(one, other);
        self.other.insert(other, one);
    }

    /// By machine, address and who connects, in order.
    fn pair_accepted(&mut self, rows: &[OnSocket]) {
        let mut made: HashMap<(u32, i64, i64), [Vec<&OnSocket>; 2]> = HashMap::new();
        for on in rows {
            let Some(address) = on.address() else { continue };
            let (is_accept, pid) = match on.row.call {
                Call::Accept => (true, on.row.peer.unwrap_or(-1)),
                _ => (false, on.pid),
            };
            made.entry((on.machine, address, pid)).or_default()[usize::from(is_accept)].push(on);
        }
        for [mut connects, mut accepts] in made.into_values() {
            connects.sort_by_key(|on| on.row.start);
            accepts.sort_by_key(|on| on.row.end);
            for (connect, accept) in connects.into_iter().zip(accepts) {
                if accept.row.end.is_some_and(|end| end < connect.row.start) {
                    // One of them was not recorded.
                    break;
                }
                if let (Some(one), Some(other)) = (connect.end(), accept.end()) {
                    self.pair(one, other);
                }
            }
        }
    }

    fn what(&self, on: &OnSocket) -> Option<What> {
        let (row, end) = (&on.row, on.end()?);
        if row.call == Call::Socketpair {
            return Some(What::Nothing);
        }
        if row.errno == EAGAIN {
            // It doesn't wait, or did until its timeout was over (SO_RCVTIMEO, socket(7)).
            let waited = row.end.is_some_and(|end| end - row.start >= TICK);
            return Some(if waited { What::Wait { kind: "timer" } } else { What::Nothing });
        }
        let other = *self.other.get(&end)?;
        let stream = |(machine, object)| Channel::Stream { machine, object };
        match row.call {
            Call::Connect if matches!(row.errno, 0 | EINPROGRESS) => {
                let (machine, object) = end;
                let channel = Channel::Connection { machine, object };
                Some(What::Give { channel, amount: 1, room: Room::Unlimited })
            }
            Call::Accept if row.errno == 0 => {
                let (machine, object) = other;
                let channel = Channel::Connection { machine, object };
                Some(What::Take { channel, amount: 1, order: row.start })
            }
            _ => {
                if let Some(bytes) = moved(row, CallKind::Write) {
                    return Some(What::Give { channel: stream(end), amount: bytes, room: Room::Unlimited });
                }
                let bytes = moved(row, CallKind::Read)?;
                if !self.written.contains(&other) {
                    return None;
                }
                Some(What::Take { channel: stream(other), amount: bytes, order: row.end.unwrap_or(i64::MAX) })
            }
        }
    }
}

/// Bytes that a call read or wrote; `None` if it did neither.
fn moved(row: &Row, kind: CallKind) -> Option<u64> {
    let is = match row.call {
        Call::Send => CallKind::Write,
        Call::Recv => CallKind::Read,
        call => call.kind(),
    };
    row.result.and_then(|moved| u64::try_from(moved).ok()).filter(|_| is == kind)
}

//! Ends of connections, with `record --causal`: which end a socket is, and which is the other one.
//!
//! An end of a TCP connection is named by the addresses of both, so that both processes name it alike, on machines too between
//! which addresses are not translated. An end in the domain of UNIX is named by its inode; which two belong together say
//! the rows of socketpair, and those of connect and accept.

use core::ffi::c_int;

use iotrail_format::call::{Call, WaitKind};
use iotrail_format::ids::hash63;
use iotrail_format::segment::NONE;
use iotrail_sdk::post::{self, Draft};
use iotrail_sdk::{clock, sys};
use libc::sockaddr_storage;

use crate::descriptors;
use crate::record::draft;

/// Bytes of an address and port, as of IPv6.
const INTERNET: usize = 18;
/// Of an address and port of IPv4 in IPv6 (RFC 4291, section 2.5.5.2).
const MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];

/// Which end of a connection a socket is.
pub enum Ends {
    /// Those of TCP: this one, and the other.
    Internet(i64, i64),
    /// A stream that isn't connected, or listens.
    NotYet,
    /// Another domain, or no stream.
    Other,
}

/// An address of a socket.
struct Address {
    bytes: [u8; size_of::<sockaddr_storage>()],
    length: usize,
}

impl Address {
    /// What getsockname (51) or getpeername (52) says; `None` if it fails.
    fn ask(number: usize, fd: c_int) -> Option<Self> {
        let mut address = Self { bytes: [0; size_of::<sockaddr_storage>()], length: 0 };
        let mut length = size_of::<sockaddr_storage>() as u32;
        let (bytes, length_at) = (address.bytes.as_mut_ptr() as usize, &raw mut length as usize);
        // SAFETY: room for any address, and its length.
        if sys::failed(unsafe { sys::syscall(number, fd as usize, bytes, length_at, 0, 0, 0) }) {
            return None;
        }
        address.length = (length as usize).min(address.bytes.len());
        Some(address)
    }

    fn own(fd: c_int) -> Option<Self> {
        Self::ask(51, fd)
    }

    fn other(fd: c_int) -> Option<Self> {
        Self::ask(52, fd)
    }

    fn family(&self) -> c_int {
        u16::from_ne_bytes([self.bytes[0], self.bytes[1]]).into()
    }

    /// Address and port (ip(7), ipv6(7)); `None` in other domains.
    fn internet(&self) -> Option<[u8; INTERNET]> {
        let mut all = [0; INTERNET];
        match self.family() {
            libc::AF_INET => {
                all[..12].copy_from_slice(&MAPPED);
                all[12..16].copy_from_slice(&self.bytes[4..8]);
            }
            libc::AF_INET6 => all[..16].copy_from_slice(&self.bytes[8..24]),
            _ => return None,
        }
        all[16..].copy_from_slice(&self.bytes[2..4]);
        Some(all)
    }

    /// A name of what was bound in the domain of UNIX; `None` if nothing was.
    fn bound(&self) -> Option<i64> {
        let is_bound = self.family() == libc::AF_UNIX && self.length > 2;
        is_bound.then(|| hash63(&self.bytes[..self.length]))
    }
}

fn end(from: &[u8; INTERNET], to: &[u8; INTERNET]) -> i64 {
    let mut both = [0; 2 * INTERNET];
    both[..INTERNET].copy_from_slice(from);
    both[INTERNET..].copy_from_slice(to);
    hash63(&both)
}

/// An option of a socket's own level, of as many integers; `None` if there is none.
fn option<const N: usize>(fd: c_int, name: c_int) -> Option<[c_int; N]> {
    const GETSOCKOPT: usize = 55;
    let (mut values, mut length) = ([0; N], (N * size_of::<c_int>()) as u32);
    let (at, length_at) = (&raw mut values as usize, &raw mut length as usize);
    let level = libc::SOL_SOCKET as usize;
    // SAFETY: room for the integers and their length.
    let asked = unsafe { sys::syscall(GETSOCKOPT, fd as usize, level, name as usize, at, length_at, 0) };
    (!sys::failed(asked)).then_some(values)
}

fn is_stream(fd: c_int) -> bool {
    option(fd, libc::SO_TYPE) == Some([libc::SOCK_STREAM])
}

/// Which end a socket is. Asks the kernel.
pub fn ends(fd: c_int) -> Ends {
    if !is_stream(fd) {
        return Ends::Other;
    }
    let Some(own) = Address::own(fd).and_then(|address| address.internet()) else { return Ends::Other };
    let Some(other) = Address::other(fd).and_then(|address| address.internet()) else { return Ends::NotYet };
    Ends::Internet(end(&own, &other), end(&other, &own))
}

/// Completes the draft of connect: which ends it connects, of a connection in the domain of UNIX what it was made to.
pub fn connected(draft: &mut Draft, fd: c_int) {
    descriptors::forget(fd);
    draft.object = descriptors::known(fd);
    draft.aux = descriptors::other_end(fd);
    if draft.aux == NONE && is_stream(fd) {
        draft.pos = Address::other(fd).and_then(|address| address.bound()).unwrap_or(NONE);
    }
}

/// Completes the draft of accept, which gave `fd`: which ends it connects, in the domain of UNIX the process that connects and what
/// it was made to.
pub fn accepted(draft: &mut Draft, fd: c_int) {
    draft.object = descriptors::known(fd);
    draft.aux = descriptors::other_end(fd);
    if draft.aux == NONE
        && is_stream(fd)
        && let Some(bound) = Address::own(fd).and_then(|address| address.bound())
    {
        draft.pos = bound;
        // The fields of struct ucred: pid, uid, gid (unix(7), SO_PEERCRED).
        draft.aux = option(fd, libc::SO_PEERCRED).map_or(NONE, |[pid, _uid, _gid]: [c_int; 3]| pid.into());
    }
}

/// socketpair made two ends: each is the other's other one, which a row says for processes that get them by other names.
pub fn paired(one: c_int, other: c_int) {
    if !is_stream(one) {
        return;
    }
    let (object, aux) = (descriptors::known(one), descriptors::known(other));
    descriptors::set_other_end(one, aux);
    descriptors::set_other_end(other, object);
    let kind = WaitKind::Socket as u8;
    let made = Draft { kind, object, aux, ..draft(Call::Socketpair) };
    post::interval(&made, clock::ticks(), 0, 0, 0);
}

//! What happened to disk I/Os, from events that name a disk and a range of it, not the I/O itself.
//!
//! An I/O is queued, issued as a part or the whole of a request, and complete when all of it is. A request takes
//! from those queued, not issued and of the same operation, what tiles its range; of several at one place the
//! one queued first. That is a guess only where the same operation is under way on the same place twice.
//! Flushes and I/Os on devices without requests are complete without having been issued.

use std::collections::{BTreeMap, VecDeque};

use crate::events::{Dev, DiskOp, Flags, Op};

/// I/Os under way; where more are, the oldest are given without their end, so many at once.
const MOST: usize = 1 << 16;
const GIVEN_UP: usize = MOST / 8;

/// Bytes of a sector in the kernel's events.
pub const SECTOR: u64 = 512;

/// Where an operation on a disk begins.
type Place = (Dev, Op, u64);

/// By id: those under way.
#[derive(Default)]
pub struct Pairing {
    ops: BTreeMap<u64, Pending>,
    next: u64,
    /// What of them wasn't issued, and what was.
    queued: Tiles,
    issued: Tiles,
}

struct Pending {
    op: DiskOp,
    /// Bytes that are not complete.
    left: u64,
}

/// A request's part of an event's fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    pub dev: Dev,
    pub op: Op,
    pub pos: u64,
    pub length: u64,
}

impl Pairing {
    /// Gives the oldest, if there are too many.
    pub fn queue(&mut self, op: DiskOp) -> Vec<DiskOp> {
        let left = u64::from(op.length);
        self.queued.put((op.dev, op.op, op.pos), Tile { id: self.next, length: left });
        self.ops.insert(self.next, Pending { op, left });
        self.next += 1;
        if self.ops.len() <= MOST {
            return Vec::new();
        }
        let given_up =
            (0..GIVEN_UP).filter_map(|_| self.ops.pop_first()).map(|(_, pending)| pending.op).collect();
        let oldest = self.ops.keys().next().copied().unwrap_or(self.next);
        self.queued.forget_before(oldest);
        self.issued.forget_before(oldest);
        given_up
    }

    /// What lies in the range joined another request.
    pub fn merge(&mut self, request: Request) {
        for id in self.queued.ids(request) {
            if let Some(pending) = self.ops.get_mut(&id) {
                pending.op.merged = true;
            }
        }
    }

    pub fn issue(&mut self, now: u64, request: Request) {
        for (place, tile) in self.queued.take(request) {
            if let Some(pending) = self.ops.get_mut(&tile.id) {
                pending.op.issued.get_or_insert(now);
                pending.op.requests += u32::from(place.2 == request.pos);
            }
            self.issued.put(place, tile);
        }
    }

    /// The driver gave the request back.
    pub fn requeue(&mut self, request: Request) {
        for (place, tile) in self.issued.take(request) {
            if let Some(pending) = self.ops.get_mut(&tile.id) {
                pending.op.issued = None;
                // a trace that lost the issue has none to take back
                pending.op.requests = pending.op.requests.saturating_sub(u32::from(place.2 == request.pos));
            }
            self.queued.put(place, tile);
        }
    }

    /// Gives those that are complete with it. `issued`: as a request.
    pub fn complete(&mut self, now: u64, request: Request, failed: bool, issued: bool) -> Vec<DiskOp> {
        let tiles = if issued { &mut self.issued } else { &mut self.queued };
        let mut done = Vec::new();
        for (_, tile) in tiles.take(request) {
            let Some(pending) = self.ops.get_mut(&tile.id) else { continue };
            pending.op.failed |= failed;
            pending.left -= tile.length;
            if pending.left == 0 {
                pending.op.completed = Some(now);
                done.extend(self.ops.remove(&tile.id).map(|pending| pending.op));
            }
        }
        done
    }

    /// What is under way.
    pub fn finish(self) -> impl Iterator<Item = DiskOp> {
        self.ops.into_values().map(|pending| pending.op)
    }
}

/// A piece of an I/O.
#[derive(Clone, Copy)]
struct Tile {
    id: u64,
    length: u64,
}

/// Pieces by where they begin; of those at one place in the order in which they came.
#[derive(Default)]
struct Tiles(BTreeMap<Place, VecDeque<Tile>>);

impl Tiles {
    fn put(&mut self, place: Place, tile: Tile) {
        self.0.entry(place).or_default().push_back(tile);
    }

    fn ids(&self, request: Request) -> Vec<u64> {
        let end = request.pos + request.length;
        let range = (request.dev, request.op, request.pos)..(request.dev, request.op, end);
        self.0.range(range).flat_map(|(_, tiles)| tiles).map(|tile| tile.id).collect()
    }

    /// Takes what tiles the range; of a piece that reaches beyond, the part inside.
    fn take(&mut self, Request { dev, op, pos, length }: Request) -> Vec<(Place, Tile)> {
        let (mut cursor, end) = (pos, pos + length);
        // A flush has no bytes, and yet is at a place.
        let reach = if op == Op::Flush { end + 1 } else { end };
        let mut taken = Vec::new();
        loop {
            // What is skipped is an I/O whose event was lost, or that isn't recorded.
            let next = self.0.range((dev, op, cursor)..(dev, op, reach)).next();
            let Some(place) = next.map(|(place, _)| *place) else { return taken };
            let tiles = self.0.get_mut(&place).expect("it was found a moment ago");
            let tile = tiles.pop_front().expect("no queue is kept empty");
            if tiles.is_empty() {
                self.0.remove(&place);
            }
            let inside = tile.length.min(end - place.2);
            taken.push((place, Tile { length: inside, ..tile }));
            cursor = place.2 + inside;
            if inside < tile.length {
                let rest = Tile { length: tile.length - inside, ..tile };
                self.0.entry((dev, op, cursor)).or_default().push_front(rest);
            }
            if cursor >= end {
                return taken;
            }
        }
    }

    fn forget_before(&mut self, id: u64) {
        self.0.retain(|_, tiles| {
            tiles.retain(|tile| tile.id >= id);
            !tiles.is_empty()
        });
    }
}

/// Operation and flags from the letters of `rwbs` (blk_fill_rwbs, kernel/trace/blktrace.c). None: the block
/// layer's own flush command, which no one queued.
pub fn rwbs(text: &str, length: u64) -> Option<(Op, Flags)> {
    let preflush = text.starts_with('F');
    let letters = if preflush { &text[1..] } else { text };
    let mut rest = letters.chars();
    let op = match rest.next() {
        Some('R') => Op::Read,
        // Also when it is complete, as "WS".
        Some('W') if length == 0 => Op::Flush,
        Some('W') => Op::Write,
        Some('D') if letters.starts_with("DE") => Op::SecureErase,
        Some('D') => Op::Discard,
        Some('F') | None => return None,
        _ => Op::Other,
    };
    let has = |flag| rest.clone().any(|letter| letter == flag);
    let flags = Flags { sync: has('S'), meta: has('M'), fua: has('F'), preflush, rahead: has('A') };
    Some((op, flags))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEV: Dev = Dev { major: 7, minor: 0 };

    fn request(op: Op, pos: u64, length: u64) -> Request {
        Request { dev: DEV, op, pos, length }
    }

    fn write(pos: u64, length: u64) -> Request {
        request(Op::Write, pos, length)
    }

    fn op(queued: u64, Request { dev, op, pos, length }: Request) -> DiskOp {
        DiskOp {
            queued,
            issued: None,
            completed: None,
            dev,
            op,
            pos,
            length: length as u32,
            flags: Flags::default(),
            merged: false,
            requests: 0,
            failed: false,
            pid: 1,
            tid: 1,
            comm: String::new(),
        }
    }

    fn times(ops: &[DiskOp]) -> Vec<(u64, Option<u64>, Option<u64>)> {
        ops.iter().map(|op| (op.queued, op.issued, op.completed)).collect()
    }

    #[test]
    fn merged_share_a_request() {
        let mut pairing = Pairing::default();
        for (queued, pos) in [(1, 4096), (2, 8192), (3, 0)] {
            pairing.queue(op(queued, write(pos, 4096)));
        }
        pairing.merge(write(8192, 4096));
        pairing.merge(write(0, 4096));
        pairing.issue(10, write(0, 12288));
        let done = pairing.complete(20, write(0, 12288), false, true);
        assert_eq!(times(&done), [(3, Some(10), Some(20)), (1, Some(10), Some(20)), (2, Some(10), Some(20))]);
        assert_eq!(done.iter().map(|op| op.merged).collect::<Vec<_>>(), [true, false, true]);
        assert_eq!(done.iter().map(|op| op.requests).collect::<Vec<_>>(), [1, 0, 0], "the first begins it");
        assert_eq!(pairing.finish().count(), 0);
    }

    #[test]
    fn cut_in_three_that_complete_backwards() {
        let mut pairing = Pairing::default();
        pairing.queue(op(1, write(0, 3000)));
        for (now, pos) in [(10, 0), (11, 1000), (12, 2000)] {
            pairing.issue(now, write(pos, 1000));
        }
        assert!(pairing.complete(20, write(2000, 1000), false, true).is_empty());
        assert!(pairing.complete(21, write(0, 1000), true, true).is_empty());
        let done = pairing.complete(22, write(1000, 1000), false, true);
        assert_eq!(times(&done), [(1, Some(10), Some(22))]);
        assert_eq!(done[0].requests, 3);
        assert!(done[0].failed);
    }

    #[test]
    fn twice_the_same_place_is_first_come_first_served() {
        let mut pairing = Pairing::default();
        pairing.queue(op(1, write(0, 512)));
        pairing.queue(op(2, write(0, 512)));
        pairing.queue(op(3, request(Op::Read, 0, 512)));
        pairing.issue(10, write(0, 512));
        pairing.issue(11, write(0, 512));
        assert_eq!(times(&pairing.complete(20, write(0, 512), false, true)), [(1, Some(10), Some(20))]);
        assert_eq!(times(&pairing.complete(21, write(0, 512), false, true)), [(2, Some(11), Some(21))]);
        assert_eq!(times(&pairing.finish().collect::<Vec<_>>()), [(3, None, None)]);
    }

    #[test]
    fn given_back_and_issued_again() {
        let mut pairing = Pairing::default();
        pairing.queue(op(1, write(0, 512)));
        pairing.issue(10, write(0, 512));
        pairing.requeue(write(0, 512));
        pairing.issue(12, write(0, 512));
        let done = pairing.complete(20, write(0, 512), false, true);
        assert_eq!(times(&done), [(1, Some(12), Some(20))]);
        assert_eq!(done[0].requests, 1);
    }

    #[test]
    fn a_flush_is_never_issued() {
        let mut pairing = Pairing::default();
        pairing.queue(op(1, request(Op::Flush, 0, 0)));
        pairing.queue(op(2, write(0, 512)));
        // The second completion of a write after whose data the cache was flushed.
        assert!(pairing.complete(9, request(Op::Flush, 4096, 0), false, false).is_empty());
        let done = pairing.complete(10, request(Op::Flush, 0, 0), false, false);
        assert_eq!(times(&done), [(1, None, Some(10))]);
    }

    #[test]
    fn unseen_beginnings_are_left_out() {
        let mut pairing = Pairing::default();
        pairing.queue(op(1, write(1024, 512)));
        pairing.issue(10, write(0, 4096));
        assert_eq!(times(&pairing.complete(20, write(0, 4096), false, true)), [(1, Some(10), Some(20))]);
    }

    #[test]
    fn bounded() {
        let mut pairing = Pairing::default();
        let given_up: usize =
            (0..MOST as u64 + 1).map(|n| pairing.queue(op(n, write(n * 512, 512))).len()).sum();
        assert_eq!(given_up, GIVEN_UP);
        assert_eq!(pairing.queued.0.len(), pairing.ops.len());
        assert_eq!(pairing.finish().map(|op| op.queued).min(), Some(GIVEN_UP as u64));
    }

    #[test]
    fn letters() {
        let flags =
            |text, length| rwbs(text, length).map(|(op, flags)| (op, flags.preflush, flags.fua, flags.sync));
        assert_eq!(flags("RA", 512), Some((Op::Read, false, false, false)));
        assert_eq!(flags("FWFS", 512), Some((Op::Write, true, true, true)));
        assert_eq!(flags("FWS", 0), Some((Op::Flush, true, false, true)));
        assert_eq!(flags("WS", 0), Some((Op::Flush, false, false, true)));
        assert_eq!(flags("DES", 512), Some((Op::SecureErase, false, false, true)));
        assert_eq!(flags("D", 512), Some((Op::Discard, false, false, false)));
        assert_eq!(flags("FF", 0), None);
        assert_eq!(flags("F", 0), None);
    }
}

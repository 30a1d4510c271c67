//! The write buffer: what it holds, who waits for room in it, and which flushes wait for it to drain.
//!
//! A page goes to the flash as soon as it is in the buffer, and leaves the buffer once it is programmed.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

use super::flash::Id;
use super::geometry::Slot;

/// Hash of page numbers: a multiplication (Knuth, The Art of Computer Programming 6.4). They come from no enemy.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PageHasher(u64);

impl Hasher for PageHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        // The table uses the high bits for one thing and the low ones for another.
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
    }
}

/// A table by page number.
pub(super) type Pages<Value> = HashMap<u32, Value, BuildHasherDefault<PageHasher>>;

#[derive(Clone, Debug)]
pub(super) struct Buffer {
    capacity: u64,
    used: u64,
    /// By slot, the last write of it that isn't programmed yet.
    writes: Pages<Id>,
    /// Requests that wait for room.
    pub waiting: VecDeque<u32>,
    /// By ticket from `drained` on, whether that write is programmed.
    tickets: VecDeque<bool>,
    drained: u64,
    /// Flushes and the ticket up to which they wait.
    flushes: VecDeque<(u64, u32)>,
}

impl Buffer {
    /// Of `capacity` bytes. With 0 there is none.
    pub fn new(capacity: u64) -> Self {
        Self {
            capacity,
            used: 0,
            writes: Pages::default(),
            waiting: VecDeque::new(),
            tickets: VecDeque::new(),
            drained: 0,
            flushes: VecDeque::new(),
        }
    }

    pub fn is_enabled(&self) -> bool {
        self.capacity > 0
    }

    /// Whether there is room. A page larger than the buffer fits an empty one.
    pub fn has_room(&self, bytes: u64) -> bool {
        self.used == 0 || self.used + bytes <= self.capacity
    }

    /// Takes room.
    pub fn reserve(&mut self, bytes: u64) {
        self.used += bytes;
    }

    /// A write of a slot is in the buffer. Returns its ticket.
    pub fn add_write(&mut self, slot: Slot, id: Id) -> u64 {
        self.writes.insert(slot, id);
        self.tickets.push_back(false);
        self.drained + self.tickets.len() as u64 - 1
    }

    /// The last write of a slot.
    pub fn find_write(&self, slot: Slot) -> Option<Id> {
        self.writes.get(&slot).copied()
    }

    /// The data of a slot is not wanted any more.
    pub fn drop_write(&mut self, slot: Slot) {
        self.writes.remove(&slot);
    }

    /// A write is programmed.
    pub fn finish_write(&mut self, slot: Slot, id: Id, ticket: u64, bytes: u64) {
        if self.find_write(slot) == Some(id) {
            self.drop_write(slot);
        }
        self.used -= bytes;
        self.tickets[(ticket - self.drained) as usize] = true;
        while self.tickets.front() == Some(&true) {
            self.tickets.pop_front();
            self.drained += 1;
        }
    }

    /// Lets a flush wait for all that is in the buffer. False if nothing is.
    pub fn add_flush(&mut self, request: u32) -> bool {
        if self.tickets.is_empty() {
            return false;
        }
        self.flushes.push_back((self.drained + self.tickets.len() as u64, request));
        true
    }

    /// Writes that are programmed, and so are all before them.
    #[cfg(test)]
    pub fn drained(&self) -> u64 {
        self.drained
    }

    /// A flush that is over.
    pub fn pop_flushed(&mut self) -> Option<u32> {
        let &(ticket, request) = self.flushes.front()?;
        if ticket > self.drained {
            return None;
        }
        self.flushes.pop_front();
        Some(request)
    }
}

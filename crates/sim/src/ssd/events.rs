//! What happens next: a queue of events by time, those of one time in the order in which they were added.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::Nanos;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A request, by its place in the table of requests, has arrived in the drive with its data.
    Arrival(u32),
    /// The write buffer has served a request.
    Buffer(u32),
    /// A channel has transferred a command or data.
    Channel(u32),
    /// A unit has executed a command.
    Unit(u32),
}

#[derive(Clone, Debug, Default)]
pub(super) struct Events {
    /// Time, number of the event and event in one integer, so that one comparison orders them.
    heap: BinaryHeap<Reverse<u128>>,
    added: u32,
}

impl Events {
    pub fn add(&mut self, at: Nanos, event: Event) {
        let (kind, index) = match event {
            Event::Arrival(index) => (0, index),
            Event::Buffer(index) => (1, index),
            Event::Channel(index) => (2, index),
            Event::Unit(index) => (3, index),
        };
        debug_assert!(index < 1 << 30);
        let code = kind << 30 | index;
        self.heap.push(Reverse(u128::from(at) << 64 | u128::from(self.added) << 32 | u128::from(code)));
        self.added = self.added.wrapping_add(1);
    }

    pub fn next_time(&self) -> Option<Nanos> {
        self.heap.peek().map(|&Reverse(packed)| (packed >> 64) as Nanos)
    }

    pub fn pop(&mut self) -> Option<(Nanos, Event)> {
        let Reverse(packed) = self.heap.pop()?;
        let code = packed as u32;
        let index = code & ((1 << 30) - 1);
        let event = match code >> 30 {
            0 => Event::Arrival(index),
            1 => Event::Buffer(index),
            2 => Event::Channel(index),
            _ => Event::Unit(index),
        };
        Some(((packed >> 64) as Nanos, event))
    }
}

//! The journal being filled, and where full ones go.

use std::time::{Duration, Instant};

use crate::seal::clock::{self, Pair};
use crate::seal::journal::{Event, Journal};

/// Where full journals go and empty ones come from.
pub trait Turn {
    /// An empty journal; none if there is none now (`wait` false) or never again.
    fn spare(&mut self, wait: bool) -> Option<Journal>;
    /// Takes a journal to be written.
    fn full(&mut self, journal: Journal);
}

/// The journal being filled.
pub struct Output<T> {
    journal: Option<Journal>,
    pub(super) turn: T,
    sequence: u64,
    since: Instant,
}

/// The writer is gone: nothing more can be drained.
#[derive(Debug)]
pub struct Stopped;

impl<T: Turn> Output<T> {
    /// Fills journals from `turn`, the first of which gets number `sequence`.
    pub fn new(turn: T, sequence: u64) -> Self {
        Self { journal: None, turn, sequence, since: Instant::now() }
    }

    /// A journal with room for at least `units` more and the clock event that closes it.
    pub(super) fn room(&mut self, units: usize) -> Result<&mut Journal, Stopped> {
        if self.journal.as_mut().is_some_and(|journal| journal.room(units) <= units) {
            let next = self.turn.spare(true);
            self.turn_over(next);
        }
        if self.journal.is_none() {
            let next = self.turn.spare(true).ok_or(Stopped)?;
            self.take(next);
        }
        self.journal.as_mut().ok_or(Stopped)
    }

    fn take(&mut self, mut journal: Journal) {
        journal.begin(self.sequence);
        self.sequence += 1;
        self.since = Instant::now();
        self.journal = Some(journal);
    }

    fn turn_over(&mut self, next: Option<Journal>) {
        if let Some(mut journal) = self.journal.take() {
            // Every slot in it was posted before this pair, so none needs a rate from the future.
            journal.event(clock_event());
            self.turn.full(journal);
        }
        if let Some(next) = next {
            self.take(next);
        }
    }

    /// Appends an event.
    pub fn event(&mut self, event: Event) -> Result<(), Stopped> {
        self.room(1)?.event(event);
        Ok(())
    }

    /// Hands over what is pending for longer than `age`, if a spare journal is at hand.
    pub fn hand_over(&mut self, age: Duration) {
        let pending = self.journal.as_ref().is_some_and(|journal| !journal.is_empty());
        if pending
            && self.since.elapsed() >= age
            && let Some(next) = self.turn.spare(false)
        {
            self.turn_over(Some(next));
        }
    }

    /// Hands over what is pending; nothing follows.
    pub fn finish(mut self) -> T {
        self.turn_over(None);
        self.turn
    }
}

pub(super) fn clock_event() -> Event {
    let pair = Pair::now();
    Event::Clock { pair, wall: clock::clock_ns(libc::CLOCK_REALTIME) }
}

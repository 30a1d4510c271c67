//! CLOCK and SIEVE: FIFOs whose hand gives each block another turn that was used since it passed.
//!
//! CLOCK puts such a block behind the newest, so that the hand is always at the oldest. SIEVE leaves it in its place and moves the
//! hand on, so that new blocks are looked at soon.

use super::list::{Links, List};
use super::{Block, Replacement};

/// What a block is to the cache.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Absent,
    Unused,
    Used,
}

#[derive(Clone)]
pub struct SecondChance {
    capacity: u32,
    keeps_places: bool,
    links: Links,
    queue: List,
    state: Vec<State>,
    /// Where the hand goes on; none at the oldest.
    hand: Option<Block>,
}

impl SecondChance {
    /// SIEVE if blocks keep their places, else CLOCK.
    pub fn new(capacity: u32, blocks: u32, keeps_places: bool) -> Self {
        Self {
            capacity,
            keeps_places,
            links: Links::new(blocks),
            queue: List::new(),
            state: vec![State::Absent; blocks as usize],
            hand: None,
        }
    }

    fn evict(&mut self, evicted: &mut impl FnMut(Block)) {
        while let Some(block) = self.hand.or(self.queue.oldest()) {
            if self.keeps_places {
                self.hand = self.links.newer(block);
            }
            let state = &mut self.state[block as usize];
            if *state == State::Unused {
                *state = State::Absent;
                self.queue.remove(&mut self.links, block);
                evicted(block);
                return;
            }
            *state = State::Unused;
            if !self.keeps_places {
                self.queue.renew(&mut self.links, block);
            }
        }
    }
}

impl Replacement for SecondChance {
    fn touch(&mut self, block: Block, evicted: &mut impl FnMut(Block)) -> bool {
        if self.state[block as usize] != State::Absent {
            self.state[block as usize] = State::Used;
            return true;
        }
        if self.queue.len() >= self.capacity {
            self.evict(evicted);
        }
        if self.capacity > 0 {
            self.state[block as usize] = State::Unused;
            self.queue.push(&mut self.links, block);
        }
        false
    }

    fn holds(&self, block: Block) -> bool {
        self.state[block as usize] != State::Absent
    }

    fn remove(&mut self, block: Block) {
        if self.holds(block) {
            self.state[block as usize] = State::Absent;
            if self.hand == Some(block) {
                self.hand = self.links.newer(block);
            }
            self.queue.remove(&mut self.links, block);
        }
    }

    fn grow(&mut self, blocks: u32) {
        self.links.grow(blocks);
        self.state.resize(self.state.len().max(blocks as usize), State::Absent);
    }
}

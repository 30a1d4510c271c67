//! CLOCK: the hand gives each block that was used since it passed another turn.

use super::list::{Links, List};
use super::{Block, Replacement};

/// What a block is to the cache.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Absent,
    Unused,
    Used,
}

pub struct Clock {
    capacity: u32,
    links: Links,
    ring: List,
    state: Vec<State>,
}

impl Clock {
    pub fn new(capacity: u32, blocks: u32) -> Self {
        Self {
            capacity,
            links: Links::new(blocks),
            ring: List::new(),
            state: vec![State::Absent; blocks as usize],
        }
    }

    fn evict(&mut self, evicted: &mut impl FnMut(Block)) {
        while let Some(block) = self.ring.pop(&mut self.links) {
            let state = &mut self.state[block as usize];
            if *state == State::Unused {
                *state = State::Absent;
                evicted(block);
                return;
            }
            *state = State::Unused;
            self.ring.push(&mut self.links, block);
        }
    }
}

impl Replacement for Clock {
    fn touch(&mut self, block: Block, evicted: &mut impl FnMut(Block)) -> bool {
        if self.state[block as usize] != State::Absent {
            self.state[block as usize] = State::Used;
            return true;
        }
        if self.ring.len() >= self.capacity {
            self.evict(evicted);
        }
        if self.capacity > 0 {
            self.state[block as usize] = State::Unused;
            self.ring.push(&mut self.links, block);
        }
        false
    }

    fn holds(&self, block: Block) -> bool {
        self.state[block as usize] != State::Absent
    }

    fn remove(&mut self, block: Block) {
        if self.holds(block) {
            self.state[block as usize] = State::Absent;
            self.ring.remove(&mut self.links, block);
        }
    }

    fn grow(&mut self, blocks: u32) {
        self.links.grow(blocks);
        self.state.resize(self.state.len().max(blocks as usize), State::Absent);
    }
}

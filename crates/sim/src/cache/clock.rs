//! CLOCK: the hand gives each block that was used since it passed another turn.

use super::list::{Links, List};
use super::{Block, Cache};

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

    fn evict(&mut self) {
        while let Some(block) = self.ring.pop(&mut self.links) {
            let state = &mut self.state[block as usize];
            if *state == State::Unused {
                *state = State::Absent;
                return;
            }
            *state = State::Unused;
            self.ring.push(&mut self.links, block);
        }
    }
}

impl Cache for Clock {
    fn touch(&mut self, block: Block) -> bool {
        if self.state[block as usize] != State::Absent {
            self.state[block as usize] = State::Used;
            return true;
        }
        if self.ring.len() >= self.capacity {
            self.evict();
        }
        if self.capacity > 0 {
            self.state[block as usize] = State::Unused;
            self.ring.push(&mut self.links, block);
        }
        false
    }
}

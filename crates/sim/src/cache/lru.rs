//! LRU and FIFO: the oldest goes, by its last use or by when it came.

use super::list::{Links, List};
use super::{Block, Replacement};

#[derive(Clone)]
pub struct Lru {
    capacity: u32,
    /// Whether a use makes a block the newest.
    renews: bool,
    links: Links,
    list: List,
    held: Vec<bool>,
}

impl Lru {
    pub fn new(capacity: u32, blocks: u32, renews: bool) -> Self {
        Self {
            capacity,
            renews,
            links: Links::new(blocks),
            list: List::new(),
            held: vec![false; blocks as usize],
        }
    }
}

impl Replacement for Lru {
    fn touch(&mut self, block: Block, evicted: &mut impl FnMut(Block)) -> bool {
        if self.held[block as usize] {
            if self.renews {
                self.list.renew(&mut self.links, block);
            }
            return true;
        }
        if self.list.len() >= self.capacity
            && let Some(oldest) = self.list.pop(&mut self.links)
        {
            self.held[oldest as usize] = false;
            evicted(oldest);
        }
        if self.capacity > 0 {
            self.held[block as usize] = true;
            self.list.push(&mut self.links, block);
        }
        false
    }

    fn holds(&self, block: Block) -> bool {
        self.held[block as usize]
    }

    fn remove(&mut self, block: Block) {
        if std::mem::take(&mut self.held[block as usize]) {
            self.list.remove(&mut self.links, block);
        }
    }

    fn grow(&mut self, blocks: u32) {
        self.links.grow(blocks);
        self.held.resize(self.held.len().max(blocks as usize), false);
    }
}

//! LRU and FIFO: the oldest goes, by its last use or by when it came.

use super::list::{Links, List};
use super::{Block, Cache};

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

impl Cache for Lru {
    fn touch(&mut self, block: Block) -> bool {
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
        }
        if self.capacity > 0 {
            self.held[block as usize] = true;
            self.list.push(&mut self.links, block);
        }
        false
    }
}

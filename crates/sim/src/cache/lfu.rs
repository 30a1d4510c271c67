//! LFU: blocks by how often they were used since they came, of as many uses in the order in which they had them.

use std::collections::BTreeMap;

use super::list::{Links, List};
use super::{Block, Replacement};

#[derive(Clone)]
pub struct Lfu {
    capacity: u32,
    links: Links,
    /// Number of uses -> the blocks with it.
    by_uses: BTreeMap<u32, List>,
    /// Uses of a block since it came; 0 if it isn't there.
    uses: Vec<u32>,
    held: u32,
}

impl Lfu {
    pub fn new(capacity: u32, blocks: u32) -> Self {
        Self {
            capacity,
            links: Links::new(blocks),
            by_uses: BTreeMap::new(),
            uses: vec![0; blocks as usize],
            held: 0,
        }
    }

    fn put(&mut self, uses: u32, block: Block) {
        self.uses[block as usize] = uses;
        self.by_uses.entry(uses).or_insert_with(List::new).push(&mut self.links, block);
    }

    fn take(&mut self, uses: u32, block: Block) {
        if let Some(list) = self.by_uses.get_mut(&uses) {
            list.remove(&mut self.links, block);
            if list.len() == 0 {
                self.by_uses.remove(&uses);
            }
        }
    }

    fn evict(&mut self, evicted: &mut impl FnMut(Block)) {
        let Some(mut least) = self.by_uses.first_entry() else { return };
        if let Some(block) = least.get_mut().pop(&mut self.links) {
            self.uses[block as usize] = 0;
            self.held -= 1;
            evicted(block);
        }
        if least.get().len() == 0 {
            least.remove();
        }
    }
}

impl Replacement for Lfu {
    fn touch(&mut self, block: Block, evicted: &mut impl FnMut(Block)) -> bool {
        let uses = self.uses[block as usize];
        if uses > 0 {
            self.take(uses, block);
            self.put(uses.saturating_add(1), block);
            return true;
        }
        if self.held >= self.capacity {
            self.evict(evicted);
        }
        if self.capacity > 0 {
            self.put(1, block);
            self.held += 1;
        }
        false
    }

    fn holds(&self, block: Block) -> bool {
        self.uses[block as usize] > 0
    }

    fn remove(&mut self, block: Block) {
        let uses = std::mem::take(&mut self.uses[block as usize]);
        if uses > 0 {
            self.take(uses, block);
            self.held -= 1;
        }
    }

    fn grow(&mut self, blocks: u32) {
        self.links.grow(blocks);
        self.uses.resize(self.uses.len().max(blocks as usize), 0);
    }
}

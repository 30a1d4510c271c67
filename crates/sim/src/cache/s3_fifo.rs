//! S3-FIFO: most new blocks are never used again, and leave through a small queue (Yang et al., "FIFO queues are all you
//! need for cache eviction", SOSP 2023, Algorithm 1).
//!
//! A new block that isn't remembered goes to the small queue, whether or not the cache is full, as in the paper and in
//! libCacheSim's `S3FIFOv0`. The `S3FIFO` of libCacheSim 0.3.5 fills the main queue first, which is another policy.

use super::list::{Links, List};
use super::{Block, Replacement};

/// Uses in the small queue that move a block to the main one.
const THRESHOLD: u8 = 2;
/// Extra turns in the main queue at most.
const TURNS: u8 = 3;

/// Which list a block is in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    None,
    Small,
    Main,
    /// Not held, but remembered.
    Ghost,
}

#[derive(Clone)]
pub struct S3Fifo {
    capacity: u32,
    links: Links,
    place: Vec<Place>,
    uses: Vec<u8>,
    small: List,
    main: List,
    ghost: List,
    most_main: u32,
    most_ghost: u32,
}

impl S3Fifo {
    pub fn new(capacity: u32, blocks: u32) -> Self {
        let small = (capacity / 10).max(1);
        Self {
            capacity,
            links: Links::new(blocks),
            place: vec![Place::None; blocks as usize],
            uses: vec![0; blocks as usize],
            small: List::new(),
            main: List::new(),
            ghost: List::new(),
            most_main: capacity.saturating_sub(small),
            most_ghost: (f64::from(capacity) * 0.9) as u32,
        }
    }

    fn evict(&mut self, evicted: &mut impl FnMut(Block)) {
        if self.main.len() > self.most_main || self.small.len() == 0 {
            self.evict_main(evicted);
        } else {
            self.evict_small(evicted);
        }
    }

    fn evict_small(&mut self, evicted: &mut impl FnMut(Block)) {
        while let Some(block) = self.small.pop(&mut self.links) {
            let at = block as usize;
            if std::mem::take(&mut self.uses[at]) >= THRESHOLD {
                self.main.push(&mut self.links, block);
                self.place[at] = Place::Main;
                continue;
            }
            self.place[at] = Place::None;
            if self.most_ghost > 0 {
                if self.ghost.len() >= self.most_ghost
                    && let Some(oldest) = self.ghost.pop(&mut self.links)
                {
                    self.place[oldest as usize] = Place::None;
                }
                self.ghost.push(&mut self.links, block);
                self.place[at] = Place::Ghost;
            }
            evicted(block);
            return;
        }
    }

    fn evict_main(&mut self, evicted: &mut impl FnMut(Block)) {
        while let Some(block) = self.main.pop(&mut self.links) {
            let uses = &mut self.uses[block as usize];
            if *uses == 0 {
                self.place[block as usize] = Place::None;
                evicted(block);
                return;
            }
            *uses = (*uses).min(TURNS) - 1;
            self.main.push(&mut self.links, block);
        }
    }
}

impl Replacement for S3Fifo {
    fn touch(&mut self, block: Block, evicted: &mut impl FnMut(Block)) -> bool {
        let at = block as usize;
        let place = self.place[at];
        if matches!(place, Place::Small | Place::Main) {
            self.uses[at] = self.uses[at].saturating_add(1);
            return true;
        }
        if self.capacity == 0 {
            return false;
        }
        if place == Place::Ghost {
            self.ghost.remove(&mut self.links, block);
            self.place[at] = Place::None;
        }
        while self.small.len() + self.main.len() >= self.capacity {
            self.evict(evicted);
        }
        self.uses[at] = 0;
        if place == Place::Ghost {
            self.main.push(&mut self.links, block);
            self.place[at] = Place::Main;
        } else {
            self.small.push(&mut self.links, block);
            self.place[at] = Place::Small;
        }
        false
    }

    fn holds(&self, block: Block) -> bool {
        matches!(self.place[block as usize], Place::Small | Place::Main)
    }

    fn remove(&mut self, block: Block) {
        match self.place[block as usize] {
            Place::Small => self.small.remove(&mut self.links, block),
            Place::Main => self.main.remove(&mut self.links, block),
            Place::None | Place::Ghost => return,
        }
        self.place[block as usize] = Place::None;
    }

    fn grow(&mut self, blocks: u32) {
        self.links.grow(blocks);
        self.place.resize(self.place.len().max(blocks as usize), Place::None);
        self.uses.resize(self.uses.len().max(blocks as usize), 0);
    }
}

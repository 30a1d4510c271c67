//! ARC. T1 and T2 hold blocks used once and oftener, B1 and B2 remember what left them; `target` is the share of T1.

use super::list::{Links, List};
use super::{Block, Replacement};

/// Which list a block is in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    None,
    T1,
    T2,
    B1,
    B2,
}

#[derive(Clone)]
pub struct Arc {
    capacity: u32,
    links: Links,
    place: Vec<Place>,
    t1: List,
    t2: List,
    b1: List,
    b2: List,
    target: f64,
}

impl Arc {
    pub fn new(capacity: u32, blocks: u32) -> Self {
        Self {
            capacity,
            links: Links::new(blocks),
            place: vec![Place::None; blocks as usize],
            t1: List::new(),
            t2: List::new(),
            b1: List::new(),
            b2: List::new(),
            target: 0.0,
        }
    }

    /// REPLACE of the paper: the oldest of T1 or T2 goes, and is remembered.
    fn replace(&mut self, was_in_b2: bool, evicted: &mut impl FnMut(Block)) {
        let t1 = f64::from(self.t1.len());
        let from_t1 = self.t1.len() > 0 && (t1 > self.target || (t1 == self.target && was_in_b2));
        let (from, to, place) = if from_t1 || self.t2.len() == 0 {
            (&mut self.t1, &mut self.b1, Place::B1)
        } else {
            (&mut self.t2, &mut self.b2, Place::B2)
        };
        if let Some(block) = from.pop(&mut self.links) {
            to.push(&mut self.links, block);
            self.place[block as usize] = place;
            evicted(block);
        }
    }

    fn forget(list: &mut List, links: &mut Links, place: &mut [Place]) -> Option<Block> {
        let block = list.pop(links)?;
        place[block as usize] = Place::None;
        Some(block)
    }

    /// Case IV of the paper: a block that no list has comes in.
    fn make_room(&mut self, evicted: &mut impl FnMut(Block)) {
        if self.t1.len() + self.b1.len() >= self.capacity {
            if self.b1.len() == 0 {
                let oldest = Self::forget(&mut self.t1, &mut self.links, &mut self.place);
                oldest.into_iter().for_each(evicted);
                return;
            }
            Self::forget(&mut self.b1, &mut self.links, &mut self.place);
        } else if u64::from(self.t1.len() + self.b1.len()) + u64::from(self.t2.len() + self.b2.len())
            >= 2 * u64::from(self.capacity)
        {
            Self::forget(&mut self.b2, &mut self.links, &mut self.place);
        }
        self.replace(false, evicted);
    }
}

impl Replacement for Arc {
    fn touch(&mut self, block: Block, evicted: &mut impl FnMut(Block)) -> bool {
        let at = block as usize;
        let is_full = self.t1.len() + self.t2.len() >= self.capacity;
        let ratio = |of: u32, to: u32| (f64::from(of) / f64::from(to)).max(1.0);
        match self.place[at] {
            Place::T1 => {
                self.t1.remove(&mut self.links, block);
                self.t2.push(&mut self.links, block);
                self.place[at] = Place::T2;
                return true;
            }
            Place::T2 => {
                self.t2.renew(&mut self.links, block);
                return true;
            }
            Place::B1 => {
                let by = ratio(self.b2.len(), self.b1.len());
                self.target = (self.target + by).min(f64::from(self.capacity));
                self.b1.remove(&mut self.links, block);
                if is_full {
                    self.replace(false, evicted);
                }
                self.t2.push(&mut self.links, block);
                self.place[at] = Place::T2;
            }
            Place::B2 => {
                let by = ratio(self.b1.len(), self.b2.len());
                self.target = (self.target - by).max(0.0);
                self.b2.remove(&mut self.links, block);
                if is_full {
                    self.replace(true, evicted);
                }
                self.t2.push(&mut self.links, block);
                self.place[at] = Place::T2;
            }
            Place::None if self.capacity > 0 => {
                if is_full {
                    self.make_room(evicted);
                }
                self.t1.push(&mut self.links, block);
                self.place[at] = Place::T1;
            }
            Place::None => {}
        }
        false
    }

    fn holds(&self, block: Block) -> bool {
        matches!(self.place[block as usize], Place::T1 | Place::T2)
    }

    fn remove(&mut self, block: Block) {
        match self.place[block as usize] {
            Place::T1 => self.t1.remove(&mut self.links, block),
            Place::T2 => self.t2.remove(&mut self.links, block),
            Place::None | Place::B1 | Place::B2 => return,
        }
        self.place[block as usize] = Place::None;
    }

    fn grow(&mut self, blocks: u32) {
        self.links.grow(blocks);
        self.place.resize(self.place.len().max(blocks as usize), Place::None);
    }
}

//! 2Q: a block is new until it left the queue of new ones and came back while that is remembered.

use super::list::{Links, List};
use super::{Block, Replacement};

/// Which list a block is in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    None,
    New,
    /// Not held, but remembered.
    Gone,
    Main,
}

#[derive(Clone)]
pub struct TwoQ {
    capacity: u32,
    links: Links,
    place: Vec<Place>,
    new: List,
    gone: List,
    main: List,
    most_new: u32,
    most_gone: u32,
}

impl TwoQ {
    pub fn new(capacity: u32, blocks: u32) -> Self {
        Self {
            capacity,
            links: Links::new(blocks),
            place: vec![Place::None; blocks as usize],
            new: List::new(),
            gone: List::new(),
            main: List::new(),
            most_new: (capacity / 4).max(1),
            most_gone: (capacity / 2).max(1),
        }
    }

    /// Takes the oldest of a list out: it is nowhere then.
    fn drop_oldest(list: &mut List, links: &mut Links, place: &mut [Place]) -> Option<Block> {
        let block = list.pop(links)?;
        place[block as usize] = Place::None;
        Some(block)
    }

    fn evict(&mut self, evicted: &mut impl FnMut(Block)) {
        let Self { links, place, .. } = self;
        if self.new.len() <= self.most_new && self.main.len() > 0 {
            Self::drop_oldest(&mut self.main, links, place).into_iter().for_each(evicted);
            return;
        }
        let Some(block) = Self::drop_oldest(&mut self.new, links, place) else { return };
        if self.gone.len() >= self.most_gone {
            Self::drop_oldest(&mut self.gone, links, place);
        }
        self.gone.push(links, block);
        place[block as usize] = Place::Gone;
        evicted(block);
    }
}

impl Replacement for TwoQ {
    fn touch(&mut self, block: Block, evicted: &mut impl FnMut(Block)) -> bool {
        let at = block as usize;
        match self.place[at] {
            Place::New => return true,
            Place::Main => {
                self.main.renew(&mut self.links, block);
                return true;
            }
            Place::Gone => {
                self.gone.remove(&mut self.links, block);
                self.place[at] = Place::Main;
            }
            Place::None => self.place[at] = Place::New,
        }
        if self.capacity == 0 {
            self.place[at] = Place::None;
            return false;
        }
        while self.new.len() + self.main.len() >= self.capacity {
            self.evict(evicted);
        }
        if self.place[at] == Place::Main {
            if self.main.len() >= (self.capacity - self.most_new).max(1) {
                let oldest = Self::drop_oldest(&mut self.main, &mut self.links, &mut self.place);
                oldest.into_iter().for_each(&mut *evicted);
            }
            self.main.push(&mut self.links, block);
        } else {
            self.new.push(&mut self.links, block);
        }
        false
    }

    fn holds(&self, block: Block) -> bool {
        matches!(self.place[block as usize], Place::New | Place::Main)
    }

    fn remove(&mut self, block: Block) {
        match self.place[block as usize] {
            Place::New => self.new.remove(&mut self.links, block),
            Place::Main => self.main.remove(&mut self.links, block),
            Place::None | Place::Gone => return,
        }
        self.place[block as usize] = Place::None;
    }

    fn grow(&mut self, blocks: u32) {
        self.links.grow(blocks);
        self.place.resize(self.place.len().max(blocks as usize), Place::None);
    }
}

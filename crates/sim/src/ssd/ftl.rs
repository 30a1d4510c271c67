//! The flash translation layer: which physical page holds which logical page, and what each block holds.
//!
//! Page mapping with a static plane: a logical page always lies in the same plane, which has one open block for requests
//! and one for pages that garbage collection moves. It knows no time. Its tables are zero where nothing was written, so
//! that the operating system gives memory only to what is used.

use std::collections::VecDeque;

use super::geometry::{Block, Geometry, Page, Plane, Slot};
use super::parameters::{Parameters, Victim};
use crate::random::Random;

/// Who writes a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    /// A request, or the mapping table.
    Host,
    /// Garbage collection.
    Moved,
}

#[derive(Clone, Debug, Default)]
struct PlaneState {
    /// Erased blocks; the one erased longest ago is written next, which levels wear.
    free: VecDeque<Block>,
    /// Full blocks whose pages are all programmed, in the order in which they became so (FIFO needs the order).
    full: VecDeque<Block>,
    /// Block that each stream writes to.
    open: [Option<Block>; 2],
}

#[derive(Clone, Debug)]
pub(super) struct Ftl {
    pub geometry: Geometry,
    victim: Victim,
    hard_threshold: usize,
    all_sectors: u32,
    /// By slot: its page and 1, or 0.
    pages: Vec<u32>,
    /// By slot that has a page: its sectors without data, one bit each.
    missing: Vec<u32>,
    /// By page: slot whose current data it holds and 1, or 0.
    owners: Vec<u32>,
    /// By block: pages with current data.
    valid: Vec<u32>,
    /// By block: pages written since it was erased.
    written: Vec<u32>,
    /// By block: pages written whose programming isn't over.
    pending: Vec<u32>,
    planes: Vec<PlaneState>,
}

impl Ftl {
    pub fn new(parameters: &Parameters) -> Self {
        let geometry = Geometry::new(parameters);
        let slots = geometry.planes as usize * geometry.slots_per_plane as usize;
        let blocks = geometry.planes as usize * geometry.blocks_per_plane as usize;
        let sectors = parameters.page_bytes / parameters.sector_bytes;
        let planes = (0..geometry.planes)
            .map(|plane| PlaneState {
                free: (0..geometry.blocks_per_plane)
                    .map(|block| plane * geometry.blocks_per_plane + block)
                    .collect(),
                ..PlaneState::default()
            })
            .collect();
        Self {
            victim: parameters.victim,
            hard_threshold: parameters.gc_hard_threshold_blocks as usize,
            all_sectors: u32::MAX >> (32 - sectors),
            pages: vec![0; slots],
            missing: vec![0; slots],
            owners: vec![0; blocks * geometry.pages_per_block as usize],
            valid: vec![0; blocks],
            written: vec![0; blocks],
            pending: vec![0; blocks],
            planes,
            geometry,
        }
    }

    /// Where the data of a slot is. None if it was never written, or trimmed.
    pub fn find_page(&self, slot: Slot) -> Option<Page> {
        self.pages[slot as usize].checked_sub(1)
    }

    /// Sectors of a slot that have data, one bit each.
    pub fn known_sectors(&self, slot: Slot) -> u32 {
        if self.pages[slot as usize] == 0 { 0 } else { self.all_sectors & !self.missing[slot as usize] }
    }

    pub fn all_sectors(&self) -> u32 {
        self.all_sectors
    }

    pub fn free_blocks(&self, plane: Plane) -> usize {
        self.planes[plane as usize].free.len()
    }

    /// Whether requests can write a page of a plane.
    pub fn can_write(&self, plane: Plane) -> bool {
        let state = &self.planes[plane as usize];
        state.open[Stream::Host as usize].is_some() || state.free.len() > self.hard_threshold
    }

    /// Writes sectors of a slot to a new page, with those that it had before. None if its plane is full.
    pub fn write_slot(&mut self, slot: Slot, sectors: u32, stream: Stream) -> Option<Page> {
        let page = self.allocate(self.geometry.plane_of_slot(slot), stream)?;
        let known = self.known_sectors(slot) | sectors;
        self.invalidate(slot);
        self.missing[slot as usize] = self.all_sectors & !known;
        self.bind(slot, page);
        Some(page)
    }

    /// Writes a page that holds nothing. None if the plane is full.
    pub fn skip_page(&mut self, plane: Plane) -> Option<Page> {
        self.allocate(plane, Stream::Host)
    }

    /// Moves the valid pages of a block elsewhere and erases it, without timing.
    pub fn clean_block(&mut self, block: Block) {
        let pages: Vec<_> = self.valid_pages(block).collect();
        for (_, slot) in pages {
            if let Some(page) = self.write_slot(slot, 0, Stream::Moved) {
                self.finish_program(page);
            }
        }
        self.release_block(block);
    }

    fn bind(&mut self, slot: Slot, page: Page) {
        self.pages[slot as usize] = page + 1;
        self.owners[page as usize] = slot + 1;
        self.valid[self.geometry.block_of_page(page) as usize] += 1;
    }

    fn invalidate(&mut self, slot: Slot) {
        if let Some(page) = self.find_page(slot) {
            self.pages[slot as usize] = 0;
            self.owners[page as usize] = 0;
            self.valid[self.geometry.block_of_page(page) as usize] -= 1;
        }
    }

    /// Adds sectors to what the page of a slot holds, before it is programmed.
    pub fn add_sectors(&mut self, slot: Slot, sectors: u32) {
        self.missing[slot as usize] &= !sectors;
    }

    /// Forgets the data of a slot.
    pub fn trim_slot(&mut self, slot: Slot) {
        self.invalidate(slot);
    }

    fn allocate(&mut self, plane: Plane, stream: Stream) -> Option<Page> {
        if stream == Stream::Host && !self.can_write(plane) {
            return None;
        }
        let state = &mut self.planes[plane as usize];
        let open = &mut state.open[stream as usize];
        let block = match *open {
            Some(block) => block,
            None => *open.insert(state.free.pop_front()?),
        };
        let offset = self.written[block as usize];
        self.written[block as usize] += 1;
        self.pending[block as usize] += 1;
        if offset + 1 == self.geometry.pages_per_block {
            *open = None;
        }
        Some(block * self.geometry.pages_per_block + offset)
    }

    /// A page that was written is programmed.
    pub fn finish_program(&mut self, page: Page) {
        let block = self.geometry.block_of_page(page);
        self.pending[block as usize] -= 1;
        if self.pending[block as usize] == 0 && self.written[block as usize] == self.geometry.pages_per_block
        {
            self.planes[self.geometry.plane_of_block(block) as usize].full.push_back(block);
        }
    }

    /// Takes the block of a plane to clean next out of the full ones. None if none has anything to gain.
    pub fn take_victim(&mut self, plane: Plane, random: &mut Random) -> Option<Block> {
        let full = &mut self.planes[plane as usize].full;
        let valid = |&at: &usize| self.valid[full[at] as usize];
        // Blocks full of valid data are no victims: moving them one after the other would never end while the writes that
        // invalidate some wait for garbage collection.
        let has_gain = |at: &usize| valid(at) < self.geometry.pages_per_block;
        let greedy = || (0..full.len()).min_by_key(valid).filter(has_gain);
        let at = match self.victim {
            Victim::Fifo => (0..full.len()).find(has_gain),
            Victim::Greedy => greedy(),
            Victim::RandomGreedy(choices) => {
                let count = full.len() as u32;
                let chosen = (0..choices.min(count)).map(|_| random.below(count) as usize).min_by_key(valid);
                chosen.filter(has_gain).or_else(greedy)
            }
        }?;
        if self.victim == Victim::Fifo { full.remove(at) } else { full.swap_remove_back(at) }
    }

    /// Pages of a block with current data, and their slots.
    pub fn valid_pages(&self, block: Block) -> impl Iterator<Item = (Page, Slot)> {
        let first = block * self.geometry.pages_per_block;
        let pages = if self.valid[block as usize] == 0 { 0 } else { self.geometry.pages_per_block };
        (first..first + pages).filter_map(|page| Some((page, self.owners[page as usize].checked_sub(1)?)))
    }

    /// Slot whose current data is in a page.
    pub fn find_owner(&self, page: Page) -> Option<Slot> {
        self.owners[page as usize].checked_sub(1)
    }

    /// A block that has no current data is erased.
    pub fn release_block(&mut self, block: Block) {
        debug_assert_eq!(self.valid[block as usize], 0);
        self.written[block as usize] = 0;
        self.planes[self.geometry.plane_of_block(block) as usize].free.push_back(block);
    }
}

#[cfg(test)]
impl Ftl {
    /// Checks all tables against each other.
    pub fn check(&self) {
        let mut valid = vec![0; self.valid.len()];
        for (slot, &page) in self.pages.iter().enumerate() {
            if let Some(page) = page.checked_sub(1) {
                assert_eq!(self.owners[page as usize] as usize, slot + 1);
                let block = self.geometry.block_of_page(page);
                assert!(self.geometry.offset(page) < self.written[block as usize]);
                assert_eq!(self.geometry.plane_of_block(block), self.geometry.plane_of_slot(slot as u32));
                valid[block as usize] += 1;
            }
        }
        assert_eq!(valid, self.valid);
        let owned = self.owners.iter().filter(|&&owner| owner != 0).count();
        assert_eq!(owned, self.pages.iter().filter(|&&page| page != 0).count());
        for state in &self.planes {
            assert!(state.free.iter().all(|&block| self.written[block as usize] == 0));
            assert!(
                state.full.iter().all(|&block| self.written[block as usize] == self.geometry.pages_per_block)
            );
        }
    }
}

//! Garbage collection: a process in each plane that moves the valid pages of a block elsewhere and erases it, while there
//! are fewer free blocks than the threshold.

use super::Ssd;
use super::flash::{Command, Id, Operation, Purpose};
use super::ftl::Stream;
use super::geometry::{Block, Plane};

/// A block that is being cleaned.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cleaning {
    block: Block,
    /// Pages that aren't moved yet.
    pages: u32,
}

impl Ssd {
    /// Starts to clean a block of a plane if it has too few free ones.
    pub(super) fn collect_garbage(&mut self, plane: Plane) {
        if self.cleaning[plane as usize].is_some()
            || self.ftl.free_blocks(plane) >= self.parameters.gc_threshold_blocks as usize
        {
            return;
        }
        let Some(block) = self.ftl.take_victim(plane, &mut self.random) else { return };
        let pages: Vec<_> = self.ftl.valid_pages(block).collect();
        self.cleaning[plane as usize] = Some(Cleaning { block, pages: pages.len() as u32 });
        self.flash.set_cleaning(plane, true, &self.ftl.geometry);
        if pages.is_empty() {
            return self.erase_block(block);
        }
        for (page, slot) in pages {
            if self.parameters.copy_back {
                let operation = Operation::new(Purpose::Move, Command::CopyBack, slot);
                let id = self.flash.add_operation(operation);
                self.assign_moved_page(id, slot);
            } else {
                let mut operation = Operation::new(Purpose::Fetch, Command::Read, slot);
                operation.page = page;
                operation.bytes = self.parameters.page_bytes;
                let id = self.flash.add_operation(operation);
                self.flash.queue_operation(id, &self.ftl.geometry);
            }
        }
    }

    /// A page to move is read: writes it elsewhere, unless it was overwritten since.
    pub(super) fn move_page(&mut self, id: Id) {
        let Operation { page, slot, .. } = *self.flash.operation(id);
        if self.ftl.find_owner(page) == Some(slot) {
            let operation = self.flash.operation_mut(id);
            operation.purpose = Purpose::Move;
            operation.command = Command::Program;
            self.assign_moved_page(id, slot);
        } else {
            self.flash.remove_operation(id);
            self.finish_page(self.ftl.geometry.plane_of_slot(slot));
        }
    }

    fn assign_moved_page(&mut self, id: Id, slot: u32) {
        let Some(page) = self.ftl.write_slot(slot, 0, Stream::Moved) else {
            // Writes of requests leave a free block, and a block that is cleaned fills one at most.
            debug_assert!(false, "no free block for moved pages");
            return;
        };
        self.flash.operation_mut(id).page = page;
        self.flash.queue_operation(id, &self.ftl.geometry);
    }

    pub(super) fn finish_move(&mut self, id: Id) {
        let plane = self.ftl.geometry.plane_of_slot(self.flash.operation(id).slot);
        self.counters.pages_moved += 1;
        self.finish_program(id);
        self.finish_page(plane);
    }

    /// A page of the block that is being cleaned is done.
    fn finish_page(&mut self, plane: Plane) {
        if let Some(cleaning) = &mut self.cleaning[plane as usize] {
            cleaning.pages -= 1;
            if cleaning.pages == 0 {
                let block = cleaning.block;
                self.erase_block(block);
            }
        }
    }

    fn erase_block(&mut self, block: Block) {
        let mut operation = Operation::new(Purpose::Erase, Command::Erase, 0);
        operation.page = block * self.ftl.geometry.pages_per_block;
        let id = self.flash.add_operation(operation);
        self.flash.queue_operation(id, &self.ftl.geometry);
    }

    pub(super) fn finish_erase(&mut self, id: Id) {
        let block = self.ftl.geometry.block_of_page(self.flash.operation(id).page);
        let plane = self.ftl.geometry.plane_of_block(block);
        self.flash.remove_operation(id);
        self.counters.erases += 1;
        self.ftl.release_block(block);
        self.cleaning[plane as usize] = None;
        self.flash.set_cleaning(plane, false, &self.ftl.geometry);
        self.resume_stalled_writes(plane);
        self.collect_garbage(plane);
    }
}

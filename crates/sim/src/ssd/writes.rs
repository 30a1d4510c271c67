//! Pages on their way to the flash: into the write buffer, to a plane that has room, with what a partial write keeps.

use super::Ssd;
use super::events::Event;
use super::flash::{Command, Id, Operation, Purpose};
use super::requests::{Part, Pending};
use crate::Nanos;

impl Ssd {
    pub(super) fn write_pages(&mut self, now: Nanos, at: u32) {
        if self.buffer.is_enabled() {
            if self.buffer.waiting.is_empty() && self.fill_buffer(now, at) {
                return;
            }
            self.buffer.waiting.push_back(at);
            return;
        }
        let (first, end) = (self.requests[at as usize].next_page, self.pages_end(at));
        self.requests[at as usize].parts = 1;
        for page in first..end {
            let part = self.page_part(at, page);
            let pending = &mut self.requests[at as usize];
            pending.parts += 1;
            pending.uses_flash = true;
            self.write_page(part, Some(at));
        }
        self.finish_part(now, at);
    }

    /// Puts pages of a request into the write buffer while they fit. Returns whether all of them are in it; then the request
    /// is done once the memory has them.
    fn fill_buffer(&mut self, now: Nanos, at: u32) -> bool {
        let end = self.pages_end(at);
        while self.requests[at as usize].next_page < end {
            let part = self.page_part(at, self.requests[at as usize].next_page);
            if !self.merge_write(part) {
                let bytes = u64::from(self.sector_bytes(part.sectors));
                if !self.buffer.has_room(bytes) {
                    return false;
                }
                self.buffer.reserve(bytes);
                self.write_page(part, None);
            }
            self.requests[at as usize].next_page += 1;
        }
        let pending = &mut self.requests[at as usize];
        let Pending { start, end, .. } = *pending;
        pending.parts = 1;
        let done = if end > start { self.memory.transfer(now, end - start) } else { now };
        self.events.add(done, Event::Buffer(at));
        true
    }

    /// Adds data to a write of the same page that is in the write buffer and not yet programmed, if there is one.
    fn merge_write(&mut self, part: Part) -> bool {
        let Some(id) = self.buffer.find_write(part.slot).filter(|&id| !self.flash.operation(id).started)
        else {
            return false;
        };
        let known = self.flash.operation(id).sectors;
        let added = self.sector_bytes(part.sectors & !known);
        // A write that has its page already adds these sectors to it; one that waits for a page does so when it gets one.
        let kept = if self.ftl.find_page(part.slot) == Some(self.flash.operation(id).page) {
            self.ftl.add_sectors(part.slot, part.sectors);
            self.ftl.known_sectors(part.slot)
        } else {
            0
        };
        let bytes = self.sector_bytes(kept | known | part.sectors);
        let operation = self.flash.operation_mut(id);
        operation.sectors |= part.sectors;
        operation.bytes = bytes;
        self.buffer.reserve(u64::from(added));
        true
    }

    fn write_page(&mut self, part: Part, request: Option<u32>) {
        self.counters.host_pages_written += 1;
        let mut operation = Operation::new(Purpose::Write { request }, Command::Program, part.slot);
        operation.sectors = part.sectors;
        let id = self.flash.add_operation(operation);
        if self.buffer.is_enabled() {
            self.flash.operation_mut(id).ticket = self.buffer.add_write(part.slot, id);
        }
        self.translate(id);
    }

    /// Gives an operation whose mapping is known its page, and queues it.
    pub(super) fn assign_page(&mut self, id: Id) {
        let operation = *self.flash.operation(id);
        if operation.command == Command::Read {
            let page = self
                .ftl
                .find_page(operation.slot)
                .unwrap_or(self.ftl.geometry.page_of_unwritten(operation.slot));
            self.flash.operation_mut(id).page = page;
            self.flash.queue_operation(id, &self.ftl.geometry);
            return;
        }
        let plane = self.ftl.geometry.plane_of_slot(operation.slot);
        let stalled = &mut self.stalled[plane as usize];
        if stalled.is_empty() && self.ftl.can_write(plane) {
            return self.assign_new_page(id);
        }
        if stalled.is_empty() {
            self.flash.set_stalled(plane, true, &self.ftl.geometry);
        }
        stalled.push_back(id);
        self.counters.stalls += 1;
        self.collect_garbage(plane);
    }

    /// Lets writes of a plane go on that waited for a free block.
    pub(super) fn resume_stalled_writes(&mut self, plane: u32) {
        if self.stalled[plane as usize].is_empty() {
            return;
        }
        while self.ftl.can_write(plane) {
            let Some(id) = self.stalled[plane as usize].pop_front() else { break };
            self.assign_new_page(id);
        }
        if self.stalled[plane as usize].is_empty() {
            self.flash.set_stalled(plane, false, &self.ftl.geometry);
        }
    }

    /// Writes to a plane that has room.
    fn assign_new_page(&mut self, id: Id) {
        let Operation { slot, sectors, purpose, .. } = *self.flash.operation(id);
        let before = self.ftl.find_page(slot);
        let kept = self.ftl.known_sectors(slot) & !sectors;
        let Some(page) = self.ftl.write_slot(slot, sectors, super::ftl::Stream::Host) else {
            // Nobody else can have taken the room.
            debug_assert!(false, "no room in a plane that has some");
            return;
        };
        let bytes = self.sector_bytes(kept | sectors);
        let operation = self.flash.operation_mut(id);
        operation.page = page;
        operation.bytes = bytes;
        if let Purpose::Write { .. } = purpose {
            if let Some(mapping) = &mut self.mapping {
                mapping.mark_changed(self.ftl.geometry.logical_page(slot) as u32);
            }
            // It was trimmed while it waited.
            if self.buffer.is_enabled() && self.buffer.find_write(slot) != Some(id) {
                self.ftl.trim_slot(slot);
            }
        }
        match before {
            Some(before) if kept != 0 => {
                self.counters.pages_filled += 1;
                let mut fill = Operation::new(Purpose::Fill { write: id }, Command::Read, slot);
                fill.page = before;
                fill.sectors = kept;
                fill.bytes = self.sector_bytes(kept);
                let fill = self.flash.add_operation(fill);
                self.flash.queue_operation(fill, &self.ftl.geometry);
            }
            _ => self.flash.queue_operation(id, &self.ftl.geometry),
        }
        self.collect_garbage(self.ftl.geometry.plane_of_slot(slot));
    }

    /// A page is programmed, whoever wrote it.
    pub(super) fn finish_program(&mut self, id: Id) {
        let page = self.flash.operation(id).page;
        self.flash.remove_operation(id);
        self.counters.pages_programmed += 1;
        self.ftl.finish_program(page);
        let geometry = &self.ftl.geometry;
        self.collect_garbage(geometry.plane_of_block(geometry.block_of_page(page)));
    }

    /// A page that a request wrote is programmed.
    pub(super) fn finish_write(&mut self, now: Nanos, id: Id, request: Option<u32>) {
        let Operation { slot, sectors, ticket, .. } = *self.flash.operation(id);
        self.finish_program(id);
        if let Some(request) = request {
            self.finish_part(now, request);
        }
        if !self.buffer.is_enabled() {
            return;
        }
        let bytes = self.sector_bytes(sectors);
        self.buffer.finish_write(slot, id, ticket, u64::from(bytes));
        while let Some(flush) = self.buffer.pop_flushed() {
            self.complete_request(now, flush);
        }
        while let Some(&at) = self.buffer.waiting.front() {
            if !self.fill_buffer(now, at) {
                break;
            }
            self.buffer.waiting.pop_front();
        }
    }
}

//! Requests on their way through the drive: over the link, into pages, and back.

use super::events::Event;
use super::flash::{Command, Operation, Purpose};
use super::geometry::Slot;
use super::{Ssd, flash};
use crate::{Completion, Id, Nanos, Op, Request};

/// A request that isn't completed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    pub id: Id,
    pub op: Op,
    /// First byte, and the one after the last, both within the capacity.
    pub start: u64,
    pub end: u64,
    issued: Nanos,
    /// Parts that aren't done.
    pub parts: u32,
    /// Page that a write goes on with.
    pub next_page: u64,
    /// Whether the flash has a part in it.
    pub uses_flash: bool,
}

/// A page and the part of it that a request touches.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub slot: Slot,
    /// Sectors touched, one bit each.
    pub sectors: u32,
}

impl Ssd {
    pub(super) fn accept_request(&mut self, now: Nanos, id: Id, request: Request) {
        let capacity = self.parameters.capacity();
        let start = request.pos.min(capacity);
        let end = request.pos.saturating_add(request.length).min(capacity);
        let pending = Pending {
            id,
            op: request.op,
            start,
            end,
            issued: now,
            parts: 0,
            next_page: start / u64::from(self.parameters.page_bytes),
            uses_flash: false,
        };
        let at = match self.unused.pop() {
            Some(at) => {
                self.requests[at as usize] = pending;
                at
            }
            None => {
                self.requests.push(pending);
                (self.requests.len() - 1) as u32
            }
        };
        if self.in_flight < self.parameters.queue_depth {
            self.fetch_request(now, at);
        } else {
            self.waiting.push_back(at);
        }
    }

    /// The drive fetches a request, and the data of a write.
    fn fetch_request(&mut self, now: Nanos, at: u32) {
        self.in_flight += 1;
        let pending = &mut self.requests[at as usize];
        pending.issued = now;
        let mut arrival = now + self.parameters.request_ns;
        if pending.op == Op::Write {
            arrival = self.links[0].transfer(arrival, pending.end - pending.start);
        }
        self.events.add(arrival, Event::Arrival(at));
    }

    pub(super) fn start_request(&mut self, now: Nanos, at: u32) {
        match self.requests[at as usize].op {
            Op::Read => self.read_pages(now, at),
            Op::Write => self.write_pages(now, at),
            Op::Flush => {
                if self.parameters.write_buffer_protected || !self.buffer.add_flush(at) {
                    self.complete_request(now, at);
                } else {
                    self.requests[at as usize].uses_flash = true;
                }
            }
            Op::Trim => self.trim_pages(now, at),
        }
    }

    /// The part of a page that a request touches.
    pub(super) fn page_part(&self, at: u32, page: u64) -> Part {
        let Pending { start, end, .. } = self.requests[at as usize];
        let (page_bytes, sector) =
            (u64::from(self.parameters.page_bytes), u64::from(self.parameters.sector_bytes));
        let origin = page * page_bytes;
        let first = start.saturating_sub(origin) / sector;
        let count = (end - origin).min(page_bytes).div_ceil(sector) - first;
        let sectors = (u32::MAX >> (32 - count)) << first;
        Part { slot: self.ftl.geometry.slot(page), sectors }
    }

    /// The page after the last one that a request touches; its first one if it touches none.
    pub(super) fn pages_end(&self, at: u32) -> u64 {
        let Pending { start, end, .. } = self.requests[at as usize];
        let page_bytes = u64::from(self.parameters.page_bytes);
        if end > start { end.div_ceil(page_bytes) } else { start / page_bytes }
    }

    pub(super) fn sector_bytes(&self, sectors: u32) -> u32 {
        sectors.count_ones() * self.parameters.sector_bytes
    }

    fn read_pages(&mut self, now: Nanos, at: u32) {
        let (first, end) = (self.requests[at as usize].next_page, self.pages_end(at));
        let mut buffered = 0;
        // One part more than there are, so that none completes the request before all are on their way.
        self.requests[at as usize].parts = 1;
        for page in first..end {
            let part = self.page_part(at, page);
            let in_buffer = match self.buffer.find_write(part.slot) {
                Some(id) => part.sectors & self.flash.operation(id).sectors,
                None => 0,
            };
            buffered += self.sector_bytes(in_buffer);
            let from_flash = part.sectors & !in_buffer;
            if from_flash == 0 || (self.parameters.zero_unwritten && self.ftl.find_page(part.slot).is_none())
            {
                continue;
            }
            let pending = &mut self.requests[at as usize];
            pending.parts += 1;
            pending.uses_flash = true;
            self.counters.host_pages_read += 1;
            let mut operation = Operation::new(Purpose::Read { request: at }, Command::Read, part.slot);
            operation.sectors = from_flash;
            operation.bytes = self.sector_bytes(from_flash);
            let id = self.flash.add_operation(operation);
            self.translate(id);
        }
        if buffered > 0 {
            self.requests[at as usize].parts += 1;
            let done = self.memory.transfer(now, u64::from(buffered));
            self.events.add(done, Event::Buffer(at));
        }
        self.finish_part(now, at);
    }

    fn trim_pages(&mut self, now: Nanos, at: u32) {
        let page_bytes = u64::from(self.parameters.page_bytes);
        let Pending { start, end, .. } = self.requests[at as usize];
        // A page of which only a part is trimmed keeps its data.
        for page in start.div_ceil(page_bytes)..end / page_bytes {
            let slot = self.ftl.geometry.slot(page);
            self.buffer.drop_write(slot);
            self.ftl.trim_slot(slot);
            if let Some(mapping) = &mut self.mapping {
                mapping.mark_changed(page as u32);
            }
        }
        self.complete_request(now, at);
    }

    /// A part of a request is done, and with the last one the request.
    pub(super) fn finish_part(&mut self, now: Nanos, at: u32) {
        let pending = &mut self.requests[at as usize];
        pending.parts -= 1;
        if pending.parts == 0 {
            self.complete_request(now, at);
        }
    }

    /// A request is done in the drive, and goes back to the host with the data of a read.
    pub(super) fn complete_request(&mut self, now: Nanos, at: u32) {
        let pending = self.requests[at as usize];
        let bytes = if pending.op == Op::Read { pending.end - pending.start } else { 0 };
        let link = usize::from(self.parameters.link_full_duplex);
        let passed = self.links[link].transfer(now, bytes) + self.parameters.completion_ns;
        let completion =
            Completion { id: pending.id, issued: pending.issued, done: passed, cached: !pending.uses_flash };
        self.leaving.push_back((completion, at));
    }

    /// A completion has reached the host: the next request may come.
    pub(super) fn release_request(&mut self, now: Nanos, at: u32) {
        self.unused.push(at);
        self.in_flight -= 1;
        if let Some(next) = self.waiting.pop_front() {
            self.fetch_request(now, next);
        }
    }

    /// Finds the entry of the mapping table for an operation, which goes on once it is in memory.
    pub(super) fn translate(&mut self, id: flash::Id) {
        let Some(mapping) = &mut self.mapping else {
            return self.assign_page(id);
        };
        let page = self.ftl.geometry.logical_page(self.flash.operation(id).slot) as u32;
        let mut stores = std::mem::take(&mut self.stores);
        let lookup = mapping.look_up(page, id, &mut stores);
        for page in stores.drain(..) {
            self.store_mapping(page);
        }
        self.stores = stores;
        match lookup {
            super::mapping::Lookup::Known => self.assign_page(id),
            super::mapping::Lookup::Waits => (),
            super::mapping::Lookup::Load(page) => self.load_mapping(page),
        }
    }

    fn load_mapping(&mut self, page: u32) {
        self.counters.mapping_pages_read += 1;
        let slot = self.ftl.geometry.mapping_slot(u64::from(page));
        let mut operation = Operation::new(Purpose::LoadMapping { page }, Command::Read, slot);
        operation.bytes = self.parameters.sector_bytes;
        let id = self.flash.add_operation(operation);
        self.assign_page(id);
    }

    fn store_mapping(&mut self, page: u32) {
        self.counters.mapping_pages_written += 1;
        let slot = self.ftl.geometry.mapping_slot(u64::from(page));
        let mut operation = Operation::new(Purpose::StoreMapping { page }, Command::Program, slot);
        // Some of its entries at least have changed, and the others are read first.
        operation.sectors = 1;
        let id = self.flash.add_operation(operation);
        self.assign_page(id);
    }
}

//! A NAND flash SSD.
//!
//! Requests come over a link into the drive; writes go to a write buffer, or wait for the flash. A flash translation layer
//! maps logical pages to physical ones; garbage collection frees blocks. Channels, chips, dies and planes of the flash work
//! at the same time, each as fast as [`Parameters`] say. What is modelled, and the names, follow MQSim (Tavakkol et al.,
//! FAST 2018). `examples/ssd_trace.rs` runs a trace and prints response times.
//!
//! Not modelled: errors and their correction, wear-out, several namespaces or streams, what the drive does when idle.
//!
//! Memory grows with what is written: tables of 12 bytes for each page of flash are reserved, but not used before. A
//! command's energy counts as a whole when the command starts.

mod buffer;
mod bus;
mod collection;
mod events;
mod flash;
mod ftl;
mod geometry;
mod mapping;
mod parameters;
mod precondition;
mod requests;
mod writes;

pub use self::parameters::{
    Allocation, CWDP, Dimension, PDWC, Parameters, Power, Priority, Victim, parse_allocation,
};
pub use self::precondition::Fill;

use std::collections::VecDeque;

use self::buffer::Buffer;
use self::bus::Bus;
use self::collection::Cleaning;
use self::events::{Event, Events};
use self::flash::{Flash, Purpose};
use self::ftl::Ftl;
use self::mapping::MappingCache;
use self::requests::Pending;
use crate::bounds::InvalidParameter;
use crate::random::Random;
use crate::{Completion, Device, Id, Nanos, Request};

/// What an SSD has done since it was made, preconditioning not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Pages that requests have written to flash.
    pub host_pages_written: u64,
    /// Pages that requests have read from flash.
    pub host_pages_read: u64,
    /// Pages read from flash to fill up pages of which a request writes a part.
    pub pages_filled: u64,
    /// Pages programmed, for any reason.
    pub pages_programmed: u64,
    /// Pages that garbage collection has moved.
    pub pages_moved: u64,
    /// Blocks erased.
    pub erases: u64,
    /// Pages of the mapping table read from flash because an entry wasn't in memory.
    pub mapping_pages_read: u64,
    /// Pages of the mapping table written to flash.
    pub mapping_pages_written: u64,
    /// Writes of a page that had to wait because its plane was full.
    pub stalls: u64,
}

impl Counters {
    /// Pages programmed for each page that requests have written. None before the first.
    #[must_use]
    pub fn write_amplification(&self) -> Option<f64> {
        (self.host_pages_written > 0).then(|| self.pages_programmed as f64 / self.host_pages_written as f64)
    }
}

/// A simulated SSD.
#[derive(Clone, Debug)]
pub struct Ssd {
    parameters: Parameters,
    ftl: Ftl,
    flash: Flash,
    buffer: Buffer,
    mapping: Option<MappingCache>,
    events: Events,
    random: Random,
    counters: Counters,

    /// To the drive and from it. A half-duplex link is the first one alone.
    links: [Bus; 2],
    memory: Bus,
    requests: Vec<Pending>,
    unused: Vec<u32>,
    /// Requests that wait because the queue of the drive is full.
    waiting: VecDeque<u32>,
    in_flight: u32,
    /// Completions on their way to the host, in the order in which they arrive.
    leaving: VecDeque<(Completion, u32)>,

    /// By plane, what garbage collection does.
    cleaning: Vec<Option<Cleaning>>,
    /// By plane, writes that wait for a free block.
    stalled: Vec<VecDeque<flash::Id>>,
    is_preconditioned: bool,
    done: Vec<flash::Id>,
    stores: Vec<u32>,
}

impl Ssd {
    /// An SSD on which nothing was written.
    ///
    /// # Errors
    /// If a parameter makes no sense.
    pub fn new(parameters: Parameters) -> Result<Self, InvalidParameter> {
        parameters.validate()?;
        let ftl = Ftl::new(&parameters);
        let planes = ftl.geometry.planes as usize;
        let link = Bus::new(parameters.link_rate_bytes_per_s, 0);
        Ok(Self {
            flash: Flash::new(&parameters, &ftl.geometry),
            buffer: Buffer::new(parameters.write_buffer_bytes),
            mapping: parameters
                .mapping_cache_entries
                .map(|entries| MappingCache::new(entries, parameters.mapping_entries_per_page())),
            events: Events::default(),
            random: Random::new(parameters.seed),
            counters: Counters::default(),
            links: [link.clone(), link],
            memory: Bus::new(parameters.buffer_rate_bytes_per_s, parameters.buffer_access_ns),
            requests: Vec::new(),
            unused: Vec::new(),
            waiting: VecDeque::new(),
            in_flight: 0,
            leaving: VecDeque::new(),
            cleaning: vec![None; planes],
            stalled: vec![VecDeque::new(); planes],
            is_preconditioned: false,
            done: Vec::new(),
            stores: Vec::new(),
            ftl,
            parameters,
        })
    }

    /// What it is made of.
    #[must_use]
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// What it has done.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    fn handle_event(&mut self, now: Nanos, event: Event) {
        match event {
            Event::Arrival(request) => self.start_request(now, request),
            Event::Buffer(request) => self.finish_part(now, request),
            Event::Channel(channel) => {
                let read = self.flash.finish_transfer(channel, now, &self.ftl.geometry, &mut self.events);
                if let Some(id) = read {
                    self.finish_operation(now, id);
                }
            }
            Event::Unit(unit) => {
                let mut done = std::mem::take(&mut self.done);
                self.flash.finish_command(unit, now, &self.ftl.geometry, &mut self.events, &mut done);
                for id in done.drain(..) {
                    self.finish_operation(now, id);
                }
                self.done = done;
            }
        }
        self.flash.start_commands(now, &self.ftl.geometry, &mut self.events);
    }

    /// An operation of the flash is done.
    fn finish_operation(&mut self, now: Nanos, id: flash::Id) {
        let operation = *self.flash.operation(id);
        match operation.purpose {
            Purpose::Read { request } => {
                self.flash.remove_operation(id);
                self.finish_part(now, request);
            }
            Purpose::Fill { write } => {
                self.flash.remove_operation(id);
                self.flash.queue_operation(write, &self.ftl.geometry);
            }
            Purpose::Write { request } => self.finish_write(now, id, request),
            Purpose::Fetch => self.move_page(id),
            Purpose::Move => self.finish_move(id),
            Purpose::Erase => self.finish_erase(id),
            Purpose::LoadMapping { page } => {
                self.flash.remove_operation(id);
                let waiting: Vec<_> = self
                    .mapping
                    .as_mut()
                    .map(|mapping| mapping.finish_load(page).collect())
                    .unwrap_or_default();
                for id in waiting {
                    self.assign_page(id);
                }
            }
            Purpose::StoreMapping { page } => {
                if let Some(mapping) = &mut self.mapping {
                    mapping.finish_store(page);
                }
                self.finish_program(id);
            }
        }
    }
}

impl Device for Ssd {
    fn capacity(&self) -> u64 {
        self.parameters.capacity()
    }

    fn submit(&mut self, now: Nanos, id: Id, request: Request) {
        self.accept_request(now, id, request);
    }

    fn next_event(&self) -> Option<Nanos> {
        let leaving = self.leaving.front().map(|(completion, _)| completion.done);
        [leaving, self.events.next_time()].into_iter().flatten().min()
    }

    fn advance(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        while let Some(next) = self.next_event().filter(|&next| next <= now) {
            match self.leaving.front() {
                Some(&(completion, request)) if completion.done == next => {
                    self.leaving.pop_front();
                    completions.push(completion);
                    self.release_request(next, request);
                }
                _ => {
                    if let Some((at, event)) = self.events.pop() {
                        self.handle_event(at, event);
                    }
                }
            }
        }
    }

    fn energy(&self, now: Nanos) -> Option<f64> {
        let idle = self.parameters.power?.idle_w * now as f64;
        Some((idle + self.flash.energy()) / 1e9)
    }
}

#[cfg(test)]
mod tests;

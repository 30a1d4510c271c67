//! The flash array in time: channels that transfer commands and data, and units that execute commands.
//!
//! A unit is a die, or a chip where dies don't work at the same time. Operations wait in queues by plane and class. When a
//! channel is free, data of finished reads goes first, then the next unit in turn that can start a command: of the class
//! that goes first the oldest operation, and with it those at the same page offset in other planes of the die. Because of
//! these, as in MQSim, pages of a block are not always programmed in order.

use std::collections::VecDeque;

use super::bus::transfer_time;
use super::events::{Event, Events};
use super::geometry::{Geometry, Page, Plane};
use super::parameters::{Parameters, Priority};
use crate::Nanos;

/// Place of an operation in the table of operations.
pub(super) type Id = u32;
/// No operation.
pub(super) const NO_ID: Id = Id::MAX;

/// What an operation does in flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Read,
    Program,
    /// Read a page and program it to another of the plane.
    CopyBack,
    Erase,
}

/// What an operation is for, and what it leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A read of a request.
    Read { request: u32 },
    /// A read of what a partial write keeps of a page.
    Fill { write: Id },
    /// A write of a request. None if the write buffer has answered it.
    Write { request: Option<u32> },
    /// A read of a page that garbage collection moves.
    Fetch,
    /// A write of such a page.
    Move,
    /// Erasing a block that garbage collection has emptied.
    Erase,
    /// A read of a page of the mapping table, by its number, that operations wait for.
    LoadMapping { page: u32 },
    /// A write of a page of the mapping table, by its number.
    StoreMapping { page: u32 },
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Operation {
    pub purpose: Purpose,
    pub command: Command,
    /// Physical page it reads or programs, or the first of the block it erases.
    pub page: Page,
    /// Slot of the data. Of no meaning if it erases.
    pub slot: u32,
    /// Sectors of the slot that it transfers, one bit each.
    pub sectors: u32,
    /// Bytes over the channel.
    pub bytes: u32,
    /// Number of a write in the write buffer.
    pub ticket: u64,
    /// Whether a unit has begun it.
    pub started: bool,
    /// When it was queued, as a number.
    order: u64,
    /// Next in the queue.
    next: Id,
}

impl Operation {
    pub fn new(purpose: Purpose, command: Command, slot: u32) -> Self {
        Self {
            purpose,
            command,
            page: Page::MAX,
            slot,
            sectors: 0,
            bytes: 0,
            ticket: 0,
            started: false,
            order: 0,
            next: NO_ID,
        }
    }
}

/// Class of operations; requests and garbage collection take turns by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Mapping,
    Read,
    Write,
    Fetch,
    Move,
    Erase,
}

const CLASSES: usize = 6;
/// Reads of the mapping table always go first: others wait for them.
const REQUESTS_FIRST: [Class; CLASSES] =
    [Class::Mapping, Class::Read, Class::Write, Class::Fetch, Class::Move, Class::Erase];
const COLLECTION_FIRST: [Class; CLASSES] =
    [Class::Mapping, Class::Fetch, Class::Move, Class::Erase, Class::Read, Class::Write];
/// Classes at the front of [`REQUESTS_FIRST`] that may interrupt others.
const READS: usize = 2;
/// Classes at the front of [`COLLECTION_FIRST`] that go on while a block is cleaned.
const COLLECTION: usize = 4;

impl Class {
    fn of(purpose: Purpose) -> Self {
        match purpose {
            Purpose::LoadMapping { .. } => Self::Mapping,
            Purpose::Read { .. } | Purpose::Fill { .. } => Self::Read,
            Purpose::Write { .. } | Purpose::StoreMapping { .. } => Self::Write,
            Purpose::Fetch => Self::Fetch,
            Purpose::Move => Self::Move,
            Purpose::Erase => Self::Erase,
        }
    }
}

/// Operations of another plane that are considered for a command. Those at the same page offset are seldom farther away.
const LOOK_AHEAD: usize = 64;

#[derive(Clone, Copy, Debug)]
struct Queue {
    first: Id,
    last: Id,
}

/// A command that a unit executes.
#[derive(Clone, Debug, Default)]
struct Active {
    operations: Vec<Id>,
    ends: Nanos,
}

#[derive(Clone, Debug, Default)]
struct Unit {
    /// Operations in its queues, by class.
    queued: [u32; CLASSES],
    active: Active,
    /// Whether it executes `active`. If not, but `active` has operations, their data waits for the channel.
    executing: bool,
    /// What a read has interrupted; `ends` is then the time it still needs.
    suspended: Option<Active>,
    /// Its planes that garbage collection cleans.
    cleaning: u32,
    /// Its planes in which writes stall.
    stalled: u32,
}

impl Unit {
    /// Whether reads wait that may interrupt others.
    fn has_reads(&self) -> bool {
        REQUESTS_FIRST[..READS].iter().any(|&class| self.queued[class as usize] > 0)
    }
}

#[derive(Clone, Debug, Default)]
struct Channel {
    busy: bool,
    /// Read whose data it transfers.
    transfer: Option<Id>,
    /// Reads whose data waits: of the mapping table, of requests and of garbage collection.
    outgoing: [VecDeque<Id>; 3],
    /// Unit of the channel that is looked at next.
    turn: u32,
}

/// Power of a plane that executes a command.
#[derive(Clone, Copy, Debug, Default)]
struct Watts {
    read: f64,
    program: f64,
    erase: f64,
}

#[derive(Clone, Debug)]
pub(super) struct Flash {
    parameters: Parameters,
    watts: Watts,
    operations: Vec<Operation>,
    unused: Vec<Id>,
    queued: u64,
    /// By plane and class.
    queues: Vec<[Queue; CLASSES]>,
    units: Vec<Unit>,
    channels: Vec<Channel>,
    /// Channels to look at before time goes on, one bit each.
    awake: u64,
    /// Energy of the commands started so far, in nanojoules.
    energy: f64,
    chosen: Vec<Id>,
}

impl Flash {
    pub fn new(parameters: &Parameters, geometry: &Geometry) -> Self {
        let units = geometry.channels * geometry.units_per_channel;
        let watts = parameters.power.map_or_else(Watts::default, |power| Watts {
            read: power.read_w,
            program: power.program_w,
            erase: power.erase_w,
        });
        Self {
            parameters: parameters.clone(),
            watts,
            operations: Vec::new(),
            unused: Vec::new(),
            queued: 0,
            queues: vec![[Queue { first: NO_ID, last: NO_ID }; CLASSES]; geometry.planes as usize],
            units: vec![Unit::default(); units as usize],
            channels: vec![Channel::default(); geometry.channels as usize],
            awake: 0,
            energy: 0.0,
            chosen: Vec::new(),
        }
    }

    /// Energy of all commands started, in nanojoules.
    pub fn energy(&self) -> f64 {
        self.energy
    }

    pub fn add_operation(&mut self, operation: Operation) -> Id {
        match self.unused.pop() {
            Some(id) => {
                self.operations[id as usize] = operation;
                id
            }
            None => {
                self.operations.push(operation);
                (self.operations.len() - 1) as Id
            }
        }
    }

    /// Forgets an operation that is done.
    pub fn remove_operation(&mut self, id: Id) {
        self.unused.push(id);
    }

    pub fn operation(&self, id: Id) -> &Operation {
        &self.operations[id as usize]
    }

    pub fn operation_mut(&mut self, id: Id) -> &mut Operation {
        &mut self.operations[id as usize]
    }

    /// Lets an operation wait for its unit. Its page and bytes are known.
    pub fn queue_operation(&mut self, id: Id, geometry: &Geometry) {
        let operation = &mut self.operations[id as usize];
        operation.order = self.queued;
        operation.next = NO_ID;
        self.queued += 1;
        let plane = geometry.plane_of_block(geometry.block_of_page(operation.page));
        let class = Class::of(operation.purpose) as usize;
        let queue = &mut self.queues[plane as usize][class];
        if queue.first == NO_ID {
            queue.first = id;
        } else {
            self.operations[queue.last as usize].next = id;
        }
        queue.last = id;
        let unit = geometry.unit_of_plane(plane);
        self.units[unit as usize].queued[class] += 1;
        self.awake |= 1 << geometry.channel_of_unit(unit);
    }

    /// Garbage collection of a plane begins or ends.
    pub fn set_cleaning(&mut self, plane: Plane, cleaning: bool, geometry: &Geometry) {
        let unit = geometry.unit_of_plane(plane);
        let count = &mut self.units[unit as usize].cleaning;
        *count = if cleaning { *count + 1 } else { *count - 1 };
        self.awake |= 1 << geometry.channel_of_unit(unit);
    }

    /// Writes to a plane begin or cease to stall.
    pub fn set_stalled(&mut self, plane: Plane, stalled: bool, geometry: &Geometry) {
        let unit = geometry.unit_of_plane(plane);
        let count = &mut self.units[unit as usize].stalled;
        *count = if stalled { *count + 1 } else { *count - 1 };
        self.awake |= 1 << geometry.channel_of_unit(unit);
    }

    /// A channel has transferred. Returns the read whose data it was.
    pub fn finish_transfer(
        &mut self,
        index: u32,
        now: Nanos,
        geometry: &Geometry,
        events: &mut Events,
    ) -> Option<Id> {
        let channel = &mut self.channels[index as usize];
        channel.busy = false;
        self.awake |= 1 << index;
        let id = channel.transfer.take()?;
        let page = self.operations[id as usize].page;
        let unit = geometry.unit_of_plane(geometry.plane_of_block(geometry.block_of_page(page)));
        let waiting = &mut self.units[unit as usize].active.operations;
        waiting.retain(|&other| other != id);
        if waiting.is_empty() {
            self.resume_suspended(unit, now, events);
        }
        Some(id)
    }

    /// A unit may have executed its command. Programs, copies and erases that are done by it are appended to `done`; reads
    /// go on to the channel.
    pub fn finish_command(
        &mut self,
        index: u32,
        now: Nanos,
        geometry: &Geometry,
        events: &mut Events,
        done: &mut Vec<Id>,
    ) {
        let unit = &mut self.units[index as usize];
        // A suspended command leaves its event behind.
        if !unit.executing || unit.active.ends != now {
            return;
        }
        unit.executing = false;
        let channel = geometry.channel_of_unit(index);
        self.awake |= 1 << channel;
        let first = &self.operations[unit.active.operations[0] as usize];
        if first.command == Command::Read {
            let queue = match Class::of(first.purpose) {
                Class::Mapping => 0,
                Class::Fetch => 2,
                _ => 1,
            };
            self.channels[channel as usize].outgoing[queue].extend(&unit.active.operations);
        } else {
            done.append(&mut unit.active.operations);
            self.resume_suspended(index, now, events);
        }
    }

    /// Goes on with a suspended command if no read waits any more.
    fn resume_suspended(&mut self, index: u32, now: Nanos, events: &mut Events) {
        let unit = &mut self.units[index as usize];
        if unit.has_reads() {
            return;
        }
        if let Some(mut active) = unit.suspended.take() {
            active.ends += now;
            events.add(active.ends, Event::Unit(index));
            unit.active = active;
            unit.executing = true;
        }
    }

    /// Starts all that can start now.
    pub fn start_commands(&mut self, now: Nanos, geometry: &Geometry, events: &mut Events) {
        while self.awake != 0 {
            let index = self.awake.trailing_zeros();
            self.awake &= self.awake - 1;
            if !self.channels[index as usize].busy {
                self.start_channel(index, now, geometry, events);
            }
        }
    }

    fn start_channel(&mut self, index: u32, now: Nanos, geometry: &Geometry, events: &mut Events) {
        let channel = &mut self.channels[index as usize];
        let outgoing = channel.outgoing.iter_mut().find_map(VecDeque::pop_front);
        if let Some(id) = outgoing {
            let bytes = u64::from(self.operations[id as usize].bytes);
            channel.transfer = Some(id);
            channel.busy = true;
            events.add(
                now + transfer_time(bytes, self.parameters.channel_rate_bytes_per_s),
                Event::Channel(index),
            );
            return;
        }
        for _ in 0..geometry.units_per_channel {
            let channel = &mut self.channels[index as usize];
            let unit = index * geometry.units_per_channel + channel.turn;
            channel.turn = (channel.turn + 1) % geometry.units_per_channel;
            if let Some(free_at) = self.start_unit(unit, now, geometry, events) {
                self.channels[index as usize].busy = true;
                events.add(free_at, Event::Channel(index));
                return;
            }
        }
    }

    /// Starts the next command of a unit, if there is one and it can. Returns when the channel has transferred it.
    fn start_unit(
        &mut self,
        index: u32,
        now: Nanos,
        geometry: &Geometry,
        events: &mut Events,
    ) -> Option<Nanos> {
        let unit = &mut self.units[index as usize];
        if unit.queued == [0; CLASSES] {
            return None;
        }
        let suspension = if unit.active.operations.is_empty() { 0 } else { self.suspend_active(index, now)? };
        let unit = &self.units[index as usize];
        let is_exclusive = self.parameters.gc_priority == Priority::Exclusive;
        let classes = if unit.suspended.is_some() {
            &REQUESTS_FIRST[..READS]
        } else if is_exclusive && unit.cleaning > 0 {
            &COLLECTION_FIRST[..COLLECTION]
        } else if is_exclusive || unit.stalled > 0 {
            &COLLECTION_FIRST[..]
        } else {
            &REQUESTS_FIRST[..]
        };
        let class = *classes.iter().find(|&&class| unit.queued[class as usize] > 0)?;
        self.choose_operations(index, class, geometry);
        let (mut transfer, mut execution) = (suspension, 0);
        let chosen = std::mem::take(&mut self.chosen);
        for (at, &id) in chosen.iter().enumerate() {
            let operation = self.operations[id as usize];
            let (on_channel, in_plane) = self.operation_times(&operation, geometry);
            transfer += on_channel;
            // The first command of several is as long as one alone; the others add less.
            if at > 0 {
                transfer = transfer - self.command_time(operation.command) + self.parameters.plane_command_ns;
            }
            execution = execution.max(in_plane);
        }
        let unit = &mut self.units[index as usize];
        unit.active.operations.extend_from_slice(&chosen);
        unit.active.ends = now + transfer + execution;
        unit.executing = true;
        events.add(unit.active.ends, Event::Unit(index));
        self.chosen = chosen;
        Some(now + transfer)
    }

    /// Suspends what a unit executes so that a read can start, and returns the time that takes. None if it can't.
    fn suspend_active(&mut self, index: u32, now: Nanos) -> Option<Nanos> {
        let is_exclusive = self.parameters.gc_priority == Priority::Exclusive;
        let unit = &mut self.units[index as usize];
        let is_cleaning = is_exclusive && unit.cleaning > 0;
        if !unit.executing || unit.suspended.is_some() || is_cleaning || !unit.has_reads() {
            return None;
        }
        let time = match self.operations[unit.active.operations[0] as usize].command {
            Command::Program => self.parameters.suspend_program_ns,
            Command::Erase => self.parameters.suspend_erase_ns,
            Command::Read | Command::CopyBack => None,
        }?;
        // What is almost over isn't worth suspending.
        let left = unit.active.ends.checked_sub(now).filter(|&left| left > time)?;
        let mut active = std::mem::take(&mut unit.active);
        active.ends = left;
        unit.suspended = Some(active);
        unit.executing = false;
        Some(time)
    }

    /// Takes the oldest operation of a class from the queues of a unit into `chosen`, and those that go with it.
    fn choose_operations(&mut self, index: u32, class: Class, geometry: &Geometry) {
        self.chosen.clear();
        let first_plane = index * geometry.planes_per_unit;
        let planes = first_plane..first_plane + geometry.planes_per_unit;
        let head = |queues: &[[Queue; CLASSES]], plane: Plane| {
            let first = queues[plane as usize][class as usize].first;
            (first != NO_ID).then_some(first)
        };
        let oldest = planes
            .filter_map(|plane| Some((self.operations[head(&self.queues, plane)? as usize].order, plane)))
            .min();
        let Some((_, oldest)) = oldest else { return };
        let id = self.dequeue(oldest, class, index);
        self.chosen.push(id);
        if !self.parameters.multi_plane || geometry.planes_per_die == 1 {
            return;
        }
        let offset = geometry.offset(self.operations[id as usize].page);
        let die = oldest / geometry.planes_per_die * geometry.planes_per_die;
        for plane in (die..die + geometry.planes_per_die).filter(|&plane| plane != oldest) {
            if let Some(id) = self.dequeue_at_offset(plane, class, index, offset, geometry) {
                self.chosen.push(id);
            }
        }
    }

    fn dequeue(&mut self, plane: Plane, class: Class, unit: u32) -> Id {
        let first = self.queues[plane as usize][class as usize].first;
        self.unlink(plane, class, unit, NO_ID, first);
        first
    }

    /// Takes the first operation at a page offset out of a queue, if one is near its front.
    fn dequeue_at_offset(
        &mut self,
        plane: Plane,
        class: Class,
        unit: u32,
        offset: u32,
        geometry: &Geometry,
    ) -> Option<Id> {
        let (mut before, mut id) = (NO_ID, self.queues[plane as usize][class as usize].first);
        for _ in 0..LOOK_AHEAD {
            let operation = self.operations.get(id as usize)?;
            if geometry.offset(operation.page) == offset {
                self.unlink(plane, class, unit, before, id);
                return Some(id);
            }
            (before, id) = (id, operation.next);
        }
        None
    }

    /// Takes an operation out of a queue, given the one before it.
    fn unlink(&mut self, plane: Plane, class: Class, unit: u32, before: Id, id: Id) {
        let operation = &mut self.operations[id as usize];
        operation.started = true;
        let next = operation.next;
        let queue = &mut self.queues[plane as usize][class as usize];
        if queue.last == id {
            queue.last = before;
        }
        match before {
            NO_ID => queue.first = next,
            _ => self.operations[before as usize].next = next,
        }
        self.units[unit as usize].queued[class as usize] -= 1;
    }

    fn command_time(&self, command: Command) -> Nanos {
        match command {
            Command::Read => self.parameters.read_command_ns,
            Command::Program => self.parameters.program_command_ns,
            Command::CopyBack => self.parameters.read_command_ns + self.parameters.program_command_ns,
            Command::Erase => self.parameters.erase_command_ns,
        }
    }

    /// Times of an operation on the channel and in its plane. Its energy is spent.
    fn operation_times(&mut self, operation: &Operation, geometry: &Geometry) -> (Nanos, Nanos) {
        let by_type = |times: &[Nanos]| times[geometry.offset(operation.page) as usize % times.len()];
        let (read, program, erase) = match operation.command {
            Command::Read => (by_type(&self.parameters.read_ns), 0, 0),
            Command::Program => (0, by_type(&self.parameters.program_ns), 0),
            Command::CopyBack => (by_type(&self.parameters.read_ns), by_type(&self.parameters.program_ns), 0),
            Command::Erase => (0, 0, self.parameters.erase_ns),
        };
        self.energy += read as f64 * self.watts.read
            + program as f64 * self.watts.program
            + erase as f64 * self.watts.erase;
        let data = match operation.command {
            Command::Program => {
                transfer_time(u64::from(operation.bytes), self.parameters.channel_rate_bytes_per_s)
            }
            _ => 0,
        };
        (self.command_time(operation.command) + data, read + program + erase)
    }
}

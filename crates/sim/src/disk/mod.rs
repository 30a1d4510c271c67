//! A hard disk: heads, rotation, read and write cache, queue.
//!
//! The model follows Ruemmler and Wilkes, "An introduction to disk drive modeling" (IEEE Computer 27(3), 1994): a request takes
//! the time of its command, a seek, the wait until the platter has turned to its first sector, and the transfer at the rate
//! of the zone, with switches of head and cylinder. The platter's angle follows from the time alone, so that each rotational
//! delay does. Two things work at once: the medium, that is heads and platter, and the bus, which serves hits while the medium
//! is busy. Not modelled: remapped sectors, retries, recalibration, a transfer that waits for the bus of another device.
//!
//! The queue admits requests up to its depth in the order of arrival. A read that memory holds and a write that it takes are
//! served at once; for the medium, the scheduler chooses among the others. A flush waits for all before it and holds up all
//! after it, as FLUSH CACHE does in ATA (T13/2161-D, ATA/ATAPI Command Set 3, 7.10).

mod dirty;
mod geometry;
mod medium;
mod parameters;
mod schedule;
mod seek;
mod segments;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::ops::Range;

pub use self::parameters::{Bus, Parameters, Power, ReadCache, Scheduler, WriteCache, Zone};
pub use self::seek::{Seek, SeekCurve, SeekPoint};

use self::dirty::Dirty;
use self::geometry::{Geometry, Sector};
use self::medium::{Busy, Medium};
use self::segments::Segments;
use crate::bounds::InvalidParameter;
use crate::device::{Completion, Device, Id, Nanos, Op, Request};

/// A hard disk in virtual time.
#[derive(Clone, Debug)]
pub struct Disk {
    parameters: Parameters,
    geometry: Geometry,
    /// Until when everything is done.
    clock: Nanos,

    /// Not admitted yet, in the order of arrival.
    waiting: VecDeque<Job>,
    /// Admitted, for the medium, in the order of arrival.
    queue: VecDeque<Job>,
    /// Admitted writes for which the write cache has no room.
    stalled: VecDeque<Job>,
    /// The flush that destages.
    flushing: Option<Job>,
    /// Admitted and not completed.
    outstanding: u32,
    /// Served; completed when their time comes.
    due: BinaryHeap<Reverse<Due>>,
    /// Of them those that were not reported yet.
    certain: Vec<Completion>,
    served: u64,

    segments: Segments,
    dirty: Dirty,
    bus_free_at: Nanos,
    medium: Medium,
    /// Where the heads are, or will be when the medium is free.
    track: u64,
    /// The sector after the last one transferred.
    position: Sector,
    /// A destage is next where destages and requests take turns.
    destage_next: bool,
    /// When a request last arrived or the medium was last done with one.
    idle_since: Nanos,
    busy: Busy,
}

/// A request in the disk.
#[derive(Clone, Debug)]
struct Job {
    id: Id,
    op: Op,
    sectors: Range<Sector>,
    length: u64,
    arrived: Nanos,
    admitted: Nanos,
}

/// When a request is done, which makes room in the queue.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    done: Nanos,
    /// Tells apart those of the same time.
    order: u64,
}

impl Disk {
    /// A disk with empty caches, whose heads are on the first track.
    ///
    /// # Errors
    /// Parameters that no disk has.
    pub fn new(parameters: Parameters) -> Result<Self, InvalidParameter> {
        parameters.validate()?;
        let sector_bytes = u64::from(parameters.sector_bytes);
        let (segments, segment_sectors) = parameters
            .read_cache
            .map_or((0, 0), |cache| (cache.segments as usize, cache.segment_bytes / sector_bytes));
        Ok(Self {
            geometry: Geometry::new(&parameters),
            clock: 0,
            waiting: VecDeque::new(),
            queue: VecDeque::new(),
            stalled: VecDeque::new(),
            flushing: None,
            outstanding: 0,
            due: BinaryHeap::new(),
            certain: Vec::new(),
            served: 0,
            segments: Segments::new(segments, segment_sectors),
            dirty: Dirty::default(),
            bus_free_at: 0,
            medium: Medium::Idle,
            track: 0,
            position: 0,
            destage_next: false,
            idle_since: 0,
            busy: Busy::default(),
            parameters,
        })
    }

    /// Bytes of the write cache in sectors, 0 without one.
    fn write_cache_sectors(&self) -> u64 {
        self.parameters
            .write_cache
            .map_or(0, |cache| cache.size_bytes / u64::from(self.parameters.sector_bytes))
    }

    /// Time of a transfer over the bus.
    fn transfer(&self, bytes: u64) -> Nanos {
        let rate = self.parameters.bus.rate_bytes_per_s;
        match bytes.checked_mul(1_000_000_000) {
            Some(product) => product / rate,
            // Over 18 GB; at most 36 years.
            None => (u128::from(bytes) * 1_000_000_000 / u128::from(rate)).min(1 << 60) as Nanos,
        }
    }

    /// Admits requests up to the queue's depth, and starts or completes a flush.
    fn admit(&mut self, now: Nanos) {
        while self.outstanding < self.parameters.queue_depth && self.flushing.is_none() {
            let Some(next) = self.waiting.front() else { break };
            if next.op == Op::Flush && self.outstanding > 0 {
                break;
            }
            let Some(mut job) = self.waiting.pop_front() else { break };
            job.admitted = now;
            self.outstanding += 1;
            self.accept(job, now);
        }
        if self.dirty.sectors == 0
            && self.medium.destaging().is_empty()
            && let Some(flush) = self.flushing.take()
        {
            self.complete(&flush, now, now + self.parameters.bus.write_hit_ns, false);
        }
    }

    /// Serves an admitted request from memory, or puts it where it waits.
    fn accept(&mut self, job: Job, now: Nanos) {
        match job.op {
            Op::Read => {
                if !self.serve_read(&job, now) {
                    self.queue.push_back(job);
                }
            }
            Op::Write if job.sectors.end - job.sectors.start <= self.write_cache_sectors() => {
                if !(self.stalled.is_empty() && self.serve_write(&job, now)) {
                    self.stalled.push_back(job);
                }
            }
            Op::Write => self.queue.push_back(job),
            Op::Trim => {
                self.dirty.remove(&job.sectors);
                self.complete_on_bus(&job, now, 0, self.parameters.bus.write_hit_ns, now);
            }
            Op::Flush => self.flushing = Some(job),
        }
    }

    /// Serves a read if memory has it, or if the read-ahead in progress brings it.
    fn serve_read(&mut self, job: &Job, now: Nanos) -> bool {
        let Range { start, end } = job.sectors;
        let available = if job.sectors.is_empty() || self.dirty.covers(&job.sectors) {
            Some(now)
        } else {
            let destaging = self.medium.destaging();
            let destaged = destaging.start <= start && end <= destaging.end;
            if destaged { Some(now) } else { self.read_available(start, end, now) }
        };
        let Some(available) = available else { return false };
        self.complete_on_bus(job, now, job.length, self.parameters.bus.read_hit_ns, available);
        true
    }

    /// Takes a write into the cache if there is room.
    fn serve_write(&mut self, job: &Job, now: Nanos) -> bool {
        let destaging = self.medium.destaging();
        let used = self.dirty.sectors + (destaging.end - destaging.start);
        let more = (job.sectors.end - job.sectors.start) - self.dirty.overlap(&job.sectors);
        if used + more > self.write_cache_sectors() {
            return false;
        }
        self.dirty.insert(job.sectors.clone());
        self.complete_on_bus(job, now, job.length, self.parameters.bus.write_hit_ns, now);
        true
    }

    /// Takes stalled writes into the cache as far as there is room.
    fn serve_stalled(&mut self, now: Nanos) {
        while let Some(job) = self.stalled.pop_front() {
            if !self.serve_write(&job, now) {
                self.stalled.push_front(job);
                break;
            }
        }
    }

    /// Completes a request over the bus after it is free. `available` is when the medium has delivered all data of a read.
    fn complete_on_bus(&mut self, job: &Job, now: Nanos, bytes: u64, overhead: Nanos, available: Nanos) {
        let issued = now.max(self.bus_free_at);
        let last = self.transfer(bytes.min(self.parameters.sector_bytes.into()));
        let done = (issued + overhead + self.transfer(bytes)).max(available + last);
        self.bus_free_at = done;
        self.complete(job, issued, done, available <= now);
    }

    fn complete(&mut self, job: &Job, issued: Nanos, done: Nanos, cached: bool) {
        self.served += 1;
        self.due.push(Reverse(Due { done, order: self.served }));
        self.certain.push(Completion { id: job.id, issued, done, cached });
    }

    /// Does what is due at a time, and starts what follows.
    fn step(&mut self, now: Nanos) {
        self.clock = now;
        while self.due.peek().is_some_and(|due| due.0.done <= now) {
            self.due.pop();
            self.outstanding -= 1;
        }
        self.settle(now);
        self.admit(now);
        self.dispatch(now);
        // A read that turned out to be in memory, or a write that got room, may have completed a flush's wait.
        self.admit(now);
    }
}

impl Device for Disk {
    fn capacity(&self) -> u64 {
        self.parameters.capacity_bytes
    }

    fn submit(&mut self, now: Nanos, id: Id, request: Request) {
        let (sector_bytes, sectors) = (u64::from(self.parameters.sector_bytes), self.geometry.sectors);
        let start = (request.pos / sector_bytes).min(sectors);
        let end = if request.length == 0 {
            start
        } else {
            request.pos.saturating_add(request.length).div_ceil(sector_bytes).clamp(start, sectors)
        };
        let (op, length) = (request.op, request.length);
        self.waiting.push_back(Job { id, op, sectors: start..end, length, arrived: now, admitted: now });
        self.clock = now;
        self.idle_since = now;
        self.admit(now);
        self.dispatch(now);
        self.admit(now);
    }

    fn next_event(&self) -> Option<Nanos> {
        let due = self.due.peek().map(|due| due.0.done);
        [due, self.next_of_medium()].into_iter().flatten().min()
    }

    fn advance(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        while let Some(next) = self.next_event().filter(|next| *next <= now) {
            self.step(next);
        }
        completions.append(&mut self.certain);
        self.clock = self.clock.max(now);
    }

    fn energy(&self, now: Nanos) -> Option<f64> {
        let power = self.parameters.power?;
        let busy = self.busy_until(now);
        let seconds = |time: Nanos| time as f64 / 1e9;
        Some(
            power.idle_w * seconds(now)
                + (power.seek_w - power.idle_w) * seconds(busy.seeking)
                + (power.transfer_w - power.idle_w) * seconds(busy.transferring),
        )
    }
}

#[cfg(test)]
mod tests;

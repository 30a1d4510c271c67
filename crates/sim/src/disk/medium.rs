//! Heads and platter: what they do now, when it ends, and what is in memory then.

use std::ops::Range;

use super::geometry::{Place, Sector};
use super::{Disk, Job};
use crate::device::{Nanos, Op};

/// What the medium does.
#[derive(Clone, Debug)]
pub(super) enum Medium {
    Idle,
    /// A transfer, which nothing interrupts.
    Transfer(Transfer),
    /// Reading further than was asked, until something else is to be done.
    Ahead(Ahead),
}

/// A transfer in progress.
#[derive(Clone, Debug)]
pub(super) struct Transfer {
    /// The heads move from here,
    seek_from: Nanos,
    /// to here.
    arrived: Nanos,
    /// Data passes from here,
    begun: Nanos,
    /// to here.
    done: Nanos,
    of: Of,
}

/// What a transfer is for.
#[derive(Clone, Debug)]
enum Of {
    /// A read of sectors, with all that were read for it.
    Read {
        asked: Range<Sector>,
        read: Range<Sector>,
    },
    Write,
    /// Writes from memory.
    Destage(Range<Sector>),
}

/// A read-ahead in progress.
#[derive(Clone, Debug)]
pub(super) struct Ahead {
    slot: usize,
    /// First sector, and when it passes.
    from: Place,
    begun: Nanos,
    /// It ends before this sector, at this time.
    limit: Sector,
    done: Nanos,
    /// Until then it reads what was asked, and isn't interrupted.
    held_until: Nanos,
    /// Sector from which all of the track is in memory when it ends.
    track_from: Option<Sector>,
}

/// Time spent so far on what takes more power than to rotate.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Busy {
    pub seeking: Nanos,
    pub transferring: Nanos,
}

impl Medium {
    /// The sectors that are on their way from the write cache.
    pub fn destaging(&self) -> Range<Sector> {
        match self {
            Self::Transfer(Transfer { of: Of::Destage(sectors), .. }) => sectors.clone(),
            _ => 0..0,
        }
    }

    /// Whether something else can start.
    pub fn is_free(&self, now: Nanos) -> bool {
        match self {
            Self::Idle => true,
            Self::Transfer(_) => false,
            Self::Ahead(ahead) => ahead.held_until <= now,
        }
    }

    pub fn is_idle(&self) -> bool {
        matches!(self, Self::Idle)
    }
}

impl Disk {
    /// When the medium's state changes next in a way that matters, if no request arrives.
    pub(super) fn next_of_medium(&self) -> Option<Nanos> {
        let work = !self.queue.is_empty() || self.dirty.sectors > 0;
        match &self.medium {
            Medium::Transfer(transfer) => Some(transfer.done),
            Medium::Ahead(ahead) if work && ahead.held_until > self.clock => Some(ahead.held_until),
            Medium::Ahead(ahead) if work => Some(ahead.done),
            Medium::Idle if self.dirty.sectors > 0 => Some(self.idle_destage_at()),
            Medium::Idle | Medium::Ahead(_) => None,
        }
    }

    /// Time to bring a head to a track at the start of a transfer.
    pub(super) fn positioning(&self, track: u64, write: bool) -> Nanos {
        if track == self.track {
            return 0;
        }
        let (from, to) = (self.geometry.cylinder(self.track), self.geometry.cylinder(track));
        let time = if from == to {
            self.parameters.head_switch_ns
        } else {
            self.parameters.seek.time(from.abs_diff(to) as f64 / self.geometry.cylinders as f64)
        };
        time + if write { self.parameters.write_settle_ns } else { 0 }
    }

    /// Brings the medium's state up to a time: what was read ahead, what is done.
    pub(super) fn settle(&mut self, now: Nanos) {
        match &self.medium {
            Medium::Idle => {}
            Medium::Transfer(transfer) => {
                if transfer.done <= now {
                    self.finish(now);
                }
            }
            Medium::Ahead(ahead) => {
                let (slot, finished, track_from) = (ahead.slot, ahead.done <= now, ahead.track_from);
                if let Some(since) = now.checked_sub(ahead.begun) {
                    let end = self.geometry.passed(ahead.from, since, ahead.limit);
                    self.segments.extend(slot, end);
                    self.position = end;
                    self.track = self.geometry.place(end.saturating_sub(1)).track;
                }
                if finished {
                    if let Some(first) = track_from {
                        self.segments.extend_front(slot, first);
                    }
                    self.stop_ahead(now);
                }
            }
        }
    }

    /// Ends the read-ahead, if there is one. What it has read is in memory already.
    fn stop_ahead(&mut self, now: Nanos) {
        if let Medium::Ahead(_) = self.medium {
            self.busy = self.busy_until(now);
            self.medium = Medium::Idle;
        }
    }

    /// Ends the transfer.
    fn finish(&mut self, now: Nanos) {
        self.busy = self.busy_until(now);
        let Medium::Transfer(transfer) = std::mem::replace(&mut self.medium, Medium::Idle) else { return };
        match transfer.of {
            Of::Read { asked, read } => {
                self.idle_since = transfer.done;
                if let Some(slot) = self.segments.store(read) {
                    self.read_ahead(slot, &asked, transfer.done, Some(transfer.arrived));
                }
            }
            Of::Write => self.idle_since = transfer.done,
            Of::Destage(_) => self.serve_stalled(now),
        }
    }

    /// Reads on after a read, as far as the parameters say, from the end of a segment. The heads came to the track of the
    /// read at `arrived`, if they had to.
    fn read_ahead(&mut self, slot: usize, asked: &Range<Sector>, now: Nanos, arrived: Option<Nanos>) {
        let from = self.segments.end(slot);
        let limit = self.read_ahead_limit(asked);
        let track_start = self.geometry.track_start(asked.end - 1);
        // A track that was read from its start needs no more turn.
        let track = arrived.filter(|_| track_start < asked.start && self.has_track_buffer());
        if from >= limit && track.is_none() {
            return;
        }
        let place = self.geometry.place(from);
        let switch = if place.track == self.track {
            0
        } else if place.track == self.track + 1 && self.geometry.is_same_cylinder(place.track, self.track) {
            self.parameters.head_switch_ns
        } else if place.track == self.track + 1 {
            self.parameters.cylinder_switch_ns
        } else {
            self.positioning(place.track, false)
        };
        let begun = now + switch + self.geometry.latency(now + switch, place);
        let passed = if from < limit { begun + self.geometry.elapsed_until(place, from, limit) } else { now };
        let done = passed.max(track.map_or(now, |arrived| arrived + self.geometry.revolution));
        let track_from = track.map(|_| track_start);
        self.medium =
            Medium::Ahead(Ahead { slot, from: place, begun, limit, done, held_until: now, track_from });
    }

    fn has_track_buffer(&self) -> bool {
        self.parameters.read_cache.is_some_and(|cache| cache.track_buffer)
    }

    /// Up to which sector the disk reads ahead of a request: no further than leaves the request in its segment.
    fn read_ahead_limit(&self, asked: &Range<Sector>) -> Sector {
        let Some(cache) = &self.parameters.read_cache else { return 0 };
        let sector_bytes = u64::from(self.parameters.sector_bytes);
        let mut ahead = asked.end.saturating_add(cache.read_ahead_bytes / sector_bytes);
        if cache.track_buffer {
            ahead = ahead.min(self.geometry.track_end(asked.end.saturating_sub(1)));
        }
        ahead.min(asked.start.saturating_add(cache.segment_bytes / sector_bytes)).min(self.geometry.sectors)
    }

    /// When sectors are in the read cache; None if the medium must be asked for them.
    pub(super) fn read_available(&mut self, start: Sector, end: Sector, now: Nanos) -> Option<Nanos> {
        self.settle_ahead(now);
        let slot = self.segments.find(start);
        let limit = self.read_ahead_limit(&(start..end));
        if let Medium::Ahead(ahead) = &mut self.medium {
            let held = self.segments.end(ahead.slot);
            if slot == Some(ahead.slot) || (held..=ahead.limit).contains(&start) {
                let first = self.geometry.sector(ahead.from);
                let elapsed = |end| self.geometry.elapsed_until(ahead.from, first, end);
                let available = if end <= held { now } else { ahead.begun + elapsed(end) };
                ahead.held_until = ahead.held_until.max(available);
                if ahead.limit < limit.max(end) {
                    // Further on, it doesn't come round the track.
                    ahead.track_from = None;
                    ahead.limit = limit.max(end);
                    ahead.done = ahead.begun + elapsed(ahead.limit);
                }
                self.segments.touch(ahead.slot);
                return Some(available);
            }
        }
        let slot = slot.filter(|slot| end <= self.segments.end(*slot))?;
        self.segments.touch(slot);
        let extends = self.parameters.read_cache.is_some_and(|cache| cache.read_ahead_on_hit);
        if extends && self.medium.is_idle() && self.queue.is_empty() {
            self.read_ahead(slot, &(start..end), now, None);
        }
        Some(now)
    }

    /// As `settle`, for the read-ahead alone.
    fn settle_ahead(&mut self, now: Nanos) {
        if let Medium::Ahead(_) = self.medium {
            self.settle(now);
        }
    }

    /// Time of a request's command before the heads move, as far as it is still to come.
    pub(super) fn ready(&self, job: &Job, now: Nanos) -> Nanos {
        let bus = &self.parameters.bus;
        now.max(job.admitted + if job.op == Op::Read { bus.read_ns } else { bus.write_ns })
    }

    /// Starts the transfer of a request that memory can't serve, on a free medium.
    pub(super) fn start(&mut self, job: &Job, now: Nanos) {
        let ready = self.ready(job, now);
        let done = if job.op == Op::Read {
            // What precedes may be in memory.
            let held = self.segments.find(job.sectors.start).map_or(0, |slot| self.segments.end(slot));
            let read = job.sectors.start.max(held.min(job.sectors.end - 1))..job.sectors.end;
            let (begun, done) = self.start_read(&job.sectors, read, ready);
            if self.parameters.bus.read_overlap {
                let sector_bytes = u64::from(self.parameters.sector_bytes);
                let last = done + self.transfer(job.length.min(sector_bytes));
                last.max(begun + self.transfer(job.length))
            } else {
                done + self.transfer(job.length)
            }
        } else {
            self.dirty.remove(&job.sectors);
            let data_at = ready + self.transfer(job.length);
            self.start_write(job.sectors.clone(), ready, data_at, Of::Write)
        };
        self.complete(job, now, done, false);
    }

    /// Starts to write a range from the write cache, on a free medium.
    pub(super) fn start_destage(&mut self, sectors: Range<Sector>, now: Nanos) {
        self.dirty.remove(&sectors);
        self.start_write(sectors.clone(), now, now, Of::Destage(sectors));
    }

    /// Times of the transfer's begin and end.
    fn start_read(&mut self, asked: &Range<Sector>, sectors: Range<Sector>, ready: Nanos) -> (Nanos, Nanos) {
        let (first, last) = (self.geometry.place(sectors.start), self.geometry.place(sectors.end - 1));
        let arrived = ready + self.positioning(first.track, false);
        let count = sectors.end - sectors.start;
        let (begun, done) = if self.parameters.zero_latency {
            (arrived, self.geometry.read_on_arrival(first, count, last, arrived))
        } else {
            let begun = arrived + self.geometry.latency(arrived, first);
            (begun, begun + self.geometry.elapsed(first, count, last))
        };
        let before = if self.has_track_buffer() { self.geometry.passing_before(first, arrived) } else { 0 };
        let read = sectors.start - before..sectors.end;
        let of = Of::Read { asked: asked.clone(), read };
        self.start_transfer(Transfer { seek_from: ready, arrived, begun, done, of }, last, sectors.end);
        (begun, done)
    }

    /// When a write is done. The data is in the disk's memory at `data_at`.
    fn start_write(&mut self, sectors: Range<Sector>, ready: Nanos, data_at: Nanos, of: Of) -> Nanos {
        if sectors.is_empty() {
            return data_at;
        }
        let (first, last) = (self.geometry.place(sectors.start), self.geometry.place(sectors.end - 1));
        let arrived = ready + self.positioning(first.track, true);
        let from = arrived.max(data_at);
        let begun = from + self.geometry.latency(from, first);
        let done = begun + self.geometry.elapsed(first, sectors.end - sectors.start, last);
        self.start_transfer(Transfer { seek_from: ready, arrived, begun, done, of }, last, sectors.end);
        done
    }

    fn start_transfer(&mut self, transfer: Transfer, last: Place, position: Sector) {
        self.stop_ahead(self.clock);
        self.medium = Medium::Transfer(transfer);
        self.track = last.track;
        self.position = position;
    }

    /// Time spent until now, that in progress included.
    pub(super) fn busy_until(&self, now: Nanos) -> Busy {
        let part = |from: Nanos, to: Nanos| now.min(to).saturating_sub(from);
        let (seeking, transferring) = match &self.medium {
            Medium::Idle => (0, 0),
            Medium::Transfer(Transfer { seek_from, arrived, begun, done, .. }) => {
                (part(*seek_from, *arrived), part(*begun, *done))
            }
            Medium::Ahead(ahead) => (0, part(ahead.begun, ahead.done)),
        };
        Busy { seeking: self.busy.seeking + seeking, transferring: self.busy.transferring + transferring }
    }
}

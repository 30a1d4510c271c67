//! What the medium does next: requests, writes from memory, or nothing.

use std::ops::Range;

use super::geometry::Sector;
use super::{Disk, Scheduler};
use crate::device::{Nanos, Op};

impl Disk {
    /// When writes from memory begin because no request came.
    pub(super) fn idle_destage_at(&self) -> Nanos {
        self.idle_since + self.parameters.write_cache.map_or(0, |cache| cache.idle_ns)
    }

    /// Starts what is next, if the medium is free.
    pub(super) fn dispatch(&mut self, now: Nanos) {
        self.settle(now);
        self.serve_stalled(now);
        while self.medium.is_free(now) {
            let urgent = self.is_destage_urgent();
            if urgent && (self.destage_next || self.queue.is_empty()) {
                self.destage_next = false;
                self.destage(now);
            } else if let Some(next) = self.choose(now).and_then(|at| self.queue.remove(at)) {
                self.destage_next = true;
                // Another request may have brought it meanwhile.
                if next.op != Op::Read || !self.serve_read(&next, now) {
                    self.start(&next, now);
                }
            } else if self.medium.is_idle() && self.dirty.sectors > 0 && now >= self.idle_destage_at() {
                self.destage(now);
            } else {
                return;
            }
        }
    }

    /// Whether destages take turns with requests.
    fn is_destage_urgent(&self) -> bool {
        let Some(cache) = &self.parameters.write_cache else { return false };
        let threshold = cache.destage_above * self.write_cache_sectors() as f64;
        self.dirty.sectors > 0
            && (!self.stalled.is_empty() || self.flushing.is_some() || self.dirty.sectors as f64 > threshold)
    }

    fn destage(&mut self, now: Nanos) {
        if let Some(extent) = self.choose_dirty(now) {
            // Not beyond its track, so that requests don't wait long. The rest may follow without loss of time.
            let end = extent.end.min(self.geometry.track_end(extent.start));
            self.start_destage(extent.start..end, now);
        }
    }

    /// Index of the request that is next for the medium.
    fn choose(&self, now: Nanos) -> Option<usize> {
        let oldest = self.queue.front()?;
        let waited = now - oldest.arrived;
        if self.queue.len() == 1 || self.parameters.age_limit_ns.is_some_and(|limit| waited > limit) {
            return Some(0);
        }
        let jobs = self.queue.iter().enumerate();
        match self.parameters.scheduler {
            Scheduler::Fcfs => Some(0),
            Scheduler::CLook => jobs
                .min_by_key(|(_, job)| (job.sectors.start < self.position, job.sectors.start))
                .map(|(at, _)| at),
            Scheduler::Sptf => jobs
                .min_by_key(|(_, job)| {
                    self.access_time(job.sectors.start, job.op == Op::Write, self.ready(job, now)) - now
                })
                .map(|(at, _)| at),
        }
    }

    /// The dirty extent that is next. The scheduler with the shortest time looks at as many as it sees requests.
    fn choose_dirty(&self, now: Nanos) -> Option<Range<Sector>> {
        let mut upwards = self.dirty.upwards(self.position);
        match self.parameters.scheduler {
            Scheduler::Fcfs => self.dirty.oldest(),
            Scheduler::CLook => upwards.next(),
            Scheduler::Sptf => upwards
                .take(self.parameters.queue_depth as usize)
                .min_by_key(|extent| self.access_time(extent.start, true, now)),
        }
    }

    /// When a sector could pass under a head, if the heads start at a time.
    fn access_time(&self, sector: Sector, write: bool, ready: Nanos) -> Nanos {
        let place = self.geometry.place(sector.min(self.geometry.sectors - 1));
        let arrived = ready + self.positioning(place.track, write);
        arrived + self.geometry.latency(arrived, place)
    }
}

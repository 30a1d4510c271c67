//! A daemon's history, read again and again: what is new in it becomes rows.
//!
//! Ceph keeps requests that ended in a list by arrival, and drops what arrived longer ago than a duration, or is too
//! much (`OpHistory::cleanup`, ceph/src/common/TrackedOp.cc). Each dump is the whole list, at 25 us of the daemon's
//! CPU time and 1.3 KB a request, so an OSD's is kept short: after a dump it is purged of what arrived more than
//! about 3 s before, by such a duration for the moment of one command that cleans up. The rest of the time the duration
//! is a minute, so that what ends while the agent is away is found when it is back. What took longer than the
//! duration when it ended never gets into that list; OSDs keep it in one of slow requests besides.
//!
//! Constraints: an entry is parsed once. What was taken before is known by a hash of the bytes in front of its age.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use memchr::memmem::Finder;

use super::requests::entry::{BEGIN, Entry};
use super::requests::stamp::Stamps;
use super::requests::{Requests, Sums, Told};
use super::split::Splitter;
use crate::outbox::Outbox;

/// Entries that are no requests, by far the most of them, known without parsing: see `requests::osd`.
const REPLY: &[u8] = b"{\"description\":\"osd_repop_reply(";

/// Entries of one dump to aim at, 20 MB: more of them are had in more dumps.
const DUMP: f64 = 16_000.0;

/// Time between two dumps: each begins with what the last purge left, of about 3 s.
const EVERY: (f64, f64) = (1.0, 4.0);

/// Fewer entries than this cost less to read again than to purge.
pub const PURGE: u64 = 400;

/// What a round of dumps has read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// Entries in the answers.
    pub found: u64,
    /// New entries that were told, requests or not.
    pub told: u64,
    /// Those of them that daemons count as requests.
    pub requests: u64,
    /// Entries that couldn't be read.
    pub lost: u64,
    /// What requests add to samples.
    pub sums: Sums,
}

/// The history of one daemon.
pub struct History {
    splitter: Splitter,
    age: Finder<'static>,
    hasher: RandomState,
    before: HashSet<u64>,
    seen: HashSet<u64>,
    stamps: Stamps,
    round: Round,
    /// When the last round ended, and whether there was one: what is found first may be told for the second time.
    last: Option<i64>,
}

impl Default for History {
    fn default() -> Self {
        Self {
            splitter: Splitter::new(BEGIN),
            age: Finder::new(",\"age\":"),
            hasher: RandomState::new(),
            before: HashSet::new(),
            seen: HashSet::new(),
            stamps: Stamps::default(),
            round: Round::default(),
            last: None,
        }
    }
}

impl History {
    /// Puts times on the trail's clock.
    pub fn from_wall(&mut self, from_wall: i64) {
        self.stamps.from_wall(from_wall);
    }

    /// Takes what is complete in a dump, as it comes; how many entries it had when it is all there.
    pub fn read(
        &mut self,
        body: &mut Vec<u8>,
        last: bool,
        requests: &mut Requests,
        out: &mut Outbox,
    ) -> Option<u64> {
        let Self { splitter, age, hasher, before, seen, stamps, round, .. } = self;
        splitter.split(body, last, |object| {
            if object.starts_with(REPLY) {
                return;
            }
            let key = hasher.hash_one(&object[..age.find(object).unwrap_or(object.len())]);
            if !seen.insert(key) || before.contains(&key) {
                return;
            }
            let told = Entry::parse(object)
                .ok()
                .and_then(|entry| requests.tell(&entry, stamps, &mut round.sums, out));
            match told {
                // Known only when it is told, perhaps in a later round.
                Some(Told::Later) => _ = seen.remove(&key),
                Some(told) => {
                    round.told += 1;
                    round.requests += u64::from(told == Told::Request);
                }
                None => round.lost += 1,
            }
        });
        last.then(|| {
            let (found, passed) = self.splitter.finish();
            self.round.found += found;
            self.round.lost += passed;
            found
        })
    }

    /// A dump was cut: what was read of it is told, and the rest is in the next one.
    pub fn cut(&mut self) {
        self.splitter.finish();
        self.before.extend(self.seen.drain());
        self.round = Round { sums: self.round.sums, requests: self.round.requests, ..Round::default() };
    }

    /// All dumps of a round were read at some time: what was in them, since when, and how long to wait for the next.
    /// `whole`: all lists were dumped, so that what was in none is forgotten.
    pub fn end(&mut self, now: i64, whole: bool) -> (Round, Option<i64>, Duration) {
        if whole {
            std::mem::swap(&mut self.before, &mut self.seen);
            self.seen.clear();
        } else {
            self.before.extend(self.seen.drain());
        }
        // A burst's memory isn't kept.
        self.seen.shrink_to(2 * self.before.len());
        self.before.shrink_to(2 * self.before.len());
        let round = std::mem::take(&mut self.round);
        let since = self.last.replace(now);
        let seconds = since.map_or(EVERY.1, |since| (now - since) as f64 / 1e9);
        let wait = DUMP * seconds / (round.found.max(1) as f64);
        (round, since, Duration::from_secs_f64(wait.clamp(EVERY.0, EVERY.1)))
    }
}

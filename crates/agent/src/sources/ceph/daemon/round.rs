//! Dumps of a daemon's lists that belong together: what they come to, and the purge after them.

use std::time::{Duration, Instant};

use super::ask::Ask;
use super::{Daemon, Shared};
use crate::outbox::Outbox;
use crate::sources::ceph::history::PURGE;
use crate::sources::ceph::sample::{Sample, Schedule, Window};
use crate::sources::ceph::settings;

/// Of a sample, time between two looks at an OSD's slow requests, and at an MDS's, which prints all others with them.
const SLOW_EVERY: Duration = Duration::from_secs(4);
const SLOW_EVERY_OF_MDS: Duration = Duration::from_secs(30);

/// Fewer slow requests than this cost less to read again than to purge, in a sample.
const PURGE_SLOW: u64 = 100;

/// Time between two rows of what was not collected of a daemon, ns.
const UNSEEN_EVERY: i64 = 600_000_000_000;

/// Time that a daemon may take until it begins to answer, ns.
const LATE: i64 = 200_000_000;

/// How long before the dump that a purge follows arrived what it removes, at least. What it removes and wasn't in that
/// dump was inserted since, so it took that long, less the time that inserting takes, and is among the slow ones.
fn leaves() -> Duration {
    Duration::from_secs(settings::SLOW_FROM.parse().expect("a number")) + settings::INSERTED
}

/// Time that a purge may take, or a busy machine besides to insert what ended: that much more is left.
const PURGE_TAKES: Duration = Duration::from_millis(1300);

/// Seconds for which a daemon is to keep requests for the moment of a purge, so long after the dump before it.
pub(super) fn purge_keeps(elapsed: Duration) -> u64 {
    (elapsed + leaves() + PURGE_TAKES).as_secs() + 1
}

impl Daemon {
    /// All of a round was read: what it adds up to, and whether the daemon's lists are to be purged.
    pub(super) fn round_ends(&mut self, shared: &Shared<'_>, out: &mut Outbox) {
        let Some(identity) = &self.identity else { return };
        let (found, slow) = std::mem::take(&mut self.found);
        let (round, since, wait) = self.history.end(shared.tick.now, self.whole.0);
        self.history.from_wall(shared.tick.from_wall);
        self.history_due = Instant::now() + wait;
        let completed = self.counters.completed().saturating_sub(self.account.at_round);
        self.account.at_round = self.counters.completed();
        self.account.told += round.requests;
        if round.lost > 0 {
            out.dropped(round.lost);
            out.warn(format!(
                "{}: {} entries of its history can't be read: this Ceph is newer or older than what iotrail \
                 knows",
                identity.member, round.lost
            ));
        }
        // What was there before the first agent is not its to tell.
        if found >= self.size && (since.is_some() || self.goes_on) {
            out.dropped(completed.saturating_sub(round.told).max(1));
            let more = (2 * self.size).min(settings::MOST);
            out.warn(format!(
                "{}: its history of {found} requests is full, so some are missing; it is made {more}",
                identity.member
            ));
            self.size = more;
            if let Some(settings) = &shared.settings {
                self.queue.push_back(Ask::Set(settings.wanted(&identity.role)[0].0, more.to_string()));
            }
        }
        let is_osd = identity.role == "osd";
        if shared.sample.is_some() {
            self.sample_ends(is_osd, slow, shared, out);
            return;
        }
        if since.is_some() {
            out.since(since);
            let member = &identity.member;
            for (name, (count, ns)) in [("small", round.sums.small), ("large", round.sums.large)] {
                if count > 0 {
                    out.sum(member, "write", Some(name), count as f64);
                    out.sum(member, "write_time", Some(name), ns as f64);
                }
            }
            if is_osd {
                out.sum(member, "replica_out", None, round.sums.replica_out as f64);
            }
        }
        if is_osd {
            self.long = (found > PURGE, slow > PURGE);
            self.told_dumps.push_back((out.said(), self.dumped));
        }
    }

    /// Takes what is to be read of a sample.
    pub fn take(&mut self, due: &[Window]) {
        self.due.extend(due);
    }

    /// What of a sample is read in this tick.
    pub(super) fn plan_sample(&mut self, schedule: &Schedule, shared: &Shared<'_>) {
        let (Some(identity), Some(began)) = (&self.identity, shared.began) else { return };
        let now = shared.tick.now - shared.tick.from_wall;
        let is_osd = identity.role == "osd";
        // What the daemon has no more, or not all of, is no sample: it is among the unseen.
        let least = (now + LATE - settings::KEPT_SECONDS * 1_000_000_000)
            .max(began - shared.tick.from_wall)
            .max(if is_osd { self.keeps_since.unwrap_or(i64::MAX) } else { i64::MIN });
        let windows: Vec<Window> =
            self.due.drain(..).filter(|window| window.weight == 0 || window.from >= least).collect();
        let whole = !windows.is_empty() || shared.leaves || self.whole.1;
        let slow = self.slow.0 && Instant::now() >= self.slow.1;
        if whole || slow {
            self.plan_round(Sample { windows, later: schedule.waiting().to_vec() }, is_osd, whole);
        }
        if is_osd && self.may_set {
            self.keep(schedule.is_near(now) || self.long.1, shared);
        }
    }

    /// Reads a daemon's lists in this tick: all, or an OSD's of slow requests.
    fn plan_round(&mut self, sample: Sample, is_osd: bool, whole: bool) {
        if let Some(requests) = &mut self.requests {
            requests.sample = Some(sample);
        }
        // An MDS has one list.
        self.whole = (whole || !is_osd, false);
        self.slow = (false, Instant::now() + if is_osd { SLOW_EVERY } else { SLOW_EVERY_OF_MDS });
        if self.whole.0 {
            self.queue.push_back(Ask::History("dump_historic_ops"));
        }
        if is_osd {
            self.queue.push_back(Ask::History("dump_historic_slow_ops"));
        }
        self.queue.push_back(Ask::RoundEnds);
    }

    /// Has an OSD keep all requests near what is collected, and only then: memory that is kept for seconds is taken anew
    /// for each request, and not in the processor's caches. All the time that cost 7 % of a busy OSD's CPU time
    /// (docs/ceph.md, Costs).
    fn keep(&mut self, all: bool, shared: &Shared<'_>) {
        if all && self.keeps_since.is_none() {
            self.queue.push_front(Ask::Set(settings::OSD_SIZE, self.size.to_string()));
        } else if !all && self.keeps_since.take().is_some() {
            let before = shared.settings.as_ref().and_then(|of| of.before(&self.path, settings::OSD_SIZE));
            // After what is read in this tick.
            self.queue.push_back(match before {
                Some(before) => Ask::Set(settings::OSD_SIZE, before.to_owned()),
                None => Ask::Unset(settings::OSD_SIZE),
            });
        }
    }

    /// Ends a round of a sample.
    fn sample_ends(&mut self, is_osd: bool, slow: u64, shared: &Shared<'_>, out: &mut Outbox) {
        if is_osd {
            self.long = (false, slow > PURGE_SLOW);
            self.told_dumps.push_back((out.said(), self.dumped));
        }
        let Some(requests) = &mut self.requests else { return };
        if std::mem::take(&mut requests.slow) > 0 {
            self.notice = Some("it has slow requests");
        }
        let windows = requests.sample.as_ref().map_or(&[][..], |sample| &sample.windows);
        let is_due = shared.tick.now >= self.account.due && windows.iter().any(|window| window.weight > 1);
        if shared.leaves || is_due {
            self.account.due = shared.tick.now + UNSEEN_EVERY;
            self.tell_unseen("between the seconds that are collected", shared.tick.now, out);
        }
    }

    /// What is worth a burst.
    pub fn take_notice(&mut self) -> Option<String> {
        let notice = self.notice.take()?;
        Some(format!("{}: {notice}", self.member().unwrap_or_default()))
    }

    /// Has a daemon forget what it need not know any more: what was told and is settled, so that an agent that is
    /// killed now leaves all else to the next one.
    pub(super) fn purge(&mut self, shared: &Shared<'_>) {
        if !self.may_set {
            self.told_dumps.clear();
            return;
        }
        let told = self.told_dumps.iter().rev().find(|(said, _)| *said <= shared.tick.settled);
        let Some(&(_, dumped)) = told else { return };
        // What is slow and ends meanwhile has to be kept, in the other list.
        if self.long.1 && shared.sample.is_some() && self.keeps_since.is_none() {
            return;
        }
        // Between two purges lies a dump.
        self.told_dumps.clear();
        let (history, slow) = std::mem::take(&mut self.long);
        // One list at a time, so that what ends meanwhile is in the other.
        if slow {
            // What ends meanwhile is in the other list, which a sample's next round may not read.
            self.whole.1 = true;
            self.queue.extend([
                Ask::Set(settings::SLOW_SIZE, "0".to_owned()),
                Ask::Clean,
                Ask::Set(settings::SLOW_SIZE, settings::SLOW.to_owned()),
            ]);
        } else if history {
            self.purges.0 = dumped;
            self.queue.extend([Ask::Purge, Ask::Clean, Ask::Keep]);
        }
    }

    /// Ends a purge: whether it was soon enough.
    pub(super) fn purged(&self, out: &mut Outbox) {
        let (dumped, keeps) = self.purges;
        if dumped.elapsed() + leaves() > Duration::from_secs(keeps) {
            out.dropped(1);
            out.warn(format!(
                "{}: its history was purged too slowly, so that some requests may be missing; its machine is \
                 overloaded",
                self.path.display()
            ));
        }
    }
}

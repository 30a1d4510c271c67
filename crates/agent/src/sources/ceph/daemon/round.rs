//! Dumps of a daemon's lists that belong together: what they come to, and the purge after them.

use std::time::{Duration, Instant};

use super::ask::Ask;
use super::{Daemon, Shared};
use crate::outbox::Outbox;
use crate::sources::ceph::history::PURGE;
use crate::sources::ceph::settings;

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
        let (round, since, wait) = self.history.end(shared.tick.now);
        self.history.from_wall(shared.tick.from_wall);
        self.history_due = Instant::now() + wait;
        let completed = self.counters.take_completed();
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
            let setting = settings::wanted(&identity.role)[0].0;
            self.queue.push_back(Ask::Set(setting, more.to_string()));
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
            if identity.role == "osd" {
                out.sum(member, "replica_out", None, round.sums.replica_out as f64);
            }
        }
        if identity.role == "osd" {
            self.long = (found > PURGE, slow > PURGE);
            self.told_dumps.push_back((out.said(), self.dumped));
        }
    }

    /// Has a daemon forget what it need not know any more: what was told and is settled, so that an agent that is
    /// killed now leaves all else to the next one.
    pub(super) fn purge(&mut self, settled: u64) {
        let told = self.told_dumps.iter().rev().find(|(said, _)| *said <= settled);
        let Some(&(_, dumped)) = told else { return };
        // Between two purges lies a dump.
        self.told_dumps.clear();
        let (history, slow) = std::mem::take(&mut self.long);
        // One list at a time, so that what ends meanwhile is in the other.
        if slow {
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

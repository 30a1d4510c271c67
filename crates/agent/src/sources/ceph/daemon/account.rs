//! How many requests a daemon completed that were not collected: rows of table `unseen`.
//!
//! Its counters say how many there were. What is in neither is not known: what it completed after they were read for
//! the last time, before it ended.

use std::time::{Duration, SystemTime};

use super::Daemon;
use super::identity::Identity;
use crate::outbox::Outbox;
use crate::sources::ceph::counters::Counters;

/// Kind of the rows.
const KIND: &str = "requests_not_collected";

/// The requests of one process of a daemon.
#[derive(Debug, Default)]
pub(super) struct Account {
    /// What its counters were when they were read first; 0 if that was since it began.
    base: Option<u64>,
    /// What they were when the last round ended.
    pub(super) at_round: u64,
    /// What it completed since.
    completed: u64,
    /// Requests that were told,
    pub(super) told: u64,
    /// and that were said to be unseen.
    said: u64,
    /// When what was not collected is said next, ns since the epoch on the trail's clock.
    pub(super) due: i64,
    /// Whether requests are told.
    pub(super) begun: bool,
}

impl Account {
    /// Takes its counters.
    pub(super) fn count(&mut self, counters: &Counters, of: &Identity, started: i64) {
        let now = counters.completed();
        let base = *self.base.get_or_insert_with(|| {
            self.at_round = now;
            let since = of.process.as_ref().is_some_and(|process| process.start_ts > started);
            if since { 0 } else { now }
        });
        self.completed = now.saturating_sub(base);
    }
}

impl Daemon {
    /// Says how many requests were not collected, as of those that were not said yet.
    pub(super) fn tell_unseen(&mut self, why: &str, now: i64, out: &mut Outbox) {
        let Some(identity) = &self.identity else { return };
        let missing = self.account.completed.saturating_sub(self.account.told + self.account.said);
        if missing == 0 {
            return;
        }
        self.account.said += missing;
        let at = SystemTime::UNIX_EPOCH + Duration::from_nanos(now.unsigned_abs());
        let at = humantime::format_rfc3339_seconds(at);
        let detail = format!("{}: {missing} requests until {at}, {why}", identity.member);
        out.unseen(KIND, identity.id, missing, &detail);
    }
}

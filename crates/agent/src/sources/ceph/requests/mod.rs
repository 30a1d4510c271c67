//! An entry of a daemon's history as rows: a request with its events, and what it works for.
//!
//! What daemons print is `TrackedOp::dump` (ceph/src/common/TrackedOp.cc), with a description of each kind of message.
//! Requests carry their id, the client's entity and number (`client.4226.0:17`), wherever they go, so breadcrumbs are
//! hashes of it, and who works for whom is known by computing the other's:
//!
//! | breadcrumb | key that is hashed | who knows it |
//! |---|---|---|
//! | a request at its primary | `ceph/FSID/osd.N/REQID` | that OSD |
//! | a replica's part of it | `ceph/FSID/osd.N/REQID/replica` | that OSD, the primary |
//! | the primary's call to a replica | `ceph/FSID/osd.N/REQID/repop/osd.M` | the primary |
//! | a request at the MDS that serves it | `ceph/FSID/FS/REQID` | the MDS, one that helps with it |
//! | a request at an MDS that forwards it | `ceph/FSID/FS/REQID/forward/N` | that MDS, the one to which it comes with FWD=N+1 |
//! | an MDS's help with a request of another | `ceph/FSID/FS/REQID/peer/mds.NAME` | that MDS |
//!
//! At MDSs the key leaves out the daemon, because one that forwards or leads names others by rank only. One MDS may
//! see a request several times, forwarded to and fro, which is why the forwards are numbered.
//!
//! Times are Ceph's, of the wall clock in microseconds; durations are made of them, since `throttled` is printed with
//! a bogus one. The history tells no result: `status` is 0 of everything that was replied to, ECANCELED of changes that
//! were given up when placement changed.
//!
//! By time only: an MDS's journal writes (`mds.0.4:43` on objects `200.*`) are requests of client `mds.0` at OSDs. The
//! one that a client's request waited for lies in its `journal` row: it began after that did, at the latest
//! before it ended, and was replied to before its end.

pub mod entry;
pub mod mds;
pub mod osd;
pub mod stamp;

use std::collections::HashSet;

use iotrail_format::ids::hash63;

use super::sample::{SLOW, Sample};
use crate::outbox::{Outbox, ServiceOp};
use entry::Entry;
use stamp::Stamps;

/// An event with its time in ns.
#[derive(Clone, Copy, Debug)]
pub struct Moment<'a> {
    /// What happened.
    pub name: &'a str,
    /// When, on the trail's clock.
    pub ts: i64,
}

/// Whose entries are told.
#[derive(Clone, Debug)]
pub struct Teller {
    /// Its name: osd.3.
    pub member: String,
    /// Id of the cluster.
    pub fsid: String,
    /// Name of the file system an MDS serves.
    pub fs: String,
    /// Its thread, which stands for the daemon.
    pub thread: i64,
}

/// What became of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// It was told, and is one of those that daemons count.
    Request,
    /// It was told as far as there is something to tell.
    Other,
    /// It isn't told in this round.
    Later,
}

/// Whether an entry is one of those that [`Counters::completed`] counts.
///
/// [`Counters::completed`]: super::counters::Counters::completed
fn is_counted(description: &str) -> bool {
    ["osd_op(", "osd_repop(", "client_request("].iter().any(|kind| description.starts_with(kind))
}

/// Whether an entry may be a part of a request at another daemon.
fn is_part(description: &str) -> bool {
    ["osd_repop(", "osd_op(mds.", "peer_request:", "slave_request:"]
        .iter()
        .any(|kind| description.starts_with(kind))
        || description.contains(" FWD=")
}

/// What entries come to that is counted besides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Writes of less than 1 KiB, and the time until their replies.
    pub small: (u64, i64),
    /// Other writes.
    pub large: (u64, i64),
    /// Bytes sent to replicas.
    pub replica_out: u64,
}

/// Files whose names were told lately: a name is needed once.
#[derive(Default)]
pub struct Names(HashSet<i64>);

/// Names that are kept in mind: 8 bytes each.
const NAMES: usize = 1 << 14;

impl Names {
    fn tell(&mut self, path: &str, out: &mut Outbox) -> i64 {
        let file = hash63(path.as_bytes());
        if self.0.len() >= NAMES {
            self.0.clear();
        }
        if self.0.insert(file) {
            out.file(path);
        }
        file
    }
}

/// Makes rows of one daemon's entries.
pub struct Requests {
    /// Daemon.
    pub teller: Teller,
    /// Since when requests are told, ns since the epoch on the trail's clock.
    pub began: i64,
    /// Which of them; none: all.
    pub sample: Option<Sample>,
    /// Slow requests of that.
    pub slow: u64,
    names: Names,
    key: String,
}

impl Requests {
    /// Of a daemon.
    #[must_use]
    pub fn new(teller: Teller) -> Self {
        Self { teller, began: i64::MIN, sample: None, slow: 0, names: Names::default(), key: String::new() }
    }

    /// Tells an entry, unless it began too early or isn't collected now; none if it isn't understood. `sums`: what it
    /// adds to.
    pub fn tell(
        &mut self,
        entry: &Entry<'_>,
        stamps: &mut Stamps,
        sums: &mut Sums,
        out: &mut Outbox,
    ) -> Option<Told> {
        let mut moments = Vec::with_capacity(entry.events.len());
        for event in &entry.events {
            let ts = stamps.parse(&event.time)?;
            moments.push(Moment { name: &event.event, ts });
        }
        let arrived = moments.iter().map(|moment| moment.ts).min()?;
        if arrived < self.began {
            return Some(Told::Other);
        }
        let description = entry.description.as_ref();
        let weight = match &self.sample {
            None => 1,
            Some(sample) => {
                let ended = moments.iter().map(|moment| moment.ts).max()?;
                let (arrived, ended) = (stamps.to_wall(arrived), stamps.to_wall(ended));
                let Some(weight) = sample.weight(arrived, ended, is_part(description)) else {
                    return Some(Told::Later);
                };
                self.slow += u64::from(ended - arrived >= SLOW && is_counted(description));
                weight
            }
        };
        out.weigh(weight);
        let understood = if self.teller.member.starts_with("osd.") {
            self.osd(description, &moments, sums, out)
        } else {
            self.mds(description, &moments, out)
        };
        out.weigh(1);
        let told = if weight > 0 && is_counted(description) { Told::Request } else { Told::Other };
        understood.then_some(told)
    }

    /// Breadcrumb of a key under this cluster.
    fn crumb(&mut self, parts: &[&str]) -> i64 {
        self.key.clear();
        self.key.push_str("ceph/");
        self.key.push_str(&self.teller.fsid);
        for part in parts {
            self.key.push('/');
            self.key.push_str(part);
        }
        hash63(self.key.as_bytes())
    }

    /// A moment within a request.
    fn instant(&self, component: &str, crumb: i64, moment: Moment<'_>, op: &str, out: &mut Outbox) {
        out.service_op(ServiceOp {
            ts: moment.ts,
            dur: Some(0),
            thread: self.teller.thread,
            crumb,
            component,
            kind: "event",
            op,
            status: Some(0),
            ..ServiceOp::default()
        });
    }
}

/// The first moment, which need not stand first.
fn earliest(moments: &[Moment<'_>]) -> i64 {
    moments.iter().map(|moment| moment.ts).min().unwrap_or(0)
}

/// When something happened last.
fn last(moments: &[Moment<'_>], name: &str) -> Option<i64> {
    moments.iter().rev().find(|moment| moment.name == name).map(|moment| moment.ts)
}

/// What is not told of an event: where it begins to be about this one request, as in `waiting for pg 1.2`.
fn kind_of_event(name: &str) -> &str {
    let end =
        name.find(|c: char| c.is_ascii_digit() || matches!(c, '[' | '(' | '"' | ':')).unwrap_or(name.len());
    name[..end].trim_end_matches([' ', ',', '.'])
}

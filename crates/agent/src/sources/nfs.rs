//! NFS mounts of this machine: per-operation statistics of the kernel's client, from /proc/self/mountstats.
//!
//! The format is the kernel's (net/sunrpc/stats.c, fs/nfs/super.c `nfs_show_stats`): per operation the requests,
//! the bytes both ways and the milliseconds until the reply. It is a seam's second user: a storage system that says
//! nothing about single requests.

use std::collections::BTreeSet;

use procfs::process::{MountNFSStatistics, MountStats};
use procfs::{FromRead as _, ProcResult};

use super::machine::Growth;
use crate::outbox::{Member, Outbox};
use crate::source::{Source, Tick};

/// Where the kernel tells it.
const MOUNTSTATS: &str = "/proc/self/mountstats";

/// Samples of NFS mounts.
pub struct Nfs {
    path: String,
    grown: Growth,
    mounts: BTreeSet<String>,
}

impl Default for Nfs {
    fn default() -> Self {
        Self { path: MOUNTSTATS.to_owned(), grown: Growth::default(), mounts: BTreeSet::new() }
    }
}

impl Source for Nfs {
    fn name(&self) -> &'static str {
        "nfs"
    }

    fn poll(&mut self, _: Tick, out: &mut Outbox) {
        if let Err(error) = self.read(out) {
            out.warn(format!("cannot read {}: {error}", self.path));
        }
    }
}

impl Nfs {
    fn read(&mut self, out: &mut Outbox) -> ProcResult<()> {
        let mut seen = BTreeSet::new();
        for mount in MountStats::from_file(&self.path)?.0 {
            let Some(statistics) = mount.statistics else { continue };
            // The same export may be mounted on many machines: the mount is this machine's.
            let member = format!("{}:{}", out.node(), mount.mount_point.display());
            if !self.mounts.contains(&member) {
                let place = mount.device.as_deref();
                out.member(Member { member: &member, role: "nfs", place, state: "up", ..Member::default() });
            }
            self.sample(&member, &statistics, out);
            seen.insert(member);
        }
        for member in self.mounts.difference(&seen) {
            out.member(Member { member, role: "nfs", state: "left", ..Member::default() });
        }
        self.mounts = seen;
        Ok(())
    }

    fn sample(&mut self, member: &str, statistics: &MountNFSStatistics, out: &mut Outbox) {
        let (mut received, mut sent) = (0, 0);
        for (operation, counts) in &statistics.per_op_stats {
            let name = operation.to_lowercase();
            received += counts.bytes_recv;
            sent += counts.bytes_sent;
            let time = counts.cum_total_req_time.as_nanos() as u64;
            for (metric, value) in [("op", counts.operations), ("op_time", time)] {
                let grown = self.grown.by(&format!("{member} {metric}"), &name, value);
                // Most of NFS's operations are never used.
                if let Some(grown) = grown.filter(|grown| *grown > 0) {
                    out.sum(member, metric, Some(&name), grown as f64);
                }
            }
        }
        let bytes = &statistics.bytes;
        let sums = [
            ("message_in", None, received),
            ("message_out", None, sent),
            ("op_bytes", Some("read"), bytes.normal_read + bytes.direct_read),
            ("op_bytes", Some("write"), bytes.normal_write + bytes.direct_write),
        ];
        for (metric, name, value) in sums {
            if let Some(grown) = self.grown.by(&format!("{member} {metric}"), name.unwrap_or(""), value) {
                out.sum(member, metric, name, grown as f64);
            }
        }
    }
}

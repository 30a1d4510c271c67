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
    place: String,
    grown: Growth,
    mounts: BTreeSet<String>,
}

impl Nfs {
    /// `place` says where the machine stands, from the outside in, as `rack/host`.
    #[must_use]
    pub fn new(place: String) -> Self {
        Self { path: MOUNTSTATS.to_owned(), place, grown: Growth::default(), mounts: BTreeSet::new() }
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
    /// Of a file of the same format.
    #[cfg(test)]
    fn of(path: &std::path::Path) -> Self {
        Self { path: path.display().to_string(), ..Self::new("h1".to_owned()) }
    }

    fn read(&mut self, out: &mut Outbox) -> ProcResult<()> {
        let mut seen = BTreeSet::new();
        for mount in MountStats::from_file(&self.path)?.0 {
            let Some(statistics) = mount.statistics else { continue };
            // The same export may be mounted on many machines: the mount is this machine's.
            let member = format!("{}:{}", out.node(), mount.mount_point.display());
            if !self.mounts.contains(&member) {
                let (place, detail) = (Some(self.place.as_str()), mount.device.as_deref());
                out.member(Member {
                    member: &member,
                    role: "nfs",
                    place,
                    state: "up",
                    detail,
                    ..Member::default()
                });
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

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::ArrayAccessor as _;
    use arrow_array::StringArray;
    use arrow_array::cast::AsArray as _;
    use arrow_array::types::{Float64Type, Int32Type};
    use std::collections::BTreeMap;
    use std::fs;

    /// What a kernel says of one mount after so many reads, with other mounts around it.
    fn mountstats(reads: u64) -> String {
        let (sent, received, milliseconds) = (reads * 200, reads * 4200, reads * 3);
        format!(
            "device proc mounted on /proc with fstype proc\n\
             device filer:/export mounted on /home with fstype nfs4 statvers=1.1\n\
             \topts:\trw,vers=4.2,rsize=1048576,wsize=1048576,proto=tcp,timeo=600\n\
             \tage:\t4000\n\
             \timpl_id:\tname='',domain='',date='0,0'\n\
             \tcaps:\tcaps=0x3ffbffff,wtmult=512,dtsize=1048576,bsize=0,namlen=255\n\
             \tnfsv4:\tbm0=0xfdffbfff,bm1=0xf9be3e,bm2=0x68800,acl=0x3,sessions,pnfs=not configured\n\
             \tsec:\tflavor=1,pseudoflavor=1\n\
             \tevents:\t1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27\n\
             \tbytes:\t{} 0 0 0 {} 0 0 0\n\
             \tRPC iostats version: 1.1  p/v: 100003/4 (nfs)\n\
             \txprt:\ttcp 0 0 2 0 4 100 100 0 100 0 2 0 0\n\
             \tper-op statistics\n\
             \t        NULL: 1 1 0 44 24 0 0 0\n\
             \t        READ: {reads} {reads} 0 {sent} {received} 1 {milliseconds} {milliseconds}\n\
             \t       WRITE: 0 0 0 0 0 0 0 0\n\n",
            reads * 4096,
            reads * 4096,
        )
    }

    /// Samples by metric and name.
    fn samples(nfs: &mut Nfs, out: &mut Outbox, tick: Tick) -> BTreeMap<String, f64> {
        out.begin(tick);
        nfs.poll(tick, out);
        assert_eq!(out.take_warnings(), BTreeSet::new());
        let mut found = BTreeMap::new();
        for (table, batch) in out.take() {
            let word = |column: &str, row: usize| {
                let column = batch.column_by_name(column).expect("a column").as_dictionary::<Int32Type>();
                column.downcast_dict::<StringArray>().expect("text").value(row).to_owned()
            };
            if table.name == "node_sample" {
                let names = batch.column_by_name("name").expect("a column").as_string::<i32>();
                let values = batch.column_by_name("value").expect("a column").as_primitive::<Float64Type>();
                for row in 0..batch.num_rows() {
                    found.insert(format!("{} {}", word("metric", row), names.value(row)), values.value(row));
                }
            } else {
                found.insert(format!("{} {}", word("member", 0), word("state", 0)), 0.0);
            }
        }
        found
    }

    #[test]
    fn a_mount_joins_is_sampled_and_leaves() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("mountstats");
        let (mut nfs, mut out) = (Nfs::of(&path), Outbox::new("here"));
        fs::write(&path, mountstats(10)).expect("written");
        let first =
            samples(&mut nfs, &mut out, Tick { now: 1_000_000_000, before: None, from_wall: 0, settled: 0 });
        assert_eq!(first.keys().collect::<Vec<_>>(), ["here:/home up"]);

        fs::write(&path, mountstats(17)).expect("written");
        let tick = Tick { now: 2_000_000_000, before: Some(1_000_000_000), from_wall: 0, settled: 0 };
        let second = samples(&mut nfs, &mut out, tick);
        assert_eq!(second["op read"], 7.0);
        assert_eq!(second["op_time read"], 21e6);
        assert_eq!(second["op_bytes read"], 7.0 * 4096.0);
        assert_eq!(second["message_out "], 7.0 * 200.0);
        assert_eq!(second["message_in "], 7.0 * 4200.0);
        assert!(!second.contains_key("op write"), "what isn't used isn't said");

        fs::write(&path, "device proc mounted on /proc with fstype proc\n").expect("written");
        let tick = Tick { now: 3_000_000_000, before: Some(2_000_000_000), from_wall: 0, settled: 0 };
        assert!(samples(&mut nfs, &mut out, tick).contains_key("here:/home left"));
    }

    #[test]
    fn a_file_of_another_format_is_said() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("mountstats");
        fs::write(&path, "device filer:/x mounted on /x with fstype nfs4 statvers=1.1\n\tbytes:\tmany\n")
            .expect("written");
        let (mut nfs, mut out) = (Nfs::of(&path), Outbox::new("here"));
        nfs.poll(Tick { now: 1, before: None, from_wall: 0, settled: 0 }, &mut out);
        let said = out.take_warnings();
        assert!(said.first().is_some_and(|warning| warning.contains("mountstats")), "{said:?}");
    }
}

//! The machine itself: what is the same on every node (section 4.1's node-agnostic method), from /proc.
//!
//! Counters of the kernel only grow; what is sampled is their growth since the tick before (proc(5);
//! Documentation/admin-guide/iostats.rst). Interfaces and disks that never did anything are left out.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use procfs::{Current as _, CurrentSI as _, FromRead as _};

use crate::Totals;
use crate::outbox::{Member, Outbox};
use crate::source::{Source, Tick};

/// File systems are asked for their size this often, in ticks: it changes slowly. Viewers hold a value for 3.5 s.
const SPACE_TICKS: u64 = 2;

/// Samples of a machine.
pub struct Machine {
    grown: Growth,
    ticks: u64,
    ticks_per_second: f64,
    place: String,
    totals: Arc<Totals>,
    /// Until when what was dropped has been said.
    dropped_until: Option<i64>,
}

impl Machine {
    /// `place` says where the machine stands, from the outside in, as `rack/host`; `totals` is the agent's.
    #[must_use]
    pub fn new(place: String, totals: Arc<Totals>) -> Self {
        let ticks_per_second = procfs::ticks_per_second() as f64;
        Self { grown: Growth::default(), ticks: 0, ticks_per_second, place, totals, dropped_until: None }
    }
}

impl Source for Machine {
    fn name(&self) -> &'static str {
        "machine"
    }

    fn poll(&mut self, tick: Tick, out: &mut Outbox) {
        let node = out.node().to_owned();
        if self.ticks == 0 {
            let place = Some(self.place.as_str());
            out.member(Member { member: &node, role: "host", place, state: "up", ..Member::default() });
        }
        let parts = [
            ("loadavg", self.load(&node, out)),
            ("stat", self.cpu(&node, out)),
            ("meminfo", memory(&node, out)),
            ("net/dev", self.network(&node, out)),
            ("diskstats", self.disks(&node, out)),
        ];
        for (file, result) in parts {
            if let Err(error) = result {
                out.warn(format!("cannot read /proc/{file}: {error}"));
            }
        }
        if self.ticks.is_multiple_of(SPACE_TICKS) {
            space(&node, out);
        }
        let totals = &self.totals;
        out.level(&node, "spooled", None, totals.spooled.load(Ordering::Relaxed) as f64);
        let shipped = self.grown.by("shipped", "", totals.shipped.load(Ordering::Relaxed));
        if let Some(shipped) = shipped {
            out.sum(&node, "shipped", None, shipped as f64);
        }
        // Said when the collector answers, over all the time since the last time: until then the count of what is dropped
        // would be dropped with it.
        if self.ticks == 0 || shipped > Some(0) {
            if let Some(dropped) = self.grown.by("dropped", "", totals.dropped.load(Ordering::Relaxed)) {
                out.since(self.dropped_until);
                out.sum(&node, "dropped", None, dropped as f64);
            }
            self.dropped_until = Some(tick.now);
        }
        self.ticks += 1;
    }
}

impl Machine {
    fn load(&self, node: &str, out: &mut Outbox) -> procfs::ProcResult<()> {
        out.level(node, "load", None, f64::from(procfs::LoadAverage::current()?.one));
        Ok(())
    }

    fn cpu(&mut self, node: &str, out: &mut Outbox) -> procfs::ProcResult<()> {
        let stat = procfs::KernelStats::current()?;
        out.level(node, "cpus", None, stat.cpu_time.len() as f64);
        let total = &stat.total;
        let uses = [
            ("user", total.user + total.nice),
            ("system", total.system + total.irq.unwrap_or(0) + total.softirq.unwrap_or(0)),
            ("iowait", total.iowait.unwrap_or(0)),
            ("steal", total.steal.unwrap_or(0)),
        ];
        for (name, ticks) in uses {
            if let Some(grown) = self.grown.by("cpu", name, ticks) {
                out.sum(node, "cpu", Some(name), grown as f64 * 1e9 / self.ticks_per_second);
            }
        }
        Ok(())
    }

    fn network(&mut self, node: &str, out: &mut Outbox) -> procfs::ProcResult<()> {
        for (name, interface) in procfs::net::InterfaceDeviceStatus::current()?.0 {
            if interface.recv_bytes + interface.sent_bytes == 0 {
                continue;
            }
            for (metric, bytes) in
                [("network_in", interface.recv_bytes), ("network_out", interface.sent_bytes)]
            {
                if let Some(grown) = self.grown.by(metric, &name, bytes) {
                    out.sum(node, metric, Some(&name), grown as f64);
                }
            }
        }
        Ok(())
    }

    fn disks(&mut self, node: &str, out: &mut Outbox) -> procfs::ProcResult<()> {
        for disk in procfs::DiskStats::current()?.0 {
            // Partitions would count twice; their folder in sysfs is inside their disk's.
            if disk.reads + disk.writes == 0 || !Path::new("/sys/block").join(&disk.name).exists() {
                continue;
            }
            // A sector is 512 bytes here whatever the disk's (iostats.rst).
            let metrics = [
                ("disk_read", disk.sectors_read * 512, 1.0),
                ("disk_write", disk.sectors_written * 512, 1.0),
                ("disk_ops", disk.reads + disk.writes, 1.0),
                ("disk_busy", disk.time_in_progress, 1e6),
            ];
            for (metric, value, scale) in metrics {
                if let Some(grown) = self.grown.by(metric, &disk.name, value) {
                    out.sum(node, metric, Some(&disk.name), grown as f64 * scale);
                }
            }
        }
        Ok(())
    }
}

fn memory(node: &str, out: &mut Outbox) -> procfs::ProcResult<()> {
    let memory = procfs::Meminfo::current()?;
    let available = memory.mem_available.unwrap_or(memory.mem_free);
    out.level(node, "memory_size", None, memory.mem_total as f64);
    out.level(node, "memory_used", None, memory.mem_total.saturating_sub(available) as f64);
    Ok(())
}

/// File systems on disks of this machine; others (NFS) might hang.
fn space(node: &str, out: &mut Outbox) {
    let mounts = match procfs::process::MountInfos::from_file("/proc/self/mountinfo") {
        Ok(mounts) => mounts.0,
        Err(error) => return out.warn(format!("cannot read /proc/self/mountinfo: {error}")),
    };
    // One file system may be mounted at several places: the shortest path names it.
    let mut of_disks: BTreeMap<String, String> = BTreeMap::new();
    for mount in mounts {
        let (Some(disk), path) = (mount.mount_source, mount.mount_point.display().to_string()) else {
            continue;
        };
        if disk.starts_with("/dev/") && mount.fs_type != "squashfs" {
            let known = of_disks.entry(disk).or_insert_with(|| path.clone());
            if path.len() < known.len() {
                *known = path;
            }
        }
    }
    for path in of_disks.values() {
        // A mount that vanished meanwhile is no news.
        if let Ok(about) = rustix::fs::statvfs(path.as_str()) {
            let size = about.f_blocks * about.f_frsize;
            out.level(node, "space_size", Some(path), size as f64);
            out.level(node, "space_used", Some(path), (size - about.f_bfree * about.f_frsize) as f64);
        }
    }
}

/// Growth of counters between two readings.
#[derive(Default)]
pub struct Growth {
    last: HashMap<String, u64>,
}

impl Growth {
    /// How much the counter of this name grew since the last time; none the first time, and when it began anew.
    pub fn by(&mut self, counter: &str, name: &str, value: u64) -> Option<u64> {
        value.checked_sub(self.last.insert(format!("{counter} {name}"), value)?)
    }

    /// It isn't looked at now: what it grows by meanwhile is not of one tick.
    pub fn forget(&mut self, counter: &str, name: &str) {
        self.last.remove(&format!("{counter} {name}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::cast::AsArray as _;
    use arrow_array::types::Float64Type;

    #[test]
    fn growth_leaves_out_the_first_reading_and_a_new_beginning() {
        let mut growth = Growth::default();
        assert_eq!(growth.by("network_in", "eth0", 10), None);
        assert_eq!(growth.by("network_in", "eth0", 17), Some(7));
        assert_eq!(growth.by("network_in", "eth1", 18), None);
        assert_eq!(growth.by("network_in", "eth0", 3), None);
        assert_eq!(growth.by("network_in", "eth0", 4), Some(1));
        growth.forget("network_in", "eth0");
        assert_eq!(growth.by("network_in", "eth0", 1_000), None, "of more than one tick");
    }

    #[test]
    fn a_machine_is_a_member_and_its_cpus_are_used_no_more_than_there_are() {
        let (mut machine, mut out) = (Machine::new("r1/h1".to_owned(), Arc::default()), Outbox::new("here"));
        let mut tick = Tick { now: 1_000_000_000, before: None, from_wall: 0, settled: 0 };
        out.begin(tick);
        machine.poll(tick, &mut out);
        let first: Vec<_> =
            out.take().into_iter().map(|(table, batch)| (table.name, batch.num_rows())).collect();
        assert_eq!(first[0], ("member", 1));
        std::thread::sleep(std::time::Duration::from_millis(50));
        tick = Tick { now: 1_050_000_000, before: Some(1_000_000_000), from_wall: 0, settled: 0 };
        out.begin(tick);
        machine.poll(tick, &mut out);
        assert!(out.take_warnings().is_empty());
        let rows = out.take();
        let [(table, samples)] = rows.as_slice() else { panic!("only samples are told again") };
        assert_eq!(table.name, "node_sample");
        let metric = samples
            .column_by_name("metric")
            .expect("a column")
            .as_dictionary::<arrow_array::types::Int32Type>();
        let words = metric.values().as_string::<i32>();
        let values = samples.column_by_name("value").expect("a column").as_primitive::<Float64Type>();
        let of = |wanted: &str| -> Vec<f64> {
            (0..samples.num_rows())
                .filter(|&row| words.value(metric.keys().value(row) as usize) == wanted)
                .map(|row| values.value(row))
                .collect()
        };
        let cpus = of("cpus")[0];
        assert!(cpus >= 1.0);
        // A tick of accounting is 10 ms.
        assert!(of("cpu").iter().sum::<f64>() <= (50e6 + 2.0 * 10e6) * cpus * 4.0);
        assert!(of("memory_used")[0] < of("memory_size")[0]);
    }
}

//! What /proc tells of a daemon: when it began, what it uses, which disk is its store's.

use std::fs;
use std::os::linux::fs::MetadataExt as _;
use std::path::Path;

use iotrail_format::ids::ProcessId;
use procfs::process::{Process, Stat};
use procfs::{DiskStat, WithCurrentSystemInfo as _};

use super::counters::Used;

/// A daemon's process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Daemon {
    /// Process id of the system.
    pub pid: i32,
    /// Id in the trail.
    pub process: i64,
    /// Name of its executable.
    pub name: String,
    /// When it began, ns since the epoch.
    pub start_ts: i64,
}

impl Daemon {
    /// The process that has a pid now.
    #[must_use]
    pub fn of(pid: i32) -> Option<Self> {
        let stat = stat(pid)?;
        let boot = procfs::boot_time_secs().ok()?;
        let start_ns = stat.starttime * (1_000_000_000 / procfs::ticks_per_second());
        Some(Self {
            pid,
            process: ProcessId::new(pid.unsigned_abs(), stat.starttime).0,
            name: stat.comm,
            start_ts: (boot * 1_000_000_000 + start_ns) as i64,
        })
    }

    /// Whether it is a daemon that answers `status` once it is initialized.
    #[must_use]
    pub fn answers_status(&self) -> bool {
        matches!(self.name.as_str(), "ceph-osd" | "ceph-mds")
    }

    /// Whether it still runs.
    #[must_use]
    pub fn runs(&self) -> bool {
        Self::of(self.pid).is_some_and(|now| now.process == self.process)
    }

    /// What it has used, and its disk among those of the machine.
    #[must_use]
    pub fn used(&self, disk: Option<(u32, u32)>, disks: &[DiskStat]) -> Used {
        let cpu_memory = stat(self.pid).map(|stat| {
            let cpu = (stat.utime + stat.stime) * (1_000_000_000 / procfs::ticks_per_second());
            (cpu, stat.rss_bytes().get())
        });
        let disk = disk.and_then(|(major, minor)| {
            let found = disks.iter().find(|d| (d.major as u32, d.minor as u32) == (major, minor))?;
            Some((found.name.clone(), found.time_in_progress * 1_000_000))
        });
        Used { cpu_memory, disk }
    }
}

fn stat(pid: i32) -> Option<Stat> {
    Process::new(pid).ok()?.stat().ok()
}

/// Number of the disk an OSD's store is on, if it has one to itself: the link `block` of BlueStore.
#[must_use]
pub fn disk(osd_data: &Path) -> Option<(u32, u32)> {
    let block = fs::metadata(osd_data.join("block")).ok()?;
    // S_IFBLK; a plain file has no disk of its own.
    (block.st_mode() & libc::S_IFMT == libc::S_IFBLK)
        .then(|| (libc::major(block.st_rdev()), libc::minor(block.st_rdev())))
}

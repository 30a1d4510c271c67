//! A file, or a block device, that answers each request when a simulated device would.
//!
//! A FUSE file system is mounted over a directory and shows one file, `disk`. Data goes to the file of the same name in
//! the directory beneath, so that it outlives the emulation; when a request is answered is what the simulated device
//! ([`iotrail_sim::Device`]) says. With a loop device on top, the kernel's I/O schedulers, read-ahead and file systems
//! see a disk.
//!
//! What the emulation itself costs, its floor, is measured at the start through the same path and subtracted from each
//! answer ([`floor`]). An answer that is late nevertheless is counted and logged. Processors are kept from sleeping while
//! requests come ([`awake`]).
//!
//! Constraints: Linux with FUSE; `--loop` needs root. The emulating process must not wait for the emulated disk: it asks
//! the kernel for that (PR_SET_IO_FLUSHER, prctl(2)), and serves while it detaches the loop device.

mod attach;
mod awake;
mod backing;
mod error;
mod floor;
mod log;
mod pace;
mod serve;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fuser::{BackgroundSession, Config, MountOption, SessionACL};
use iotrail_sim::Device;
use iotrail_trail::TrailWriter;

pub use error::Error;
pub use floor::Floor;
pub use pace::{Counts, Lateness};

use attach::LoopDevice;
use backing::Backing;
use log::Log;
use pace::Pacer;

/// Name of the file that is served.
pub const NAME: &str = "disk";
/// Source of the mount, by which a later start finds what a killed one left.
const SOURCE: &str = "iotrail-emudisk";
/// Threads that read requests from the kernel: one can wait for the storage of the data while others go on.
const READERS: usize = 3;

/// What to emulate, and where.
pub struct Options {
    /// Directory to mount over. It is empty, or holds the data of an earlier emulation.
    pub directory: PathBuf,
    /// Bytes of the disk, at most the device's capacity, a multiple of 4096.
    pub size: u64,
    /// The device in virtual time.
    pub device: Box<dyn Device>,
    /// Whether the device is a disk with platters, which the kernel's schedulers ask.
    pub rotational: bool,
    /// Attach a loop device.
    pub attach: bool,
    /// Trail to log requests to, as rows of `disk_op`.
    pub trail: Option<TrailWriter>,
}

/// A running emulation.
pub struct Emulation {
    directory: PathBuf,
    session: Option<BackgroundSession>,
    pacer: Pacer,
    log: Option<Log>,
    attached: Option<LoopDevice>,
    floor: Floor,
}

impl Emulation {
    /// Mounts, attaches, measures the floor and serves.
    ///
    /// # Errors
    /// [`Error`]: nothing is mounted or attached then.
    pub fn start(options: Options) -> Result<Self, Error> {
        let Options { directory, size, device, rotational, attach, trail } = options;
        attach::clean_up_dead();
        let backing = Arc::new(Backing::open(&directory, size)?);
        // As the system names it: loop devices and mounts are found by it.
        let directory = directory.canonicalize().map_err(|source| Error::Io {
            what: "find",
            path: directory.clone(),
            source,
        })?;
        let log = trail.map(|trail| Log::start(trail, &directory)).transpose()?;
        let pacer = Pacer::start(device, log.as_ref().map(Log::sender), size);
        let mut config = Config::default();
        config.mount_options =
            vec![MountOption::FSName(SOURCE.into()), MountOption::NoSuid, MountOption::NoDev];
        config.acl = SessionACL::Owner;
        config.n_threads = Some(READERS);
        let keeps = Arc::new(AtomicBool::new(false));
        let disk = serve::Disk::new(backing, pacer.sender(), size, Arc::clone(&keeps));
        let mounting = |source| Error::Mount { directory: directory.clone(), source };
        let session = fuser::Session::new(disk, &directory, &config).map_err(mounting)?;
        let session = session.spawn().map_err(mounting)?;
        let mut emulation =
            Self { directory, session: Some(session), pacer, log, attached: None, floor: Floor::default() };
        if attach {
            emulation.attached = Some(LoopDevice::attach(&emulation.directory.join(NAME), rotational)?);
        }
        let target = emulation.target();
        emulation.floor = emulation.pacer.measure(|| floor::measure(&target, size))?;
        keeps.store(true, Ordering::Relaxed);
        Ok(emulation)
    }

    /// The file or block device to use.
    #[must_use]
    pub fn target(&self) -> PathBuf {
        self.attached
            .as_ref()
            .map_or_else(|| self.directory.join(NAME), |attached| attached.path().to_owned())
    }

    /// What the emulation costs a request, which is subtracted.
    #[must_use]
    pub fn floor(&self) -> Floor {
        self.floor
    }

    /// Requests so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.pacer.counts()
    }

    /// Where what is attached or mounted is in use: mount points of the loop device. Empty if it can be stopped.
    #[must_use]
    pub fn mounts(&self) -> Vec<PathBuf> {
        self.attached.as_ref().map(LoopDevice::mounts).unwrap_or_default()
    }

    /// Detaches, unmounts and writes the rest of the log.
    ///
    /// # Errors
    /// [`Error::Busy`] if the loop device is mounted, with the emulation still running; else [`Error::Trail`]: the log is
    /// incomplete.
    pub fn stop(mut self) -> Result<Counts, (Option<Box<Self>>, Error)> {
        let mounts = self.mounts();
        if !mounts.is_empty() {
            return Err((Some(Box::new(self)), Error::Busy { mounts }));
        }
        self.end().map_err(|error| (None, error))
    }

    /// As [`stop`](Self::stop), but a file system on the loop device is detached: it fails for whoever still uses it.
    ///
    /// # Errors
    /// [`Error::Trail`]: the log is incomplete.
    pub fn detach(mut self) -> Result<Counts, Error> {
        self.end()
    }

    fn end(&mut self) -> Result<Counts, Error> {
        // The loop device writes what it holds back: while it is still served.
        drop(self.attached.take());
        drop(self.session.take());
        attach::detach_mount(&self.directory);
        let counts = self.pacer.stop();
        self.log.take().map_or(Ok(()), |log| log.finish(&self.floor, &counts))?;
        Ok(counts)
    }
}

impl Drop for Emulation {
    fn drop(&mut self) {
        if self.session.is_some() {
            let _ = self.end();
        }
    }
}

/// Asks the kernel not to make this process wait for storage it serves, and for short waits: whatever is refused only
/// makes answers less punctual.
pub fn prepare_process() {
    /// prctl(2), since Linux 5.6; not in every libc crate.
    const PR_SET_IO_FLUSHER: i32 = 57;
    // SAFETY: calls without pointers.
    unsafe {
        libc::prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0);
        libc::prctl(libc::PR_SET_TIMERSLACK, 1, 0, 0, 0);
    }
}

/// Gives this thread the lowest real-time priority, where that is allowed (sched(7)).
fn raise_priority() {
    let param = libc::sched_param { sched_priority: 1 };
    // SAFETY: a valid structure; 0 is the calling thread.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &param) };
}

/// Whether something is mounted on a path, by /proc/self/mountinfo (proc(5)).
#[must_use]
pub fn is_mount_point(path: &Path) -> bool {
    attach::mount_table().iter().any(|mount| mount.at == path)
}

//! What the kernel knows of a program's I/O and a preload library can't see: disk I/O, CPU slices, who wakes whom, system
//! calls, requests on io_uring.
//!
//! ```no_run
//! # use std::time::Duration;
//! # use iotrail_probes::{Options, Probes, Scope};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let options = Options { disk: Scope::All, sched: Scope::Targets, ..Options::default() };
//! let mut probes = Probes::start(&options)?;
//! # let pid = 1;
//! probes.add_target(pid)?; // a program that was forked and waits for a word to exec
//! probes.poll(Duration::from_millis(100), &mut |event| println!("{event:?}"))?;
//! probes.finish(&mut |event| println!("{event:?}"))?;
//! # Ok(()) }
//! ```
//!
//! Two backends give the same [`DiskOp`], [`CpuSlice`] and [`Wake`]: eBPF programs (bpf/), which also see system calls
//! and io_uring, and, where the kernel refuses them, tracefs.
//!
//! Constraints: Linux on x86-64, 5.18 or newer. Pids are those of the machine's first PID namespace. Memory is
//! bounded: what there is no room for is counted ([`Dropped`]). The recorder's own process is never recorded:
//! it would record its recording. Times are CLOCK_MONOTONIC in nanoseconds.

#[cfg(ebpf)]
mod bpf;
#[cfg_attr(not(ebpf), allow(dead_code))]
mod calls;
#[cfg(ebpf)]
mod decode;
mod error;
mod events;
mod tracefs;

use std::io;
use std::time::Duration;

pub use crate::calls::name;
pub use crate::error::Refused;
pub use crate::events::{
    Change, CpuSlice, Dev, DiskOp, Event, Flags, Left, Op, Opened, Process, Syscall, UringOp, Wake, What,
};

#[cfg(ebpf)]
use crate::bpf::Bpf;
use crate::tracefs::Tracefs;

/// Whether this build has eBPF programs: it has, unless clang or libbpf's headers were missing.
pub const HAS_EBPF: bool = cfg!(ebpf);

/// Whose events a source gives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// Nobody's: the source is off and costs nothing.
    #[default]
    Off = 0,
    /// Those of processes added by [`Probes::add_target`] and, from then on, their children.
    Targets = 1,
    /// Everybody's but the recorder's own.
    All = 2,
}

/// How events are got from the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    Bpf,
    /// [`DiskOp`], [`CpuSlice`] and [`Wake`] only.
    Tracefs,
}

/// What to record.
#[derive(Clone, Debug)]
pub struct Options {
    /// [`DiskOp`]s by who queued them. What was written to the page cache is queued by the kernel's
    /// writeback threads: only [`Scope::All`] sees it.
    pub disk: Scope,
    /// [`CpuSlice`]s.
    pub sched: Scope,
    /// [`Wake`]s, by who is woken.
    pub wake: Scope,
    /// [`Syscall`]s and [`UringOp`]s; of targets also [`Process`]es.
    pub syscall: Scope,
    /// How a process that records its own calls is known. Its calls are then left out, but for those that its
    /// recorder doesn't see, and those that give names to files.
    pub watch: Option<Watch>,
    /// Bytes for events on their way to the recorder, over all CPUs; rounded up to what the kernel takes.
    pub buffer_bytes: u32,
    /// None: eBPF, or tracefs where eBPF is refused.
    pub backend: Option<Backend>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            disk: Scope::Off,
            sched: Scope::Off,
            wake: Scope::Off,
            syscall: Scope::Off,
            watch: None,
            buffer_bytes: 8 << 20,
            backend: None,
        }
    }
}

/// What a recorder in a process opens, in this order, when it begins.
#[derive(Clone, Debug)]
pub struct Watch {
    /// Its library, as the loader is told to open it. Longer than 255 bytes, it is not known.
    pub library: Vec<u8>,
    /// How the path of what it writes to begins.
    pub segment: Vec<u8>,
}

/// Events that were lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// For each possible CPU: no room in the buffer, or for one more operation in flight.
    pub full: Vec<u64>,
    /// Events that the kernel didn't show: an eBPF program is not interrupted by its own event; and ends of I/Os
    /// and calls, and switches, that must have been by what came after. Not known per CPU.
    pub unseen: u64,
}

impl Dropped {
    pub fn total(&self) -> u64 {
        self.full.iter().sum::<u64>() + self.unseen
    }
}

/// A recording in progress. Dropping it ends it; what is in flight is then lost.
pub struct Probes {
    source: Source,
    fallback: Option<String>,
}

enum Source {
    #[cfg(ebpf)]
    Bpf(Box<Bpf>),
    Tracefs(Box<Tracefs>),
}

impl Probes {
    /// Attaches to the kernel. From its return on nothing is missed.
    pub fn start(options: &Options) -> Result<Probes, Refused> {
        let mut refused = Refused::default();
        if options.backend != Some(Backend::Tracefs) {
            match start_bpf(options) {
                Ok(source) => return Ok(Probes { source, fallback: None }),
                Err(reason) => refused.bpf = Some(reason),
            }
        }
        if options.backend != Some(Backend::Bpf) {
            match Tracefs::start(options) {
                Ok(source) => {
                    return Ok(Probes { source: Source::Tracefs(Box::new(source)), fallback: refused.bpf });
                }
                Err(reason) => refused.tracefs = Some(reason),
            }
        }
        Err(refused)
    }

    pub fn backend(&self) -> Backend {
        match self.source {
            #[cfg(ebpf)]
            Source::Bpf(_) => Backend::Bpf,
            Source::Tracefs(_) => Backend::Tracefs,
        }
    }

    /// Why eBPF isn't used, if it was to be.
    pub fn fallback(&self) -> Option<&str> {
        self.fallback.as_deref()
    }

    /// Records process `pid` and the children it forks from now on, for sources with [`Scope::Targets`]. To miss
    /// nothing of a program, fork, let the child wait, add it, let it exec.
    pub fn add_target(&mut self, pid: u32) -> io::Result<()> {
        match &mut self.source {
            #[cfg(ebpf)]
            Source::Bpf(bpf) => bpf.add_target(pid),
            Source::Tracefs(tracefs) => tracefs.add_target(pid),
        }
    }

    /// Waits until a good part of the buffer is full, but no longer than `timeout`, and gives what there is.
    /// Operations come in the order in which they ended, more or less: CPUs don't wait for each other.
    pub fn poll(&mut self, timeout: Duration, sink: &mut dyn FnMut(Event)) -> io::Result<()> {
        match &mut self.source {
            #[cfg(ebpf)]
            Source::Bpf(bpf) => bpf.poll(timeout, sink),
            Source::Tracefs(tracefs) => tracefs.poll(timeout, sink),
        }
    }

    /// What was lost so far.
    pub fn dropped(&self) -> io::Result<Dropped> {
        match &self.source {
            #[cfg(ebpf)]
            Source::Bpf(bpf) => bpf.dropped(),
            Source::Tracefs(tracefs) => tracefs.dropped(),
        }
    }

    /// Detaches and gives what is left: waiting events, then what is still in flight, without its end. Returns
    /// what was lost.
    pub fn finish(self, sink: &mut dyn FnMut(Event)) -> io::Result<Dropped> {
        match self.source {
            #[cfg(ebpf)]
            Source::Bpf(bpf) => bpf.finish(sink),
            Source::Tracefs(tracefs) => tracefs.finish(sink),
        }
    }
}

#[cfg(ebpf)]
fn start_bpf(options: &Options) -> Result<Source, String> {
    Bpf::start(options).map(|bpf| Source::Bpf(Box::new(bpf)))
}

#[cfg(not(ebpf))]
fn start_bpf(_: &Options) -> Result<Source, String> {
    Err("this build has no eBPF programs, as clang or libbpf's headers were missing when it was built"
        .to_owned())
}

/// CLOCK_MONOTONIC, ns.
fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes into `time`; this clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

//! The eBPF programs: loaded, attached, and their records read.

use std::error::Error;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;
use std::{fs, io, iter};

use aya::maps::{Array, HashMap, MapData, PerCpuArray, RingBuf};
use aya::programs::BtfTracePoint;
use aya::{Btf, Ebpf, EbpfLoader, include_bytes_aligned};

use crate::calls::CALLS;
use crate::decode::Decoder;
use crate::events::{CpuSlice, Event, Left};
use crate::{Dropped, Options, Scope, Watch, now};

static PROGRAMS: &[u8] = include_bytes_aligned!(concat!(env!("OUT_DIR"), "/programs.o"));

// A program has the name of its tracepoint.
const FOLLOW: &[&str] = &["sched_process_fork", "sched_process_free"];
/// What ends an operation before what begins it, so that an end is not missed after its beginning was seen.
const DISK: &[&str] = &[
    "block_bio_complete",
    "block_rq_complete",
    "block_rq_requeue",
    "block_rq_issue",
    "block_rq_merge",
    "block_bio_frontmerge",
    "block_bio_backmerge",
    "block_split",
    "block_bio_queue",
];
const SCHED: &[&str] = &["sched_switch"];
/// What says that an interrupt is over before what says that it begins, and that before who is woken.
const WAKE: &[&str] = &[
    "irq_handler_exit",
    "softirq_exit",
    "local_timer_exit",
    "irq_handler_entry",
    "softirq_entry",
    "local_timer_entry",
    "sched_waking",
];
const SYSCALL: &[&str] = &[
    "sched_process_exit",
    "sched_process_exec",
    "sys_exit",
    "sys_enter",
    "io_uring_complete",
    "io_uring_submit_req",
];
/// Room for a path of [`Watch`](crate::Watch) in bpf/syscall.c, with its closing 0.
const LONGEST: usize = 256;
/// enum recorded of bpf/shared.h: no recorder is known in it.
const BY_NOBODY: u8 = 1;

// enum loss of bpf/shared.h
const FULL: u32 = 0;
const UNSEEN: u32 = 1;

/// The ring is read when so much of it is full, or when a poll times out.
const WAKEUP_PART: u32 = 4;

/// Operations in flight, by what the kernel tells them apart with; their values begin as the record that is
/// sent when they end (bpf/records.h).
struct InFlight {
    bios: HashMap<MapData, u64, [u8; 96]>,
    calls: HashMap<MapData, u64, [u8; 176]>,
    submitted: HashMap<MapData, u64, [u8; 88]>,
    /// For each CPU since when (u64) it runs which process and thread (u32).
    running: PerCpuArray<MapData, [u8; 16]>,
}

pub struct Bpf {
    ebpf: Ebpf,
    ring: RingBuf<MapData>,
    wakeup: Wakeup,
    targets: HashMap<MapData, u32, u8>,
    losses: PerCpuArray<MapData, u64>,
    in_flight: InFlight,
    decoder: Decoder,
    attached: Vec<&'static str>,
    sched: Scope,
}

impl Bpf {
    /// An error is the reason, in a line.
    pub fn start(options: &Options) -> Result<Bpf, String> {
        Bpf::attach(options).map_err(|error| one_line(error.as_ref()))
    }

    fn attach(options: &Options) -> Result<Bpf, Box<dyn Error + Send + Sync>> {
        let btf = Btf::from_sys_fs()?;
        let mut ebpf = load(options, &btf)?;
        let mut take = |name| ebpf.take_map(name).ok_or_else(|| format!("programs.o has no map {name}"));
        let ring = RingBuf::try_from(take("ring")?)?;
        let wakeup = Wakeup::new(&ring)?;
        let targets = HashMap::try_from(take("targets")?)?;
        let losses = PerCpuArray::try_from(take("losses")?)?;
        let in_flight = InFlight {
            bios: HashMap::try_from(take("bios")?)?,
            calls: HashMap::try_from(take("inside")?)?,
            submitted: HashMap::try_from(take("submitted")?)?,
            running: PerCpuArray::try_from(take("running")?)?,
        };
        let mut calls: Array<_, u32> = Array::try_from(take("calls")?)?;
        for call in CALLS {
            calls.set(call.key(), call.form(), 0)?;
        }
        let mut attached: Vec<&str> = Vec::new();
        let scopes = [options.disk, options.sched, options.wake, options.syscall];
        if scopes.contains(&Scope::Targets) {
            attached.extend(FOLLOW);
        }
        for (scope, names) in scopes.into_iter().zip([DISK, SCHED, WAKE, SYSCALL]) {
            if scope != Scope::Off {
                attached.extend(names);
            }
        }
        for name in &attached {
            program(&mut ebpf, name)?.load(name, &btf)?;
        }
        for name in &attached {
            program(&mut ebpf, name)?.attach()?;
        }
        let (decoder, sched) = (Decoder::default(), options.sched);
        Ok(Bpf { ebpf, ring, wakeup, targets, losses, in_flight, decoder, attached, sched })
    }

    pub fn add_target(&mut self, pid: u32) -> io::Result<()> {
        self.targets.insert(pid, BY_NOBODY, 0).map_err(io::Error::other)
    }

    pub fn poll(&mut self, timeout: Duration, sink: &mut dyn FnMut(Event)) -> io::Result<()> {
        self.wakeup.wait(timeout)?;
        self.drain(sink);
        Ok(())
    }

    fn drain(&mut self, sink: &mut dyn FnMut(Event)) {
        while let Some(record) = self.ring.next() {
            if let Some(event) = self.decoder.decode(&record) {
                sink(event);
            }
        }
    }

    pub fn dropped(&self) -> io::Result<Dropped> {
        self.lost(self.missed()?)
    }

    fn lost(&self, missed: u64) -> io::Result<Dropped> {
        let by_cpu = |loss| self.losses.get(&loss, 0).map_err(io::Error::other);
        Ok(Dropped { full: by_cpu(FULL)?.to_vec(), unseen: missed + by_cpu(UNSEEN)?.iter().sum::<u64>() })
    }

    /// How often the kernel left out a program because it ran on that CPU already.
    fn missed(&self) -> io::Result<u64> {
        let mut missed = 0;
        for name in &self.attached {
            let program = self.ebpf.program(name).ok_or(io::ErrorKind::NotFound)?;
            let fd = program.fd().map_err(io::Error::other)?.as_fd().as_raw_fd();
            let info = fs::read_to_string(format!("/proc/self/fdinfo/{fd}"))?;
            let count = info.lines().find_map(|line| line.strip_prefix("recursion_misses:"));
            missed += count.and_then(|count| count.trim().parse().ok()).unwrap_or(0);
        }
        Ok(missed)
    }

    pub fn finish(mut self, sink: &mut dyn FnMut(Event)) -> io::Result<Dropped> {
        // Only programs that are loaded can say what they missed.
        let missed = self.missed()?;
        for name in &self.attached {
            program(&mut self.ebpf, name)
                .and_then(|program| Ok(program.unload()?))
                .map_err(io::Error::other)?;
        }
        let end = now();
        self.drain(sink);
        let InFlight { bios, calls, submitted, running } = &self.in_flight;
        let records = values(bios).map(Vec::from);
        let records = records.chain(values(calls).map(Vec::from)).chain(values(submitted).map(Vec::from));
        records.filter_map(|record| self.decoder.decode(&record)).for_each(&mut *sink);
        let running = running.get(&0, 0).map_err(io::Error::other)?;
        for (cpu, (start, pid, tid)) in running.iter().map(running_since).enumerate() {
            let wanted = match self.sched {
                Scope::Off => false,
                Scope::Targets => self.targets.get(&pid, 0).is_ok(),
                Scope::All => pid != std::process::id(),
            };
            if wanted && start != 0 && tid != 0 {
                let (cpu, left) = (cpu as u32, Left::Running);
                sink(Event::CpuSlice(CpuSlice { start, end, cpu, pid, tid, left }));
            }
        }
        self.lost(missed)
    }
}

fn load(options: &Options, btf: &Btf) -> Result<Ebpf, Box<dyn Error + Send + Sync>> {
    // The kernel takes powers of two of whole pages.
    let ring_bytes = options.buffer_bytes.clamp(4096, 1 << 30).next_power_of_two();
    let (disk, sched, syscall) = (options.disk as u32, options.sched as u32, options.syscall as u32);
    let wake = options.wake as u32;
    let (recorder, wakeup_bytes) = (std::process::id(), u64::from(ring_bytes / WAKEUP_PART));
    let path = |of: fn(&Watch) -> &Vec<u8>| {
        let mut path = [0; LONGEST];
        if let Some(bytes) = options.watch.as_ref().map(of).filter(|bytes| bytes.len() < LONGEST) {
            path[..bytes.len()].copy_from_slice(bytes);
        }
        path
    };
    let (library, segment) = (path(|watch| &watch.library), path(|watch| &watch.segment));
    let mut loader = EbpfLoader::new();
    loader
        .btf(Some(btf))
        .override_global("disk_scope", &disk, true)
        .override_global("sched_scope", &sched, true)
        .override_global("wake_scope", &wake, true)
        .override_global("syscall_scope", &syscall, true)
        .override_global("recorder", &recorder, true)
        .override_global("wakeup_bytes", &wakeup_bytes, true)
        .override_global("library", &library, true)
        .override_global("segment", &segment, true)
        .map_max_entries("ring", ring_bytes);
    // What a source that is off would keep costs memory too.
    for (scope, maps) in [(options.disk, &["bios", "parts"]), (options.syscall, &["inside", "submitted"])] {
        if scope == Scope::Off {
            maps.iter().for_each(|map| _ = loader.map_max_entries(map, 1));
        }
    }
    Ok(loader.load(PROGRAMS)?)
}

fn program<'a>(
    ebpf: &'a mut Ebpf,
    name: &str,
) -> Result<&'a mut BtfTracePoint, Box<dyn Error + Send + Sync>> {
    let program = ebpf.program_mut(name).ok_or_else(|| format!("programs.o has no program {name}"))?;
    Ok(program.try_into()?)
}

fn values<const N: usize>(map: &HashMap<MapData, u64, [u8; N]>) -> impl Iterator<Item = [u8; N]> {
    map.iter().filter_map(|entry| entry.ok().map(|(_, value)| value))
}

/// struct running: since, process, thread.
fn running_since(value: &[u8; 16]) -> (u64, u32, u32) {
    let number = u128::from_ne_bytes(*value);
    (number as u64, (number >> 64) as u32, (number >> 96) as u32)
}

/// An error and what caused it, on one line: what a verifier has to say takes thousands. What the kernel doesn't
/// permit is said without the detour.
fn one_line(error: &(dyn Error + 'static)) -> String {
    let causes = || iter::successors(Some(error), |&error| error.source());
    let denied = |cause: &io::Error| cause.kind() == io::ErrorKind::PermissionDenied;
    if let Some(cause) = causes().filter_map(|cause| cause.downcast_ref()).find(|cause| denied(cause)) {
        return cause.to_string();
    }
    let mut lines: Vec<String> = causes()
        .map(|cause| cause.to_string().lines().next().unwrap_or_default().trim().to_owned())
        .collect();
    // Most messages of aya repeat their cause.
    lines.dedup_by(|cause, error| error.contains(cause.as_str()));
    lines.join(": ")
}

/// Waits for the programs to wake the reader. Edge-triggered: any record that waits would end a plain poll.
struct Wakeup(OwnedFd);

impl Wakeup {
    fn new(ring: &RingBuf<MapData>) -> io::Result<Wakeup> {
        // SAFETY: takes no memory.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: just opened, and owned by nobody else.
        let epoll = unsafe { OwnedFd::from_raw_fd(fd) };
        let mut event = libc::epoll_event { events: (libc::EPOLLIN | libc::EPOLLET) as u32, u64: 0 };
        // SAFETY: both are open, and `event` lives until the call returns.
        if unsafe { libc::epoll_ctl(fd, libc::EPOLL_CTL_ADD, ring.as_raw_fd(), &mut event) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Wakeup(epoll))
    }

    fn wait(&self, timeout: Duration) -> io::Result<()> {
        let timeout = timeout.as_millis().min(i32::MAX as u128) as i32;
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        // SAFETY: room for the one event asked for.
        if unsafe { libc::epoll_wait(self.0.as_raw_fd(), &mut event, 1, timeout) } < 0 {
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
        Ok(())
    }
}

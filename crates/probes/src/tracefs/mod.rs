//! The kernel's own trace events, where eBPF is refused: raw pages of a private instance's buffers, one a CPU
//! (Documentation/trace/ftrace.rst).
//!
//! All processes are traced and chosen here: an instance can leave out events by who runs, but disks complete
//! their requests in interrupts of whoever runs, the recorder too.

mod disk;
mod format;
mod mount;
mod page;
mod processes;
mod seen;

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::time::Duration;

use crate::events::{CpuSlice, Dev, DiskOp, Event, Left, Wake};
use crate::{Dropped, Options, Scope, now};
use disk::Pairing;
use mount::{Instance, Root};
use page::Layout;
use processes::Processes;
use seen::{Catalog, Seen};

/// The reader is woken when so much of a buffer is full.
const WAKEUP_PERCENT: &str = "25";
/// Events are put in order across CPUs once they are so old, ns: one is in its buffer a moment after its time.
const SETTLED: u64 = 20_000_000;

pub struct Tracefs {
    cpus: Vec<Cpu>,
    catalog: Catalog,
    layout: Layout,
    /// Read, but not settled: time, CPU, event.
    held: Vec<(u64, usize, Seen)>,
    follow: Follow,
    // Last: a buffer that is open can't be removed, nor a file system that is used.
    instance: Instance,
    _root: Root,
}

struct Cpu {
    pipe: File,
    /// Pages of its buffer: no more are read in one go.
    pages: u32,
}

/// Events to rows.
struct Follow {
    disk: Scope,
    sched: Scope,
    wake: Scope,
    targets: HashSet<u32>,
    processes: Processes,
    whole_disks: HashMap<Dev, Dev>,
    pairing: Pairing,
    /// By CPU: since when which thread runs there.
    running: Vec<Option<(u64, u32)>>,
    /// Slices that are not given, as a switch was not seen.
    unseen: u64,
}

impl Tracefs {
    /// An error is the reason, in a line.
    pub fn start(options: &Options) -> Result<Tracefs, String> {
        if [options.disk, options.sched, options.wake].iter().all(|scope| *scope == Scope::Off) {
            return Err("it shows disk I/O, CPU slices and wake-ups only".to_owned());
        }
        let root = Root::find().map_err(|error| format!("it can't be mounted: {error}"))?;
        let said = |error: io::Error| error.to_string();
        let instance = Instance::create(&root)
            .map_err(|error| format!("no instance of its own in {:?}: {error}", root.path))?;
        let events = root.path.join("events");
        let catalog = Catalog::read(
            &events,
            [options.disk, options.sched, options.wake].map(|scope| scope != Scope::Off),
        )?;
        // One read gives all of it, a second one nothing (show_header, kernel/trace/trace_events.c).
        let mut header = vec![0; 4096];
        let length = File::open(events.join("header_page")).and_then(|mut file| file.read(&mut header));
        header.truncate(length.map_err(said)?);
        let layout =
            Layout::parse(&String::from_utf8_lossy(&header)).ok_or("its header_page is not understood")?;
        instance.write("trace_clock", "mono").map_err(said)?;
        instance.write("options/record-tgid", "1").map_err(said)?;
        instance.write("buffer_percent", WAKEUP_PERCENT).map_err(said)?;
        let mut pipes = Vec::new();
        for number in 0.. {
            let path = instance.path.join(format!("per_cpu/cpu{number}/trace_pipe_raw"));
            match OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path) {
                Ok(pipe) => pipes.push(pipe),
                Err(error) if error.kind() == io::ErrorKind::NotFound => break,
                Err(error) => return Err(error.to_string()),
            }
        }
        let bytes = options.buffer_bytes / pipes.len().max(1) as u32;
        instance.write("buffer_size_kb", &(bytes / 1024).max(1).to_string()).map_err(said)?;
        let pages = bytes / layout.size as u32 + 1;
        let cpus: Vec<Cpu> = pipes.into_iter().map(|pipe| Cpu { pipe, pages }).collect();
        let follow = Follow {
            disk: options.disk,
            sched: options.sched,
            wake: options.wake,
            targets: HashSet::new(),
            processes: Processes::new(root.path.join("saved_tgids")),
            whole_disks: HashMap::new(),
            pairing: Pairing::default(),
            running: vec![None; cpus.len()],
            unseen: 0,
        };
        for name in &catalog.names {
            instance.write(&format!("events/{name}/enable"), "1").map_err(said)?;
        }
        Ok(Tracefs { cpus, catalog, layout, held: Vec::new(), follow, instance, _root: root })
    }

    pub fn add_target(&mut self, pid: u32) -> io::Result<()> {
        self.follow.targets.insert(pid);
        Ok(())
    }

    pub fn poll(&mut self, timeout: Duration, sink: &mut dyn FnMut(Event)) -> io::Result<()> {
        let mut ready: Vec<libc::pollfd> = self
            .cpus
            .iter()
            .map(|cpu| libc::pollfd { fd: cpu.pipe.as_raw_fd(), events: libc::POLLIN, revents: 0 })
            .collect();
        let timeout = timeout.as_millis().min(i32::MAX as u128) as i32;
        // SAFETY: as many pollfds as said, which live until the call returns.
        if unsafe { libc::poll(ready.as_mut_ptr(), ready.len() as libc::nfds_t, timeout) } < 0 {
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
        let settled = self.read(now().saturating_sub(SETTLED), false)?;
        self.give(settled, sink);
        Ok(())
    }

    /// Reads what there is, and returns until when that is all there was, at most `settled`.
    fn read(&mut self, mut settled: u64, to_the_end: bool) -> io::Result<u64> {
        let mut page = vec![0; self.layout.size];
        for (number, cpu) in self.cpus.iter_mut().enumerate() {
            let mut last = 0;
            for read in 0.. {
                if read == cpu.pages && !to_the_end {
                    settled = settled.min(last);
                    break;
                }
                let length = match cpu.pipe.read(&mut page) {
                    Ok(0) => break,
                    Ok(length) => length,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => return Err(error),
                };
                self.layout.records(&page[..length], &mut |time, record| {
                    last = time;
                    self.held.extend(self.catalog.decode(record).map(|seen| (time, number, seen)));
                });
            }
        }
        Ok(settled)
    }

    /// Gives what comes of events before a time, in its order.
    fn give(&mut self, before: u64, sink: &mut dyn FnMut(Event)) {
        self.held.sort_by_key(|&(time, _, _)| time);
        let settled = self.held.partition_point(|&(time, _, _)| time < before);
        for (time, cpu, seen) in self.held.drain(..settled) {
            self.follow.take(time, cpu, seen, sink);
        }
    }

    pub fn dropped(&self) -> io::Result<Dropped> {
        let lost = |number| {
            let stats = fs::read_to_string(self.instance.path.join(format!("per_cpu/cpu{number}/stats")))?;
            let counts = stats.lines().filter_map(|line| line.split_once(": "));
            let lost =
                counts.filter(|(name, _)| ["overrun", "commit overrun", "dropped events"].contains(name));
            Ok(lost.filter_map(|(_, count)| count.parse::<u64>().ok()).sum())
        };
        Ok(Dropped {
            full: (0..self.cpus.len()).map(lost).collect::<io::Result<_>>()?,
            unseen: self.follow.unseen,
        })
    }

    pub fn finish(mut self, sink: &mut dyn FnMut(Event)) -> io::Result<Dropped> {
        self.instance.write("tracing_on", "0")?;
        let end = now();
        self.read(end, true)?;
        self.give(u64::MAX, sink);
        let dropped = self.dropped()?;
        self.follow.finish(end, sink);
        Ok(dropped)
    }
}

impl Follow {
    fn wanted(&self, scope: Scope, pid: u32) -> bool {
        match scope {
            Scope::Off => false,
            Scope::Targets => self.targets.contains(&pid),
            Scope::All => pid != std::process::id(),
        }
    }

    fn take(&mut self, time: u64, cpu: usize, seen: Seen, sink: &mut dyn FnMut(Event)) {
        match seen {
            Seen::Queued { tid, mut request, flags, comm } => {
                let pid = self.processes.of(tid);
                if !self.wanted(self.disk, pid) {
                    return;
                }
                request.dev = self.whole_disk(request.dev);
                let op = DiskOp {
                    queued: time,
                    issued: None,
                    completed: None,
                    dev: request.dev,
                    op: request.op,
                    pos: request.pos,
                    length: request.length as u32,
                    flags,
                    merged: false,
                    requests: 0,
                    failed: false,
                    pid,
                    tid,
                    comm,
                };
                self.pairing.queue(op).into_iter().map(Event::DiskOp).for_each(sink);
            }
            Seen::Merged(mut request) => {
                request.dev = self.whole_disk(request.dev);
                self.pairing.merge(request);
            }
            Seen::Issued(request) => self.pairing.issue(time, request),
            Seen::Requeued(request) => self.pairing.requeue(request),
            Seen::Completed { mut request, error, issued } => {
                request.dev = self.whole_disk(request.dev);
                let done = self.pairing.complete(time, request, error != 0, issued);
                // One that must not wait and would have to (REQ_NOWAIT) never was an I/O: it is queued again.
                if issued || error != -libc::EAGAIN {
                    done.into_iter().map(Event::DiskOp).for_each(sink);
                }
            }
            Seen::Switched { tid, state, next } => {
                let before = self.running[cpu].replace((time, next));
                match before {
                    Some((start, running)) if running == tid => {
                        if let Some(pid) = self.recorded(tid) {
                            sink(slice(start, time, cpu, pid, tid, left(state)));
                        }
                    }
                    // A switch between the two was not seen, as happens on virtual machines with those from
                    // the idle task: one slice has no end, the other no start.
                    Some((_, running)) => {
                        let lost = [running, tid].map(|tid| self.recorded(tid));
                        self.unseen += lost.iter().flatten().count() as u64;
                    }
                    None => (),
                }
            }
            Seen::Waking { tid, interrupt, by } => {
                let pid = self.processes.of(tid);
                if self.wanted(self.wake, pid) {
                    let by = (self.processes.of(by), by);
                    sink(Event::Wake(Wake { time, pid, tid, interrupt, by }));
                }
            }
            Seen::Forked { parent, child } => {
                self.processes.forget(child);
                if self.targets.contains(&self.processes.of(parent)) {
                    self.targets.insert(self.processes.of(child));
                }
            }
            Seen::Freed { tid } => {
                // The process's own number, once its last thread is gone.
                self.targets.remove(&tid);
                self.processes.forget(tid);
            }
        }
    }

    /// The process of a thread of which slices are recorded.
    fn recorded(&mut self, tid: u32) -> Option<u32> {
        // Thread 0 is the idle task.
        if tid == 0 || self.sched == Scope::Off {
            return None;
        }
        let pid = self.processes.of(tid);
        self.wanted(self.sched, pid).then_some(pid)
    }

    fn finish(mut self, end: u64, sink: &mut dyn FnMut(Event)) {
        for (cpu, running) in std::mem::take(&mut self.running).into_iter().enumerate() {
            if let Some((start, tid)) = running
                && let Some(pid) = self.recorded(tid)
            {
                sink(slice(start, end, cpu, pid, tid, Left::Running));
            }
        }
        self.pairing.finish().map(Event::DiskOp).for_each(sink);
    }

    /// Events of bios name a partition, those of requests its disk; positions are the disk's in both.
    fn whole_disk(&mut self, dev: Dev) -> Dev {
        *self.whole_disks.entry(dev).or_insert_with(|| disk_of(dev).unwrap_or(dev))
    }
}

fn slice(start: u64, end: u64, cpu: usize, pid: u32, tid: u32, left: Left) -> Event {
    Event::CpuSlice(CpuSlice { start, end, cpu: cpu as u32, pid, tid, left })
}

/// The disk a partition is on.
fn disk_of(dev: Dev) -> Option<Dev> {
    let path = fs::canonicalize(format!("/sys/dev/block/{}:{}", dev.major, dev.minor)).ok()?;
    if !path.join("partition").exists() {
        return None;
    }
    let number = fs::read_to_string(path.parent()?.join("dev")).ok()?;
    let (major, minor) = number.trim().split_once(':')?;
    Some(Dev { major: major.parse().ok()?, minor: minor.parse().ok()? })
}

/// From prev_state, the state as tools report it (TASK_REPORT, include/linux/sched.h).
fn left(state: u32) -> Left {
    const UNINTERRUPTIBLE: u32 = 0x2;
    const ENDED: u32 = 0x10 | 0x20; // X, Z
    match state & 0xff {
        0 => Left::Runnable,
        state if state & ENDED != 0 => Left::Ended,
        UNINTERRUPTIBLE => Left::Disk,
        _ => Left::Sleep,
    }
}

//! `iotrail record --kernel`: what the kernel sees, posted into the recording's own session.
//!
//! One thread of the recorder takes events from [`iotrail_probes`] and posts them like a program would, so
//! that journals, budget, losses and recovery are those of all other records. The sealer gives them to threads and
//! breadcrumbs (`iotrail_trail::seal::rows`). Calls are in [`calls`].

mod calls;

use std::collections::HashSet;
use std::ffi::OsStr;
use std::io::{PipeReader, PipeWriter, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use iotrail_format::segment::{
    NONE, OP_DISK, OP_SLICE, OP_WAKE, SEGMENT_PREFIX, TextKind, UNFINISHED, UnseenKind,
};
use iotrail_probes::{Backend, CpuSlice, DiskOp, Event, Left, Op, Options, Probes, Scope, Wake, Watch};
use iotrail_sdk::post::{self, Draft};

use self::calls::Calls;
use crate::failure::Failure;
use crate::program::Found;

/// How events are got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Via {
    /// eBPF, or tracefs where that is refused
    Auto,
    /// eBPF
    Ebpf,
    /// A private instance of tracefs
    Tracefs,
}

/// What is recorded of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    /// Disk I/O that the program's threads queue; with --system, of the whole machine
    Disk,
    /// When the program's threads ran; with --causal, also who woke them
    Cpu,
    /// Calls that pass no recorder in the program: statically linked programs, Go, io_uring
    Calls,
}

/// What is recorded of the kernel.
pub struct Wanted<'a> {
    /// Its parts.
    pub parts: &'a [Part],
    /// Whether disk I/O is that of the whole machine.
    pub system: bool,
    /// Whether who woke whom is wanted, with [`Part::Cpu`].
    pub causal: bool,
}

/// Longest wait for the kernel's buffer to fill.
const PATIENCE: Duration = Duration::from_millis(50);
/// Events on their way, over all CPUs.
const BUFFER: u32 = 16 << 20;

/// The kernel being recorded.
pub struct Kernel {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<(), String>>,
    /// How.
    pub via: &'static str,
    /// Whether calls of programs that no recorder is in are seen.
    pub sees_calls: bool,
    /// Why not by eBPF, if it was to be.
    pub fallback: Option<String>,
}

/// Both ends that the program needs before its exec.
pub struct Gate {
    pid: PipeWriter,
    go: PipeReader,
}

impl Kernel {
    /// Attaches to the kernel; from its return on disk I/O is seen, if the parts say so: of the program and its
    /// children, or of the whole machine. The program goes through the gate, so that nothing of it is missed.
    pub fn start(
        wanted: &Wanted<'_>,
        via: Via,
        session: &Path,
        library: &OsStr,
        program: &Found,
    ) -> Result<(Self, Gate), Failure> {
        let scope = |part, whose| if wanted.parts.contains(&part) { whose } else { Scope::Off };
        let options = Options {
            disk: scope(Part::Disk, if wanted.system { Scope::All } else { Scope::Targets }),
            sched: scope(Part::Cpu, Scope::Targets),
            wake: scope(Part::Cpu, if wanted.causal { Scope::Targets } else { Scope::Off }),
            syscall: scope(Part::Calls, Scope::Targets),
            watch: Some(Watch {
                library: library.as_bytes().to_owned(),
                segment: session.join(SEGMENT_PREFIX).into_os_string().into_encoded_bytes(),
            }),
            buffer_bytes: BUFFER,
            backend: match via {
                Via::Auto => None,
                Via::Ebpf => Some(Backend::Bpf),
                Via::Tracefs => Some(Backend::Tracefs),
            },
        };
        let probes = Probes::start(&options).map_err(|refused| Failure::new(refused.to_string()))?;
        let sees_calls = probes.backend() == Backend::Bpf;
        let name = if sees_calls { "ebpf" } else { "tracefs" };
        let fallback = probes.fallback().map(str::to_owned);
        let pipe = || std::io::pipe().map_err(|error| Failure::new(format!("cannot make a pipe: {error}")));
        let ((pids, pid), (go, goes)) = (pipe()?, pipe()?);
        let stop = Arc::new(AtomicBool::new(false));
        let bare = (!sees_calls && program.bare.is_some()).then(|| program.path.clone());
        let (stopped, session) = (stop.clone(), session.to_owned());
        let thread = std::thread::Builder::new()
            .name("iotrail-kernel".into())
            .spawn(move || record(probes, &session, bare.as_deref(), (pids, goes), &stopped))
            .map_err(|error| Failure::new(format!("cannot start a thread: {error}")))?;
        Ok((Self { stop, thread, via: name, sees_calls, fallback }, Gate { pid, go }))
    }

    /// Ends it; what was seen is posted.
    pub fn finish(self) {
        self.stop.store(true, Ordering::Release);
        match self.thread.join() {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                iotrail_trail::say!("iotrail: warning: the kernel was not recorded to the end: {error}")
            }
            Err(_) => iotrail_trail::say!("iotrail: warning: recording the kernel ended unexpectedly"),
        }
    }
}

impl Gate {
    /// Makes a command's process wait, before its exec, until the kernel's recorder knows it.
    pub fn guard(self, command: &mut Command) {
        // SAFETY: between fork and exec it only writes, reads and asks for its pid.
        unsafe {
            command.pre_exec(move || {
                let pid = std::process::id().to_ne_bytes();
                let mut word = [0];
                if libc::write(self.pid.as_raw_fd(), pid.as_ptr().cast(), pid.len()) < 0
                    || libc::read(self.go.as_raw_fd(), word.as_mut_ptr().cast(), 1) < 0
                {
                    return Err(std::io::Error::last_os_error());
                }
                Ok(())
            });
        }
    }
}

/// The thread. `bare` is a program whose calls nobody sees.
fn record(
    mut probes: Probes,
    session: &Path,
    bare: Option<&Path>,
    (mut pids, mut goes): (PipeReader, PipeWriter),
    stop: &AtomicBool,
) -> Result<(), String> {
    crate::sampler::join_session(session);
    let mut pid = [0; 4];
    let mut seen = Seen::default();
    // None if the program could not be started.
    if pids.read_exact(&mut pid).is_ok() {
        let pid = u32::from_ne_bytes(pid);
        if probes.backend() == Backend::Bpf {
            seen.calls.begin(pid);
        }
        if let Some(program) = bare {
            seen.calls.unseen(program);
        }
        probes.add_target(pid).map_err(|error| error.to_string())?;
        goes.write_all(&[1]).map_err(|error| error.to_string())?;
    }
    while !stop.load(Ordering::Acquire) {
        probes.poll(PATIENCE, &mut |event| seen.event(&event)).map_err(|error| error.to_string())?;
        seen.calls.tick(iotrail_trail::seal::clock::clock_ns(libc::CLOCK_MONOTONIC));
    }
    let dropped = probes.finish(&mut |event| seen.event(&event)).map_err(|error| error.to_string())?;
    seen.calls.finish();
    if dropped.total() != 0 {
        post::unseen(UnseenKind::Kernel, 0, i64::try_from(dropped.total()).unwrap_or(i64::MAX));
    }
    Ok(())
}

/// What is known between events.
#[derive(Default)]
struct Seen {
    /// Threads whose name was posted.
    named: HashSet<(u32, u32)>,
    calls: Calls,
}

impl Seen {
    fn event(&mut self, event: &Event) {
        match event {
            Event::DiskOp(op) => post_disk(op, &mut self.named),
            Event::CpuSlice(slice) => post_slice(slice, &mut self.named),
            Event::Wake(wake) => post_wake(wake),
            Event::Syscall(call) => self.calls.syscall(call),
            Event::UringOp(op) => self.calls.uring(op),
            Event::Process(process) => self.calls.process(process),
        }
    }
}

/// Says what a thread is called, the first time it is seen.
fn name(pid: u32, tid: u32, name: Option<&str>, named: &mut HashSet<(u32, u32)>) {
    if named.insert((pid, tid)) {
        let comm = || std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/comm")).ok();
        if let Some(text) = name.map(str::to_owned).or_else(comm) {
            let key = i64::from(pid) | i64::from(tid) << 32;
            post::text(TextKind::Stranger, key, text.trim_end().as_bytes());
        }
    }
}

fn post_disk(op: &DiskOp, named: &mut HashSet<(u32, u32)>) {
    name(op.pid, op.tid, Some(&op.comm), named);
    let number = match op.op {
        Op::Read => 0,
        Op::Write => 1,
        Op::Flush => 2,
        Op::Discard => 3,
        Op::SecureErase => 4,
        Op::Other => 5,
    };
    let flags = [op.flags.sync, op.flags.meta, op.flags.fua, op.flags.preflush, op.flags.rahead];
    let draft = Draft {
        opcode: OP_DISK,
        kind: number | u8::from(op.merged) << 6 | u8::from(op.failed) << 7,
        fd: op.tid as i32,
        object: i64::from(op.pid) | i64::from(op.dev.major << 20 | op.dev.minor) << 32,
        pos: op.pos as i64,
        length: i64::from(op.length),
        aux: flags.iter().enumerate().map(|(bit, set)| i64::from(*set) << bit).sum::<i64>()
            | i64::from(op.requests) << 8,
    };
    let dur = op.completed.map_or(UNFINISHED, |completed| completed.saturating_sub(op.queued));
    post::interval(&draft, op.queued, dur, op.issued.map_or(NONE, |issued| issued as i64), 0);
}

fn post_slice(slice: &CpuSlice, named: &mut HashSet<(u32, u32)>) {
    name(slice.pid, slice.tid, None, named);
    let draft = Draft {
        opcode: OP_SLICE,
        kind: match slice.left {
            Left::Runnable => 0,
            Left::Sleep => 1,
            Left::Disk => 2,
            Left::Ended => 3,
            Left::Running => 4,
        },
        fd: slice.tid as i32,
        object: i64::from(slice.pid),
        pos: i64::from(slice.cpu),
        length: NONE,
        aux: NONE,
    };
    post::interval(&draft, slice.start, slice.end.saturating_sub(slice.start), 0, 0);
}

fn post_wake(wake: &Wake) {
    let draft = Draft {
        opcode: OP_WAKE,
        kind: u8::from(wake.interrupt),
        fd: wake.tid as i32,
        object: i64::from(wake.pid),
        pos: i64::from(wake.by.0),
        length: i64::from(wake.by.1),
        aux: NONE,
    };
    post::interval(&draft, wake.time, 0, 0, 0);
}

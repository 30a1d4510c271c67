//! Known work, recorded in this kernel: what comes out must be what was done. It takes root; without, each test
//! says on stderr that it was skipped.

mod children;
mod disk;
mod limits;
mod loop_device;
mod sched;
mod syscall;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use iotrail_probes::{
    Backend, CpuSlice, DiskOp, Event, HAS_EBPF, Options, Probes, Process, Syscall, UringOp,
};

use children::Child;

/// The backends to test; none, and a word on stderr, where this process may not record.
fn backends() -> Vec<Backend> {
    let mut backends = Vec::new();
    if permitted() {
        backends.push(Backend::Tracefs);
    }
    if ebpf_permitted() {
        backends.push(Backend::Bpf);
    }
    backends
}

fn ebpf_permitted() -> bool {
    if !HAS_EBPF {
        eprintln!("skipped: built without eBPF programs");
    }
    HAS_EBPF && permitted()
}

/// What was recorded of a child, and what the system says it used.
struct Recorded {
    pid: u32,
    events: Vec<Event>,
    /// Events that the kernel left out; there was room for all.
    unseen: u64,
    cpu_ns: u64,
}

impl Recorded {
    fn disk_ops(&self) -> Vec<&DiskOp> {
        self.all(|event| if let Event::DiskOp(op) = event { Some(op) } else { None })
    }

    fn slices(&self) -> Vec<&CpuSlice> {
        self.all(|event| if let Event::CpuSlice(slice) = event { Some(slice) } else { None })
    }

    fn calls(&self) -> Vec<&Syscall> {
        self.all(|event| if let Event::Syscall(call) = event { Some(call) } else { None })
    }

    fn uring_ops(&self) -> Vec<&UringOp> {
        self.all(|event| if let Event::UringOp(op) = event { Some(op) } else { None })
    }

    fn changes(&self) -> Vec<&Process> {
        self.all(|event| if let Event::Process(process) = event { Some(process) } else { None })
    }

    fn all<'a, T>(&'a self, pick: impl Fn(&'a Event) -> Option<&'a T>) -> Vec<&'a T> {
        self.events.iter().filter_map(pick).collect()
    }
}

/// How often work is recorded at most until all its events were seen.
const TRIES: usize = 10;

/// Records a child that does `work`, from its first call to its end. On virtual machines the kernel was seen to
/// leave out events for a while, on one CPU, mostly when another recorder began or ended: then again.
fn record(options: &Options, work: impl Fn()) -> Recorded {
    let _alone = alone();
    let mut tries = (0..TRIES).map(|_| record_once(options, &work));
    let whole = |recorded: &Recorded| {
        recorded.unseen == 0 && recorded.disk_ops().iter().all(|op| op.completed.is_some())
    };
    // The last one, if it never succeeds: the test then says what is missing.
    let mut recorded = tries.next().expect("it is tried");
    while !whole(&recorded)
        && let Some(again) = tries.next()
    {
        recorded = again;
    }
    recorded
}

fn record_once(options: &Options, work: impl Fn()) -> Recorded {
    let mut probes = Probes::start(options).unwrap();
    let child = Child::fork(work);
    let pid = child.pid;
    probes.add_target(pid).unwrap();
    child.go();
    let mut events = Vec::new();
    let cpu_ns = loop {
        probes.poll(Duration::from_millis(10), &mut |event| events.push(event)).unwrap();
        if let Some(cpu_ns) = child.ended() {
            break cpu_ns;
        }
    };
    let dropped = probes.finish(&mut |event| events.push(event)).unwrap();
    assert_eq!(dropped.full.iter().sum::<u64>(), 0, "{dropped:?}");
    Recorded { pid, events, unseen: dropped.unseen, cpu_ns }
}

/// Until it is dropped no other test records.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether this process may record; says so if not.
fn permitted() -> bool {
    const CAP_SYS_ADMIN: u64 = 21;
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let capabilities = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap().trim();
    let permitted = u64::from_str_radix(capabilities, 16).unwrap() >> CAP_SYS_ADMIN & 1 == 1;
    if !permitted {
        eprintln!("skipped: recording the kernel's events takes root");
    }
    permitted
}

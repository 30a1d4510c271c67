//! Recorded calls on files, done by a file system on a simulated device.

use std::collections::HashMap;

use iotrail_causal::{Completion, OpRef, Scripts, Step, Storage};
use iotrail_format::call::{Call as Name, CallKind};
use iotrail_replay::{NONE, Need, Op, Plan};
use iotrail_sim::file::DeviceFile;
use iotrail_sim::filesystem::{Ask, Before, Call, Durable, FileSystem, PAGE, Parameters};
use iotrail_sim::{Id, Nanos};
use rand::Rng as _;
use rand_pcg::Pcg64Mcg;
use serde::Serialize;

use crate::failure::Failure;

/// Where the first file begins on a device, bytes.
const START: u64 = 64 << 20;
/// How far apart lies what a file has elsewhere, bytes: at least, and by how much more at most, about as far as on a small volume.
const APART: u64 = 64 << 10;
const FURTHER_APART: u64 = 2 << 20;
/// What a call takes without storage, at most: a system call and bytes moved in memory. It was recorded shorter in memory; on
/// storage most of what was recorded is the storage's.
const CALL: i64 = 20_000;
const BYTES_PER_NS: i64 = 1;
/// How much later a thread goes on than another that waited for the same, at most, ns.
const LATE: i64 = 20_000;
/// Folders whose files no device has, and one in the first whose files are data.
const NOWHERE: [&str; 3] = ["/dev/", "/proc/", "/sys/"];
const MEMORY: &str = "/dev/shm/";

/// Calls of a plan, as the file system sees them.
pub struct FileCalls {
    /// By thread and operation; none where no storage is asked, or nobody knows what for.
    calls: Vec<Vec<Option<Call>>>,
    /// What each takes without storage, ns.
    own: Vec<Vec<i64>>,
    /// Files before the first call.
    before: Vec<Before>,
    pub kept: Kept,
}

/// Calls that move data or make them durable and keep their recorded times: what they ask of a device is not modelled.
#[derive(Debug, Default, Serialize)]
pub struct Kept {
    calls: u64,
    ns: i64,
}

impl FileCalls {
    /// Those of a plan that are chosen.
    pub fn of(plan: &Plan, chosen: &[Vec<bool>]) -> Self {
        let mut files = Files { plan, numbers: HashMap::new(), before: Vec::new() };
        let mut kept = Kept::default();
        let (mut calls, mut own) = (Vec::new(), Vec::new());
        for (number, thread) in plan.threads.iter().enumerate() {
            let (mut of_thread, mut times) = (Vec::new(), Vec::new());
            for (index, op) in thread.ops.iter().enumerate() {
                let call =
                    if chosen[number][index] { files.call(number as u32, op, &mut kept) } else { None };
                let is_there = call.is_some_and(|call| call.ask != Ask::Remove);
                times.push(if is_there { op.dur.min(CALL + moved(op) / BYTES_PER_NS) } else { op.dur });
                of_thread.push(call);
            }
            calls.push(of_thread);
            own.push(times);
        }
        Self { calls, own, before: files.before, kept }
    }

    /// Scripts in which calls that wait for the device begin up to [`LATE`] later: which comes first, of threads that go on at the same
    /// moment, is chance.
    pub fn at_chance(&self, scripts: &Scripts, random: &mut Pcg64Mcg) -> Scripts {
        let mut scripts = scripts.clone();
        for (script, calls) in scripts.threads.iter_mut().zip(&self.calls) {
            let mut steps = Vec::with_capacity(script.steps.len());
            for step in &script.steps {
                if matches!(step, Step::Io(op) if calls[*op as usize].is_some_and(|call| call.waits())) {
                    steps.push(Step::Rest(random.random_range(0..LATE)));
                }
                steps.push(*step);
            }
            script.steps = steps;
        }
        scripts
    }
}

fn moved(op: &Op) -> i64 {
    match op.call.kind() {
        CallKind::Read | CallKind::Write => op.result.max(0),
        _ => 0,
    }
}

/// Numbers of files, by path.
struct Files<'a> {
    plan: &'a Plan,
    numbers: HashMap<u32, u32>,
    before: Vec<Before>,
}

impl Files<'_> {
    fn call(&mut self, thread: u32, op: &Op, kept: &mut Kept) -> Option<Call> {
        use Name::*;
        let (path, flags) = if op.handle == NONE {
            (op.path, op.flags)
        } else {
            let handle = &self.plan.handles[op.handle as usize];
            (handle.path, handle.flags)
        };
        let is_known = path != NONE && {
            let name = &self.plan.paths[path as usize];
            name.starts_with(MEMORY) || !NOWHERE.iter().any(|folder| name.starts_with(folder))
        };
        if op.errno != 0 || !is_known {
            return None;
        }
        let durable = || match (flags & libc::O_SYNC, op.call, op.flags) {
            (libc::O_SYNC, ..) => Some(Durable::All),
            (_, Pwritev, flags) if flags & libc::RWF_SYNC != 0 => Some(Durable::All),
            (libc::O_DSYNC, ..) => Some(Durable::Data),
            (_, Pwritev, flags) if flags & libc::RWF_DSYNC != 0 => Some(Durable::Data),
            _ => None,
        };
        let at = u64::try_from(op.pos).ok();
        let (ask, pos, length) = match (op.call, op.call.kind()) {
            (Open | Fopen, _) if op.flags & libc::O_TRUNC != 0 => (Ask::Resize, Some(0), 0),
            (Creat, _) => (Ask::Resize, Some(0), 0),
            (Unlink, _) => (Ask::Remove, Some(0), 0),
            (Truncate, _) => (Ask::Resize, u64::try_from(op.length).ok(), 0),
            (Sendfile | CopyFileRange | Splice | SpliceWrite | SyncFileRange | Sync | Msync, _) => {
                (Ask::Read, None, 0)
            }
            (_, CallKind::Read) => (Ask::Read, at, moved(op)),
            (_, CallKind::Write) => (Ask::Write(durable()), at, moved(op)),
            (Fdatasync, _) => (Ask::Sync(Durable::Data), Some(0), 0),
            (Fsync | AioFsync, _) => (Ask::Sync(Durable::All), Some(0), 0),
            _ => return None,
        };
        let Some(pos) = pos else {
            kept.calls += 1;
            kept.ns += op.dur;
            return None;
        };
        let length = length.unsigned_abs();
        let file = self.number(path);
        let before = &mut self.before[file as usize];
        before.most_bytes = before.most_bytes.max(pos.saturating_add(length));
        Some(Call { file, thread, stream: op.handle, ask, pos, length, direct: flags & libc::O_DIRECT != 0 })
    }

    fn number(&mut self, path: u32) -> u32 {
        let next = self.before.len() as u32;
        *self.numbers.entry(path).or_insert_with(|| {
            let before = match self.plan.needs.get(&path) {
                Some(Need::File(bytes)) => Before { exists: true, bytes: *bytes, most_bytes: *bytes },
                _ => Before::default(),
            };
            self.before.push(before);
            next
        })
    }
}

/// A file system that does them.
pub struct OnDevice<'a> {
    calls: &'a FileCalls,
    files: FileSystem,
    /// How much later it is for the device: where a disk stands at first is chance.
    phase: Nanos,
    ended: Vec<(Id, Nanos)>,
    /// Calls without storage.
    certain: Vec<Completion>,
    now: i64,
}

impl<'a> OnDevice<'a> {
    pub fn new(calls: &'a FileCalls, files: FileSystem, phase: Nanos) -> Self {
        Self { calls, files, phase, ended: Vec::new(), certain: Vec::new(), now: 0 }
    }

    fn own(&self, op: OpRef) -> i64 {
        self.calls.own[op.thread as usize][op.index as usize].max(0)
    }

    fn of_device(&self, now: i64) -> Nanos {
        now.unsigned_abs() + self.phase
    }

    fn of_threads(&self, at: Nanos) -> i64 {
        at.saturating_sub(self.phase).try_into().unwrap_or(i64::MAX)
    }
}

impl Storage for OnDevice<'_> {
    fn submit(&mut self, now: i64, op: OpRef) {
        self.now = now;
        match self.calls.calls[op.thread as usize][op.index as usize] {
            Some(call) => {
                let id = Id(u64::from(op.thread) << 32 | u64::from(op.index));
                self.files.submit(self.of_device(now), id, call);
            }
            None => self.certain.push(Completion { op, done: now.saturating_add(self.own(op)) }),
        }
    }

    fn next_completion(&self) -> Option<i64> {
        if !self.certain.is_empty() {
            return Some(self.now);
        }
        self.files.next_completion().map(|at| self.of_threads(at))
    }

    fn advance(&mut self, now: i64, completions: &mut Vec<Completion>) {
        self.now = now;
        completions.append(&mut self.certain);
        self.files.advance(self.of_device(now), &mut self.ended);
        for (Id(id), at) in std::mem::take(&mut self.ended) {
            let op = OpRef { thread: (id >> 32) as u32, index: id as u32 };
            completions.push(Completion { op, done: self.of_threads(at).saturating_add(self.own(op)) });
        }
    }
}

/// A device with a file system for the chosen calls.
pub struct There<'a> {
    pub file: DeviceFile,
    pub calls: &'a FileCalls,
    pub journal: bool,
    pub volume: Option<u64>,
    pub warm: bool,
}

impl There<'_> {
    /// With its files so many bytes further than they need be (where there is room), what belongs to them elsewhere by a part of that, and after so many ns.
    pub fn at(&self, further: u64, earlier: u64) -> Result<OnDevice<'_>, Failure> {
        let device = self.file.build();
        let volume_bytes = self.volume.unwrap_or_else(|| device.capacity());
        let bytes: u64 = self.calls.before.iter().map(|file| file.most_bytes.next_multiple_of(PAGE)).sum();
        let room = volume_bytes.min(device.capacity()).saturating_sub(START + bytes);
        let start_bytes = START + further.min(room);
        let apart_bytes = APART + further % FURTHER_APART / PAGE * PAGE;
        let parameters =
            Parameters { journal: self.journal, volume_bytes, start_bytes, apart_bytes, warm: self.warm };
        let files = FileSystem::new(device, parameters, &self.calls.before).map_err(|problem| {
            Failure::new(format!("{}: {problem}", self.file.name))
                .hint("--where chooses fewer calls, --volume says how large it is")
        })?;
        Ok(OnDevice::new(self.calls, files, earlier))
    }
}

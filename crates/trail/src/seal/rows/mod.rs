//! From the journal to rows: the one place that knows which field of a slot becomes which column.
//!
//! A journal is read twice. The first reading learns what its rows need (clock pairs, processes),
//! the second sorts the slots by thread and start and turns them into columns. What a later row
//! still needs stays as state, and [`Rows::carry`] writes that state down as events.
//!
//! Journals also come from crashed sessions, so nothing in them is trusted to make sense: what
//! doesn't is left out, and no number read from one is the length of a loop or of an allocation.

mod carry;
mod images;
mod kernel;
mod ops;
mod records;
mod slot;
mod small;
mod time;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use arrow_array::RecordBatch;
use iotrail_format::call::{Call, CallKind};
use iotrail_format::ids::{ProcessId, ThreadId};
use iotrail_format::path::is_file_name;
use iotrail_format::record::FIRST_TYPE;
use iotrail_format::schema::{CLOCK, PROCESS, RECORDING, Table, UNSEEN};
use iotrail_format::segment::{
    CRUMB_SLICE, CRUMB_TAKEN, NONE, OP_CALL, OP_CRUMB, OP_DISK, OP_IMAGE, OP_MORE, OP_SAMPLE, OP_SLICE,
    OP_TEXT, OP_TIME, OP_UNSEEN, OP_VFORK, OP_WAKE, RECORDER, TEXT_BYTES, TextKind, UnseenKind,
};

use self::kernel::Kernel;
use self::records::{Announced, Gathered, RecordType, Slice};
use self::slot::{Aux, Fields};
use self::small::{Small, base_name, command_line};
use super::clock::Clock;
use super::journal::{Ended, Event, Loss, pieces};
use super::mounts::Mounts;
use super::view::Unit;
use crate::arrays::{Value, batch, lossy};
use crate::error::Error;

/// A wall clock that moved this far against CLOCK_MONOTONIC between two pairs was set, not slewed.
const WALL_STEP: i64 = 10_000_000;
/// Texts of one thread that may be incomplete at a time; a signal handler can interrupt one.
const OPEN_TEXTS: usize = 16;

/// Threads of one process at a time: as many as its rings, many times over. A program that writes over its rings
/// can name any number; what is beyond has rows of calls, but none of `thread`.
const MOST_THREADS: usize = 1 << 16;
/// Kind of what was not seen: a record that no recorder posts, or that its table refuses.
const BAD_RECORD: &str = "bad_record";

/// What was recorded so far, for the closing lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Calls on files and calls that wait, each as the program made it.
    pub calls: u64,
    /// Rows of `file_op` and `sync_op`.
    pub rows: u64,
    /// Bytes that reads moved.
    pub read: u64,
    /// Bytes that writes moved.
    pub written: u64,
    /// Program images.
    pub processes: u64,
    /// Files with a path.
    pub files: u64,
    /// Records of requests.
    pub records: u64,
    /// Records of the kernel's.
    pub kernel: u64,
    /// Calls and records that were lost.
    pub lost: u64,
    /// What could not be seen, by kind: how many, of mapped files how many bytes.
    pub unseen: BTreeMap<&'static str, u64>,
}

/// A text whose parts are arriving.
struct OpenText {
    kind: u8,
    key: u64,
    length: usize,
    parts: BTreeMap<u16, Unit>,
}

#[derive(Default)]
struct Thread {
    tid: u32,
    start_ticks: u64,
    end_ticks: u64,
    /// The journal in which its end stood. Its row waits for the next one: destructors of its
    /// thread-local variables may post after the end.
    ended_in: u64,
    name: Option<Vec<u8>>,
    open: Vec<OpenText>,
    /// While a vfork child runs on this thread: the child's process and thread.
    child: Option<(i64, i64)>,
    /// The breadcrumb it works for, since when, and whether that time is wanted as `cpu_slice`.
    crumb: i64,
    crumb_since: u64,
    slices: bool,
    /// Its CPU clock then, nanoseconds; [`NONE`] unknown.
    crumb_cpu: i64,
    /// Since when it worked for which breadcrumb, if the kernel is recorded: `ts`, crumb.
    marks: Vec<(i64, i64)>,
}

#[derive(Default)]
struct Process {
    pid: u32,
    parent: i64,
    start_ticks: u64,
    last_ticks: u64,
    /// Whether an event said that it exists. What only slots name gets no row.
    found: bool,
    /// Whether it is the recorder's own segment.
    recorder: bool,
    exe: Option<Vec<u8>>,
    cmd: Option<Vec<u8>>,
    cwd: Option<Vec<u8>>,
    role: Option<Vec<u8>>,
    announced: Announced,
    threads: BTreeMap<i64, Thread>,
}

/// Units of calls by thread.
type ByThread = HashMap<i64, Vec<u32>>;

/// Where rows go.
pub type Sink<'a> = &'a mut dyn FnMut(&'static Table, RecordBatch) -> Result<(), Error>;

/// Turns journals into rows.
pub struct Rows {
    node: String,
    clock: Clock,
    /// Wall clock minus CLOCK_MONOTONIC at the last pair that had both.
    wall: Option<i64>,
    processes: BTreeMap<i64, Process>,
    files: HashSet<i64>,
    /// Ids of pipes, sockets and the like, which have names and are no files.
    channels: HashSet<i64>,
    /// When the last image of each pid began, of those in the journal being read.
    began: HashMap<u32, u64>,
    /// What processes announced that ended in the journal being read.
    gone: HashMap<i64, Announced>,
    /// Declared types of the recording by name, with their descriptions.
    types: HashMap<String, (String, Arc<RecordType>)>,
    kernel: Kernel,
    /// Paths completed by the journal being read.
    new_files: Vec<(i64, Vec<u8>)>,
    mounts: Mounts,
    totals: Totals,
}

impl Rows {
    /// Rows of `node`. `files` are those whose path the trail has.
    #[must_use]
    pub fn new(node: String, clock: Clock, files: HashSet<i64>) -> Self {
        Self {
            node,
            clock,
            wall: None,
            processes: BTreeMap::new(),
            files,
            channels: HashSet::new(),
            began: HashMap::new(),
            gone: HashMap::new(),
            types: HashMap::new(),
            kernel: Kernel::default(),
            new_files: Vec::new(),
            mounts: Mounts::of_this_machine(),
            totals: Totals::default(),
        }
    }

    /// What was recorded so far.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.totals.clone()
    }

    /// The clock, as far as journals told it.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Takes in the units of journal `sequence` and gives `sink` their rows, table by table and some
    /// thousand at a time.
    ///
    /// # Errors
    /// Those of the sink.
    pub fn apply(&mut self, units: &[Unit], sequence: u64, sink: Sink<'_>) -> Result<(), Error> {
        let mut small = Small::default();
        self.learn(units, &mut small);
        let mut file_ops: HashMap<i64, Vec<u32>> = HashMap::new();
        let mut sync_ops: HashMap<i64, Vec<u32>> = HashMap::new();
        let mut gathered = Gathered::default();
        let mut at = 0;
        for (event, slots) in pieces(units) {
            at += 1;
            match event {
                Event::Run { process, thread, tid, .. } => {
                    let run = Run { process, thread, tid, first: at as u32, units: units.len() };
                    let ops = (&mut file_ops, &mut sync_ops);
                    self.run(&run, slots, ops, &mut gathered, &mut small);
                }
                Event::Thread { process, thread, tid, start_ticks, end_ticks } => {
                    let thread = self.thread(process, thread);
                    (thread.tid, thread.start_ticks) = (tid, start_ticks);
                    if end_ticks != 0 {
                        (thread.end_ticks, thread.ended_in) = (end_ticks, sequence);
                    }
                }
                Event::ProcessEnd { process, ended, end_ticks, status, rank, usage } => {
                    let end = ProcessEnd { ended, end_ticks, status, rank, usage };
                    self.end_process(process, &end, &mut small);
                }
                Event::Lost { process, loss, calls } => {
                    let (kind, are_calls) = match loss {
                        Loss::RingFull => ("dropped", true),
                        Loss::NeverFilled => ("interrupted", true),
                        Loss::NoRing => ("no_memory", true),
                        Loss::OverwrittenRing => ("overwritten_ring", false),
                        Loss::RefusedSegment => ("refused_segment", false),
                        Loss::UnreadSegment => ("unread_segment", false),
                    };
                    small.add(kind, process, 0, i64::try_from(calls).unwrap_or(i64::MAX));
                    if are_calls {
                        self.totals.lost = self.totals.lost.saturating_add(calls);
                    }
                }
                Event::Process { .. } | Event::Clock { .. } => {}
            }
            at += slots.len();
        }
        if self.kernel.watching {
            small.see_all_calls();
        }
        let kernel = std::mem::take(&mut gathered.kernel);
        self.write_kernel(kernel, sequence, false, &mut small, sink)?;
        self.end_threads(sequence, &mut small);
        self.write_file_ops(units, file_ops, &gathered, sink)?;
        self.write_sync_ops(units, sync_ops, &gathered, sink)?;
        self.write_records(units, gathered, &mut small, sink)?;
        self.gone.clear();
        self.write_small(small, sink)
    }

    /// The first reading: what rows of this journal may need from later in it.
    fn learn(&mut self, units: &[Unit], small: &mut Small) {
        self.began.clear();
        for (event, _) in pieces(units) {
            match event {
                Event::Clock { pair, wall } => {
                    self.clock.push(pair);
                    if wall == 0 {
                        continue;
                    }
                    let offset = (wall as i64).wrapping_sub(pair.mono as i64);
                    if self.wall.is_some_and(|last| offset.wrapping_sub(last).saturating_abs() > WALL_STEP) {
                        small.clock.push(self.clock_row(pair.mono, wall, "step"));
                    }
                    self.wall = Some(offset);
                }
                Event::Process { process, parent, pid, start_ticks } => {
                    let entry = self.processes.entry(process).or_default();
                    if parent == RECORDER {
                        entry.recorder = true;
                        self.kernel.on = true;
                        continue;
                    }
                    if !entry.found {
                        self.totals.processes += 1;
                    }
                    entry.found = true;
                    self.began.insert(pid, start_ticks);
                    (entry.pid, entry.parent, entry.start_ticks) = (pid, parent, start_ticks);
                }
                _ => {}
            }
        }
    }

    fn thread(&mut self, process: i64, thread: i64) -> &mut Thread {
        let threads = &mut self.processes.entry(process).or_default().threads;
        let is_room = threads.len() < MOST_THREADS || threads.contains_key(&thread);
        threads.entry(if is_room { thread } else { 0 }).or_default()
    }

    /// Sorts the slots of a run by what they are.
    fn run(
        &mut self,
        run: &Run,
        slots: &[Unit],
        (file_ops, sync_ops): (&mut ByThread, &mut ByThread),
        gathered: &mut Gathered,
        small: &mut Small,
    ) {
        let entry = self.thread(run.process, run.thread);
        entry.tid = run.tid;
        let mut crumb = entry.crumb;
        let (mut process, mut thread) = entry.child.unwrap_or((run.process, run.thread));
        let mut files = std::mem::take(file_ops.entry(thread).or_default());
        let mut syncs = std::mem::take(sync_ops.entry(thread).or_default());
        let mut last = 0;
        let mut next = 0;
        while next < slots.len() {
            let unit = &slots[next];
            let slot = Fields(unit);
            let index = run.first + next as u32;
            next += 1;
            if let Some(known) = slot.known() {
                last = slot.end();
                gathered.call(run.units, index, crumb);
                if slot.kind() != 0 {
                    syncs.push(index);
                    continue;
                }
                files.push(index);
                let moved =
                    if slot.errno() == 0 && slot.finished() { slot.result().max(0) as u64 } else { 0 };
                let moved = if self.channels.contains(&slot.object()) { 0 } else { moved };
                match known.kind {
                    CallKind::Read => {
                        self.totals.read = self.totals.read.saturating_add(moved);
                        // A copy inside the kernel is a write of its second file too.
                        if known.aux == Aux::File2 && !matches!(slot.aux(), 0 | NONE) {
                            let written = if self.channels.contains(&slot.aux()) { 0 } else { moved };
                            self.totals.written = self.totals.written.saturating_add(written);
                        }
                    }
                    CallKind::Write => self.totals.written = self.totals.written.saturating_add(moved),
                    CallKind::Map if slot.opcode() == Call::Mmap as u16 && moved != 0 => {
                        small.add("mapped_file", process, slot.object(), slot.length().max(0));
                    }
                    _ => {}
                }
                continue;
            }
            match slot.opcode() {
                OP_IMAGE => self.image(slot),
                OP_CALL => {
                    gathered.kernel.extend(slots.get(next).map(|more| [*unit, *more]).into_iter().flatten());
                    next += 1;
                }
                FIRST_TYPE.. => {
                    next += self.record((process, thread), index, &slots[next - 1..], gathered, small);
                }
                OP_CRUMB => crumb = self.crumb(run, slot, gathered),
                OP_DISK | OP_SLICE | OP_SAMPLE | OP_WAKE => gathered.kernel.push(*unit),
                OP_TIME => small.time.push(self.own_time(thread, slot)),
                OP_TEXT => self.text(run, unit, small),
                OP_UNSEEN => {
                    let kind = UnseenKind::from_number(slot.kind());
                    if let Some(kind) = kind {
                        // What the kernel's recorder says is no process's.
                        let recorder = self.processes.get(&process).is_some_and(|process| process.recorder);
                        let process = if recorder { 0 } else { process };
                        small.add(kind.name(), process, slot.object(), slot.length().max(0));
                    }
                }
                OP_VFORK => {
                    file_ops.insert(thread, files);
                    sync_ops.insert(thread, syncs);
                    (process, thread) = self.vfork(run, slot, small);
                    files = std::mem::take(file_ops.entry(thread).or_default());
                    syncs = std::mem::take(sync_ops.entry(thread).or_default());
                }
                // The rest of a record whose first slot was never filled.
                OP_MORE => {}
                _ => small.add(BAD_RECORD, process, 0, 1),
            }
        }
        file_ops.insert(thread, files);
        sync_ops.insert(thread, syncs);
        if let Some(entry) = self.processes.get_mut(&process) {
            entry.last_ticks = entry.last_ticks.max(last);
        }
    }

    /// The thread works for another breadcrumb from now on, which is returned.
    fn crumb(&mut self, run: &Run, slot: Fields<'_>, gathered: &mut Gathered) -> i64 {
        let of = self.processes.get(&run.process);
        let (pid, image_start) = of.map_or((0, 0), |process| (process.pid, process.start_ticks));
        let thread = self.thread(run.process, run.thread);
        if thread.crumb_since == 0 {
            // Its clock began at 0 with it; that of a process's first thread has counted since before its image began.
            thread.crumb_since = image_start;
            thread.slices = slot.kind() & CRUMB_SLICE != 0;
        }
        let taken = slot.kind() & CRUMB_TAKEN != 0;
        let clock = slot.length();
        let cpu_ns =
            (thread.crumb_cpu != NONE && clock != NONE).then(|| clock.wrapping_sub(thread.crumb_cpu));
        // On the way to what it takes a thread worked for nothing: only its time on the CPU counts.
        let crumb = if thread.crumb == 0 && taken { slot.object() } else { thread.crumb };
        if crumb != 0 && thread.slices && (thread.crumb != 0 || cpu_ns.is_some()) {
            gathered.slices.push(Slice {
                thread: run.thread,
                start: thread.crumb_since,
                end: slot.start(),
                crumb,
                pid,
                tid: run.tid,
                cpu_ns,
                only_cpu: thread.crumb == 0,
            });
        }
        (thread.crumb, thread.crumb_since, thread.slices, thread.crumb_cpu) =
            (slot.object(), slot.start(), slot.kind() & CRUMB_SLICE != 0, clock);
        self.mark(run.process, run.thread, slot.start(), slot.object(), taken);
        slot.object()
    }

    /// A part of a text; the last one completes it.
    fn text(&mut self, run: &Run, unit: &Unit, small: &mut Small) {
        let slot = Fields(unit);
        let Some(kind) = TextKind::from_number(slot.kind()) else { return };
        let (part, length) = (slot.fd() as u16, (slot.fd() as u32 >> 16) as usize);
        let key = slot.start();
        if kind == TextKind::Path && self.files.contains(&(key as i64)) {
            return;
        }
        let parts = length.div_ceil(TEXT_BYTES);
        if usize::from(part) >= parts {
            return;
        }
        let thread = self.thread(run.process, run.thread);
        let same = |open: &OpenText| open.kind == kind as u8 && open.key == key && open.length == length;
        let at = thread.open.iter().position(same).unwrap_or_else(|| {
            if thread.open.len() == OPEN_TEXTS {
                // Its parts were dropped; it will never be whole.
                thread.open.remove(0);
            }
            thread.open.push(OpenText { kind: kind as u8, key, length, parts: BTreeMap::new() });
            thread.open.len() - 1
        });
        thread.open[at].parts.insert(part, *unit);
        if thread.open[at].parts.len() < parts {
            return;
        }
        let mut bytes = Vec::with_capacity(parts * TEXT_BYTES);
        for unit in thread.open.remove(at).parts.values() {
            for word in &unit[2..] {
                bytes.extend_from_slice(&word.to_le_bytes());
            }
        }
        bytes.truncate(length);
        match kind {
            TextKind::Path => {
                self.files.insert(key as i64);
                if is_file_name(&bytes) {
                    self.totals.files += 1;
                } else {
                    self.channels.insert(key as i64);
                }
                self.mounts.note(&bytes);
                self.new_files.push((key as i64, bytes));
            }
            TextKind::ThreadName => thread.name = Some(bytes),
            TextKind::Symbol => {
                let process = self.processes.entry(run.process).or_default();
                if !process.announced.name(key as u32, lossy(&bytes)) {
                    small.add(BAD_RECORD, run.process, 0, 1);
                }
            }
            TextKind::Type => {
                let process = self.processes.entry(run.process).or_default();
                if let Err(kind) = process.announced.declare(key, &bytes, &mut self.types) {
                    small.add(kind, run.process, 0, 0);
                }
            }
            TextKind::Stranger => self.kernel.name(key, bytes),
            TextKind::Role => self.processes.entry(run.process).or_default().role = Some(bytes),
            TextKind::Exe | TextKind::Command | TextKind::Cwd => {
                if let Some(image) = self.kernel.images.get_mut(&(key as i64)) {
                    image.text(kind, &bytes);
                    return;
                }
                let process = self.processes.entry(run.process).or_default();
                match kind {
                    TextKind::Exe => process.exe = Some(bytes),
                    TextKind::Command => process.cmd = Some(bytes),
                    _ => process.cwd = Some(bytes),
                }
            }
        }
    }

    /// A vfork child begins to run on this thread, or is gone. Returns whose the next calls are.
    fn vfork(&mut self, run: &Run, slot: Fields<'_>, small: &mut Small) -> (i64, i64) {
        let parent = run.process;
        if let Some((child, _)) = self.thread(parent, run.thread).child.take() {
            let known = self.processes.get(&child).map(|entry| (entry.pid, entry.start_ticks));
            // An exec'd program may have ended before its parent's ring was read this far.
            let became = known.is_some_and(|(pid, start)| {
                self.began.get(&pid).is_some_and(|began| *began >= start)
                    || self
                        .processes
                        .iter()
                        .any(|(id, other)| *id != child && other.pid == pid && other.start_ticks >= start)
            });
            let ended = if became { Ended::Exec } else { Ended::Exit };
            let end = ProcessEnd { ended, end_ticks: slot.start(), status: -1, rank: -1, usage: [-1; 4] };
            self.end_process(child, &end, small);
        }
        let Ok(pid @ 1..) = u32::try_from(slot.fd()) else {
            return (parent, run.thread);
        };
        let id = ProcessId::new(pid, slot.start());
        if self.processes.contains_key(&id.0) {
            // A marker that no recorder posts: it would take the place of another process.
            small.add(BAD_RECORD, parent, 0, 1);
            return (parent, run.thread);
        }
        let thread = ThreadId::new(id, pid, slot.start()).0;
        let (exe, cmd, cwd) = self
            .processes
            .get(&parent)
            .map(|entry| (entry.exe.clone(), entry.cmd.clone(), entry.cwd.clone()))
            .unwrap_or_default();
        let mut threads = BTreeMap::new();
        threads.insert(thread, Thread { tid: pid, start_ticks: slot.start(), ..Thread::default() });
        let child = Process {
            pid,
            parent,
            start_ticks: slot.start(),
            found: true,
            exe,
            cmd,
            cwd,
            threads,
            ..Process::default()
        };
        self.processes.insert(id.0, child);
        self.totals.processes += 1;
        self.thread(parent, run.thread).child = Some((id.0, thread));
        (id.0, thread)
    }

    fn end_process(&mut self, id: i64, end: &ProcessEnd, small: &mut Small) {
        let Some(mut process) = self.processes.remove(&id) else { return };
        let end_ticks = match end.ended {
            Ended::Running => None,
            // Nobody saw it end: it lived at least until its last call.
            _ if end.end_ticks == 0 => Some(process.last_ticks).filter(|ticks| *ticks != 0),
            _ => Some(end.end_ticks),
        };
        let end_ts = end_ticks.map(|ticks| self.ts(ticks));
        let threads: Vec<(i64, Thread)> = std::mem::take(&mut process.threads).into_iter().collect();
        for (thread_id, thread) in &threads {
            if let Some((child, _)) = thread.child {
                let end = ProcessEnd { status: -1, rank: -1, usage: [-1; 4], ..*end };
                self.end_process(child, &end, small);
            }
            if !process.recorder {
                self.thread_row(id, process.pid, *thread_id, thread, end_ts, small);
            }
        }
        let began = self.ts(process.start_ticks);
        self.kernel.departs(id, &process, began, threads);
        if !process.found {
            return;
        }
        // Beyond a hundred years of CPU time nobody wrote down what was measured.
        let known = |value: i64| Some(value).filter(|value| (0..1 << 62).contains(value));
        let text = |bytes: &Option<Vec<u8>>| bytes.as_deref().map(lossy);
        let rank = known(i64::from(end.rank));
        if !process.announced.symbols.is_empty() {
            self.gone.insert(id, std::mem::take(&mut process.announced));
        }
        let role = text(&process.role).or(rank.map(|rank| format!("rank {rank}")));
        let name = process.exe.as_deref().map_or_else(|| "unknown".to_owned(), base_name);
        let [user, system, minor, major] = end.usage.map(known);
        let start_ts = self.ts(process.start_ticks);
        small.process.push(vec![
            self.node.as_str().into(),
            id.into(),
            i64::from(process.pid).into(),
            name.into(),
            role.into(),
            rank.into(),
            start_ts.into(),
            end_ts.map(|end| end.max(start_ts)).into(),
            Some(process.parent).filter(|parent| *parent != 0).into(),
            text(&process.exe).into(),
            process.cmd.as_deref().map(command_line).into(),
            text(&process.cwd).into(),
            end.ended.name().into(),
            known(i64::from(end.status)).into(),
            user.into(),
            system.into(),
            minor.into(),
            major.into(),
        ]);
    }

    /// Rows of threads that ended in an earlier journal.
    fn end_threads(&mut self, sequence: u64, small: &mut Small) {
        let mut ended = Vec::new();
        for (process, entry) in &mut self.processes {
            let gone: Vec<i64> = entry
                .threads
                .iter()
                .filter(|(_, thread)| thread.end_ticks != 0 && thread.ended_in < sequence)
                .map(|(id, _)| *id)
                .collect();
            for id in gone {
                if let Some(thread) = entry.threads.remove(&id) {
                    ended.push((*process, entry.pid, id, thread));
                }
            }
        }
        for (process, pid, id, thread) in ended {
            self.thread_row(process, pid, id, &thread, None, small);
        }
    }

    fn thread_row(
        &self,
        process: i64,
        pid: u32,
        id: i64,
        thread: &Thread,
        process_end: Option<i64>,
        small: &mut Small,
    ) {
        if id == 0 {
            return;
        }
        let start = self.ts(thread.start_ticks);
        let end = match thread.end_ticks {
            0 => process_end,
            ticks => Some(self.ts(ticks)),
        };
        let name = thread.name.as_deref().map(lossy);
        small.thread.push(self.thread_columns(id, (pid, thread.tid), process, name, start, end));
    }

    fn thread_columns(
        &self,
        id: i64,
        (pid, tid): (u32, u32),
        process: i64,
        name: Option<String>,
        start: i64,
        end: Option<i64>,
    ) -> Vec<Value> {
        vec![
            self.node.as_str().into(),
            id.into(),
            i64::from(pid).into(),
            i64::from(tid).into(),
            process.into(),
            name.into(),
            start.into(),
            end.map(|end| end.max(start)).into(),
        ]
    }

    /// A process of which only the kernel's records tell.
    fn stranger_columns(&self, id: i64, pid: u32, name: Option<String>, start: i64) -> Vec<Value> {
        let mut columns = vec![
            self.node.as_str().into(),
            id.into(),
            i64::from(pid).into(),
            name.unwrap_or_else(|| "unknown".to_owned()).into(),
            Value::Null,
            Value::Null,
            start.into(),
        ];
        columns.resize(PROCESS.columns.len(), Value::Null);
        let ended = PROCESS.columns.iter().position(|column| column.name == "ended");
        columns[ended.expect("a column of process")] = "running".into();
        columns
    }

    /// Writes what waited for a further journal: there is none.
    ///
    /// # Errors
    /// Those of the sink.
    pub fn finish(&mut self, sequence: u64, sink: Sink<'_>) -> Result<(), Error> {
        let mut small = Small::default();
        self.write_kernel(Vec::new(), sequence, true, &mut small, sink)?;
        self.write_small(small, sink)
    }

    fn ts(&self, ticks: u64) -> i64 {
        self.clock.ts(ticks, &mut 0)
    }

    fn clock_row(&self, mono: u64, wall: u64, event: &str) -> Vec<Value> {
        vec![
            self.clock.ts_of_mono(mono).into(),
            self.node.as_str().into(),
            (wall as i64).into(),
            event.into(),
        ]
    }

    /// Writes a row of `clock`.
    ///
    /// # Errors
    /// Those of the sink.
    pub fn write_clock(&self, mono: u64, wall: u64, event: &str, sink: Sink<'_>) -> Result<(), Error> {
        sink(&CLOCK, batch(&CLOCK, vec![self.clock_row(mono, wall, event)])?)
    }

    /// Writes rows of `recording`.
    ///
    /// # Errors
    /// Those of the sink.
    pub fn write_facts(&self, facts: &[(String, Option<String>)], sink: Sink<'_>) -> Result<(), Error> {
        let rows = facts
            .iter()
            .map(|(name, value)| vec![self.node.as_str().into(), name.as_str().into(), value.clone().into()]);
        sink(&RECORDING, batch(&RECORDING, rows.collect())?)
    }

    /// Notes where a file lies that the trail has already.
    pub fn note_mount(&mut self, path: &[u8]) {
        self.mounts.note(path);
    }

    /// The mounts that hold the files seen, as facts.
    #[must_use]
    pub fn mounts(&self) -> Vec<(String, Option<String>)> {
        self.mounts.facts()
    }

    /// Writes a row of `unseen` that concerns the whole recording.
    ///
    /// # Errors
    /// Those of the sink.
    pub fn write_unseen(&self, kind: &str, amount: i64, detail: &str, sink: Sink<'_>) -> Result<(), Error> {
        let row = vec![
            self.node.as_str().into(),
            kind.into(),
            Value::Null,
            Value::Null,
            amount.into(),
            detail.into(),
        ];
        sink(&UNSEEN, batch(&UNSEEN, vec![row])?)
    }
}

/// Whose slots a run holds, and where the first stands among the journal's units.
struct Run {
    process: i64,
    thread: i64,
    tid: u32,
    /// Its first slot among the journal's units, and how many those are.
    first: u32,
    units: usize,
}

/// See [`Event::ProcessEnd`].
struct ProcessEnd {
    ended: Ended,
    end_ticks: u64,
    status: i32,
    rank: i32,
    usage: [i64; 4],
}

#[cfg(test)]
mod tests;

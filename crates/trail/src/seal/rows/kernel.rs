//! What the kernel saw: disk I/O and time on CPUs, and with [`super::images`] calls, given to the threads and breadcrumbs they were for.
//!
//! The recorder posts it into a segment of its own ([`iotrail_format::segment::OP_DISK`],
//! [`iotrail_format::segment::OP_SLICE`]), with pid and tid. What a thread worked for at a time, its ring
//! says ([`iotrail_format::segment::OP_CRUMB`]); both come through different rings, so kernel slots wait for the next
//! journal, by when all that was posted before them has come.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, new_null_array};
use arrow_schema::DataType;
use iotrail_format::ids::{ProcessId, ThreadId};
use iotrail_format::schema::{CPU_SLICE, DISK_OP, WAKE};
use iotrail_format::segment::{NONE, OP_CALL, OP_DISK, OP_SAMPLE, OP_WAKE};

use super::images::Image;
use super::records::{named_or_null, numbers, together};
use super::slot::Fields;
use super::{Process, Rows, Sink, Small, Thread};
use crate::arrays::{Nullable, ints, repeated};
use crate::error::Error;
use crate::seal::view::Unit;

/// What threads worked for is remembered this long: kernel slots come late, at most by the time a disk takes.
const REMEMBERED: i64 = 10_000_000_000;
/// Operations of [`OP_DISK`], by number.
const OPS: [&str; 6] = ["read", "write", "flush", "discard", "secure_erase", "other"];
/// States of [`iotrail_format::segment::OP_SLICE`], by number; the last is of a thread that goes on.
const STATES: [Option<&str>; 5] = [Some("runnable"), Some("sleep"), Some("disk"), Some("ended"), None];
/// Bits of an [`OP_DISK`]'s kind.
const MERGED: u8 = 0x40;
const OP_MASK: u8 = 0x0f;

/// What is known of threads for the kernel's sake.
#[derive(Default)]
pub(super) struct Kernel {
    /// Whether the kernel is being recorded: nothing here costs anything otherwise.
    pub(super) on: bool,
    /// Whether it sees calls of programs that no recorder is in, and io_uring's.
    pub(super) watching: bool,
    /// Slots that wait for the next journal.
    waiting: Vec<Unit>,
    /// Programs that no recorder is in, by id.
    pub(super) images: BTreeMap<i64, Image>,
    /// Processes that ended, until what was waiting for them is written.
    departed: Vec<Departed>,
    /// Threads that no recorder is in: by pid and tid, with names. Those that have a row.
    strangers: HashMap<(u32, u32), Vec<u8>>,
    written: HashSet<i64>,
    devices: HashMap<u32, String>,
}

/// A process that ended.
struct Departed {
    id: i64,
    pid: u32,
    start: i64,
    ended_in: u64,
    threads: Vec<(i64, Thread)>,
}

/// Whose a slot is.
pub(super) struct Whose<'a> {
    pub(super) thread: i64,
    pub(super) marks: &'a [(i64, i64)],
    /// The image, if no recorder is in it.
    pub(super) image: Option<i64>,
}

impl Kernel {
    /// A thread's name, from the recorder.
    pub(super) fn name(&mut self, key: u64, name: Vec<u8>) {
        self.strangers.insert((key as u32, (key >> 32) as u32), name);
    }

    pub(super) fn stranger_name(&self, pid: u32, tid: u32) -> Option<String> {
        self.strangers.get(&(pid, tid)).map(|name| crate::arrays::lossy(name))
    }

    /// Keeps what a process's kernel slots need that are still to come.
    pub(super) fn departs(&mut self, id: i64, process: &Process, start: i64, threads: Vec<(i64, Thread)>) {
        if self.on && !process.recorder {
            self.departed.push(Departed { id, pid: process.pid, start, ended_in: 0, threads });
        }
    }

    pub(super) fn waiting(&self) -> &[Unit] {
        &self.waiting
    }
}

impl Rows {
    /// Notes that a thread works for a breadcrumb from `ticks` on; if it took it, also since it last worked for one.
    pub(super) fn mark(&mut self, process: i64, thread: i64, ticks: u64, crumb: i64, taken: bool) {
        if self.kernel.on {
            let ts = self.ts(ticks);
            let marks = &mut self.thread(process, thread).marks;
            match marks.last_mut() {
                Some((_, before)) if taken && *before == 0 => *before = crumb,
                None if taken => marks.push((i64::MIN, crumb)),
                _ => {}
            }
            marks.push((ts, crumb));
        }
    }

    /// The process with a recorder in it that was `pid` at `ts`, and when it began.
    fn recorded_at(&self, pid: u32, ts: i64) -> Option<(i64, i64)> {
        let living = self.processes.iter().filter(|(_, process)| process.pid == pid && process.found);
        let living = living.map(|(id, process)| (self.ts(process.start_ticks), *id));
        let departed = self.kernel.departed.iter().filter(|process| process.pid == pid);
        let all = living.chain(departed.map(|process| (process.start, process.id)));
        // The image that ran then; before the first, the first, which was not seen from its very start.
        all.max_by_key(|(start, _)| (*start <= ts, if *start <= ts { *start } else { -*start }))
            .map(|(start, id)| (id, start))
    }

    /// Which program image was `pid` at `ts`: with a recorder in it, or without.
    pub(super) fn process_at(&self, pid: u32, ts: i64) -> Option<i64> {
        match (self.recorded_at(pid, ts), self.image_at(pid, ts)) {
            (Some((_, began)), Some((image, start))) if began < start || began > ts => Some(image),
            (Some((id, _)), _) => Some(id),
            (None, image) => image.map(|(id, _)| id).or_else(|| self.first_image(pid)),
        }
    }

    /// When a process with a recorder in it began.
    pub(super) fn process_start(&self, id: i64) -> Option<i64> {
        let living = self.processes.get(&id).map(|process| self.ts(process.start_ticks));
        let departed = self.kernel.departed.iter().find(|process| process.id == id);
        living.or(departed.map(|process| process.start))
    }

    /// Thread `tid` of a process with a recorder in it.
    pub(super) fn whose_of(&self, process: i64, tid: u32) -> Option<Whose<'_>> {
        let departed = || self.kernel.departed.iter().find(|departed| departed.id == process);
        let (thread, of) = match self.processes.get(&process) {
            Some(process) => process.threads.iter().rfind(|(_, thread)| thread.tid == tid),
            None => {
                let mut threads = departed()?.threads.iter().map(|(id, thread)| (id, thread));
                threads.rfind(|(_, thread)| thread.tid == tid)
            }
        }?;
        Some(Whose { thread: *thread, marks: &of.marks, image: None })
    }

    /// Whose work of thread `tid` of `pid` at `ts` was.
    pub(super) fn whose(&self, pid: u32, tid: u32, ts: i64) -> Option<Whose<'_>> {
        let id = self.process_at(pid, ts)?;
        if self.kernel.images.contains_key(&id) {
            return Some(Self::of_image(id, tid));
        }
        let posts = |(_, image): &(&i64, &Image)| image.posts == Some(id);
        let image = || self.kernel.images.iter().find(posts).map(|(image, _)| Self::of_image(*image, tid));
        self.whose_of(id, tid).or_else(image)
    }

    /// Notes that a row of a thread comes, if no recorder is in it: the thread then has a row too.
    pub(super) fn noticed(&mut self, image: Option<i64>, tid: u32, slot: Fields<'_>) {
        if let Some(image) = image.and_then(|id| self.kernel.images.get_mut(&id)) {
            image.see(tid, slot.start(), slot.end());
        }
    }

    /// Writes what waited; what this journal brought waits now, unless it is the `last` one.
    pub(super) fn write_kernel(
        &mut self,
        arrived: Vec<Unit>,
        sequence: u64,
        last: bool,
        small: &mut Small,
        sink: Sink<'_>,
    ) -> Result<(), Error> {
        if !self.kernel.on && arrived.is_empty() {
            return Ok(());
        }
        self.kernel.on = true;
        let mut due = std::mem::replace(&mut self.kernel.waiting, arrived);
        if last {
            due.append(&mut self.kernel.waiting);
        }
        let (mut disk, mut cpu, mut calls) = (Vec::new(), Vec::new(), Vec::new());
        let (mut samples, mut wakes) = (Vec::new(), Vec::new());
        let mut units = due.into_iter();
        while let Some(unit) = units.next() {
            match Fields(&unit).opcode() {
                OP_DISK => disk.push(unit),
                OP_SAMPLE => samples.push(unit),
                OP_WAKE => wakes.push(unit),
                OP_CALL => calls.extend(units.next().map(|more| [unit, more])),
                _ => cpu.push(unit),
            }
        }
        self.write_calls(&calls, small, sink)?;
        self.write_disk(&disk, small, sink)?;
        self.write_cpu(&cpu, small, sink)?;
        self.write_wakes(&wakes, small, sink)?;
        self.samples(&samples, small);
        self.totals.kernel += (disk.len() + cpu.len() + wakes.len()) as u64;
        self.end_images(sequence, last, small);
        self.forget(sequence);
        Ok(())
    }

    /// Drops what is too old to be asked for.
    fn forget(&mut self, sequence: u64) {
        for process in &mut self.kernel.departed {
            if process.ended_in == 0 {
                process.ended_in = sequence;
            }
        }
        self.kernel.departed.retain(|process| process.ended_in + 2 > sequence);
        for thread in self.processes.values_mut().flat_map(|process| process.threads.values_mut()) {
            let Some((newest, _)) = thread.marks.last() else { continue };
            let old = newest.saturating_sub(REMEMBERED);
            // The last one before holds on from there.
            let keep = thread.marks.partition_point(|(ts, _)| *ts <= old).saturating_sub(1);
            thread.marks.drain(..keep);
        }
    }

    /// The thread's id; one that nothing else tells of gets rows of its own.
    pub(super) fn stranger(&mut self, pid: u32, tid: u32, ts: i64, small: &mut Small) -> i64 {
        let known = self.process_at(pid, ts);
        let process = known.map_or(ProcessId::new(pid, 0), ProcessId);
        let thread = ThreadId::new(process, tid, 0).0;
        if self.kernel.written.insert(thread) {
            let named = self.kernel.stranger_name(pid, tid);
            small.thread.push(self.thread_columns(thread, (pid, tid), process.0, named, ts, None));
        }
        if known.is_none() && self.kernel.written.insert(process.0) {
            let named = self.kernel.stranger_name(pid, pid).or_else(|| self.kernel.stranger_name(pid, tid));
            small.process.push(self.stranger_columns(process.0, pid, named, ts));
        }
        thread
    }

    fn write_disk(&mut self, units: &[Unit], small: &mut Small, sink: Sink<'_>) -> Result<(), Error> {
        struct Row {
            crumb: i64,
            ts: i64,
            thread: i64,
            at: usize,
        }
        let mut rows = Vec::with_capacity(units.len());
        for (at, unit) in units.iter().enumerate() {
            let slot = Fields(unit);
            let ts = self.clock.ts_of_mono(slot.start());
            let (pid, tid) = (slot.object() as u32, slot.fd() as u32);
            let found = self.whose(pid, tid, ts).map(|whose| (whose.thread, whose.crumb(ts), whose.image));
            let (thread, crumb, image) =
                found.unwrap_or_else(|| (self.stranger(pid, tid, ts, small), 0, None));
            self.noticed(image, tid, slot);
            rows.push(Row { crumb, ts, thread, at });
        }
        if rows.is_empty() {
            return Ok(());
        }
        rows.sort_unstable_by_key(|row| (row.crumb, row.ts));
        for unit in units {
            let dev = (unit[3] >> 32) as u32;
            self.kernel.devices.entry(dev).or_insert_with(|| device_name(dev));
        }
        let count = rows.len();
        let slot = |row: &Row| Fields(&units[row.at]);
        let mut requests = Nullable::new(count);
        let (mut dur, mut issued) = (Nullable::new(count), Nullable::new(count));
        for row in &rows {
            dur.push(self.clock.ts_of_mono(slot(row).end()) - row.ts, slot(row).finished());
            let at = slot(row).result();
            issued.push(self.clock.ts_of_mono(at as u64), at != NONE);
            requests.push(slot(row).aux() >> 8, at != NONE);
        }
        let mut names: Vec<&str> = Vec::new();
        let devices = &self.kernel.devices;
        let dev = rows.iter().map(|row| {
            let name = devices[&((slot(row).object() as u64 >> 32) as u32)].as_str();
            Some(names.iter().position(|known| *known == name).unwrap_or_else(|| {
                names.push(name);
                names.len() - 1
            }) as i32)
        });
        let dev: Vec<Option<i32>> = dev.collect();
        let op = rows.iter().map(|row| Some(i32::from(slot(row).kind() & OP_MASK).min(OPS.len() as i32 - 1)));
        let columns: Vec<ArrayRef> = vec![
            ints(rows.iter().map(|row| row.ts).collect()),
            dur.finish(),
            repeated(&self.node, count),
            ints(rows.iter().map(|row| row.thread).collect()),
            ints(rows.iter().map(|row| row.crumb).collect()),
            repeated("kernel", count),
            named_or_null(dev.into_iter(), names),
            named_or_null(op, OPS.to_vec()),
            numbers(rows.iter().map(|row| Some(slot(row).pos()))),
            numbers(rows.iter().map(|row| Some(slot(row).length()))),
            issued.finish(),
            ints(rows.iter().map(|row| i64::from(slot(row).kind() & MERGED != 0)).collect()),
            ints(rows.iter().map(|row| i64::from(slot(row).object() as u32)).collect()),
            ints(rows.iter().map(|row| slot(row).aux() & 0xff).collect()),
            new_null_array(&DataType::Int64, count),
            new_null_array(&DataType::Int64, count),
            new_null_array(&DataType::Int64, count),
            requests.finish(),
        ];
        sink(&DISK_OP, together(&DISK_OP, columns)?)
    }

    /// A slice that covers several breadcrumbs becomes a row for each.
    fn write_cpu(&mut self, units: &[Unit], small: &mut Small, sink: Sink<'_>) -> Result<(), Error> {
        struct Row {
            thread: i64,
            ts: i64,
            end: i64,
            crumb: i64,
            at: usize,
            last: bool,
        }
        let mut rows = Vec::with_capacity(units.len());
        for (at, unit) in units.iter().enumerate() {
            let slot = Fields(unit);
            let (ts, end) = (self.clock.ts_of_mono(slot.start()), self.clock.ts_of_mono(slot.end()));
            let (pid, tid) = (slot.object() as u32, slot.fd() as u32);
            let Some(whose) = self.whose(pid, tid, ts) else {
                let thread = self.stranger(pid, tid, ts, small);
                rows.push(Row { thread, ts, end, crumb: 0, at, last: true });
                continue;
            };
            let first = whose.marks.partition_point(|(mark, _)| *mark <= ts);
            let (mut begin, mut crumb) = (ts, whose.crumb(ts));
            for (mark, next) in whose.marks[first..].iter().take_while(|(mark, _)| *mark < end) {
                if *next != crumb {
                    rows.push(Row { thread: whose.thread, ts: begin, end: *mark, crumb, at, last: false });
                    (begin, crumb) = (*mark, *next);
                }
            }
            rows.push(Row { thread: whose.thread, ts: begin, end, crumb, at, last: true });
            let image = whose.image;
            self.noticed(image, tid, slot);
        }
        if rows.is_empty() {
            return Ok(());
        }
        rows.sort_unstable_by_key(|row| (row.thread, row.ts));
        let count = rows.len();
        let slot = |row: &Row| Fields(&units[row.at]);
        let words: Vec<&str> = STATES.iter().flatten().copied().collect();
        let state = rows.iter().map(|row| {
            let state = usize::from(slot(row).kind()).min(STATES.len() - 1);
            (row.last && STATES[state].is_some()).then_some(state as i32)
        });
        let columns: Vec<ArrayRef> = vec![
            ints(rows.iter().map(|row| row.ts).collect()),
            ints(rows.iter().map(|row| row.end - row.ts).collect()),
            repeated(&self.node, count),
            ints(rows.iter().map(|row| row.thread).collect()),
            ints(rows.iter().map(|row| row.crumb).collect()),
            repeated("kernel", count),
            numbers(rows.iter().map(|row| Some(slot(row).pos()))),
            numbers(rows.iter().map(|row| Some(i64::from(slot(row).object() as u32)))),
            numbers(rows.iter().map(|row| Some(i64::from(slot(row).fd())))),
            named_or_null(state, words),
            ints(rows.iter().map(|row| row.end - row.ts).collect()),
        ];
        sink(&CPU_SLICE, together(&CPU_SLICE, columns)?)
    }
}

impl Rows {
    fn write_wakes(&mut self, units: &[Unit], small: &mut Small, sink: Sink<'_>) -> Result<(), Error> {
        // thread, time, who woke it, whether an interrupt did
        let mut rows = Vec::with_capacity(units.len());
        for unit in units {
            let slot = Fields(unit);
            let ts = self.clock.ts_of_mono(slot.start());
            let (pid, tid) = (slot.object() as u32, slot.fd() as u32);
            let found = self.whose(pid, tid, ts).map(|whose| (whose.thread, whose.image));
            let (thread, image) = found.unwrap_or_else(|| (self.stranger(pid, tid, ts, small), None));
            self.noticed(image, tid, slot);
            let is_interrupt = slot.kind() != 0;
            let waker = self.whose(slot.pos() as u32, slot.length() as u32, ts).filter(|_| !is_interrupt);
            rows.push((thread, ts, waker.map(|whose| whose.thread), is_interrupt));
        }
        if rows.is_empty() {
            return Ok(());
        }
        rows.sort_unstable();
        let context = rows.iter().map(|row| Some(i32::from(row.3)));
        let columns: Vec<ArrayRef> = vec![
            ints(rows.iter().map(|row| row.1).collect()),
            repeated(&self.node, rows.len()),
            ints(rows.iter().map(|row| row.0).collect()),
            Arc::new(rows.iter().map(|row| row.2).collect::<Int64Array>()),
            named_or_null(context, vec!["thread", "interrupt"]),
        ];
        sink(&WAKE, together(&WAKE, columns)?)
    }
}

impl Whose<'_> {
    /// What it worked for then.
    pub(super) fn crumb(&self, ts: i64) -> i64 {
        let before = self.marks.partition_point(|(mark, _)| *mark <= ts);
        before.checked_sub(1).map_or(0, |at| self.marks[at].1)
    }
}

/// A block device's name, from its number as major << 20 | minor; the number where it is gone.
fn device_name(dev: u32) -> String {
    let (major, minor) = (dev >> 20, dev & 0xf_ffff);
    let link = std::fs::read_link(format!("/sys/dev/block/{major}:{minor}"));
    let name = link.ok().and_then(|link| Some(link.file_name()?.to_str()?.to_owned()));
    name.unwrap_or_else(|| format!("{major}:{minor}"))
}

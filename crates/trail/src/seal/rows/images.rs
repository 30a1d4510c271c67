//! Programs that no recorder is in, and calls that none made a record of: what the kernel saw of them.
//!
//! The recorder posts both ([`iotrail_format::segment::OP_IMAGE`], [`iotrail_format::segment::OP_CALL`]). A call
//! becomes the same row that a recorder's own would; like all kernel slots it waits for the next journal, by when
//! it is known whose thread's it was.

use std::collections::{BTreeMap, HashMap};

use iotrail_format::call::{Call, CallKind};
use iotrail_format::ids::{ProcessId, ThreadId};
use iotrail_format::segment::{ImageNote, NONE, OP_IMAGE, TextKind};

use super::carry::{push_run, text_units};
use super::kernel::Whose;
use super::records::{Gathered, Times};
use super::slot::Fields;
use super::small::{base_name, command_line};
use super::{ByThread, Rows, Sink, Small};
use crate::arrays::{Value, lossy};
use crate::error::Error;
use crate::seal::journal::Ended;
use crate::seal::view::Unit;

/// A program image that no recorder is in.
pub(super) struct Image {
    pub(super) pid: u32,
    /// Pid and image of who forked or exec'd it, and its id once known.
    parent: (u32, i64),
    parent_id: Option<i64>,
    /// CLOCK_MONOTONIC.
    start: u64,
    end: Option<u64>,
    ended: Ended,
    status: i64,
    /// The journal after which its end was found; 0 not yet.
    ended_in: u64,
    /// The process that posts records of requests from this image, if one does: its row is that one's.
    pub(super) posts: Option<i64>,
    texts: [Option<Vec<u8>>; 3],
    /// When each thread was first and last seen.
    threads: BTreeMap<u32, (u64, u64)>,
}

/// Kinds of an image's texts.
const TEXTS: [TextKind; 3] = [TextKind::Exe, TextKind::Command, TextKind::Cwd];

impl Image {
    fn new(pid: u32, start: u64) -> Self {
        Self {
            pid,
            parent: (0, 0),
            parent_id: None,
            start,
            end: None,
            ended: Ended::Running,
            status: NONE,
            ended_in: 0,
            posts: None,
            texts: [None, None, None],
            threads: BTreeMap::new(),
        }
    }

    /// A thread of it was seen.
    pub(super) fn see(&mut self, tid: u32, from: u64, until: u64) {
        let seen = self.threads.entry(tid).or_insert((from, until));
        *seen = (seen.0.min(from), seen.1.max(until));
    }

    /// Keeps a text if it is an image's.
    pub(super) fn text(&mut self, kind: TextKind, bytes: &[u8]) {
        if let Some(at) = TEXTS.iter().position(|known| *known == kind) {
            self.texts[at] = Some(bytes.to_vec());
        }
    }

    fn slots(&self, id: i64) -> Vec<Unit> {
        let note = |note: ImageNote, pid: u32, start: u64, rest: [u64; 3]| {
            let word = u64::from(OP_IMAGE) | (note as u64) << 16 | u64::from(pid) << 32;
            [word, start, rest[0], id as u64, rest[1], rest[2], 0, 0]
        };
        let begun = [0, u64::from(self.parent.0), self.parent.1 as u64];
        let mut slots = vec![note(ImageNote::Begun, self.pid, self.start, begun)];
        for (kind, text) in TEXTS.iter().zip(&self.texts) {
            slots.extend(text.iter().flat_map(|text| text_units(*kind, id as u64, text)));
        }
        slots.extend(
            self.threads
                .iter()
                .map(|(tid, (from, until))| note(ImageNote::Thread, *tid, *from, [until - from, 0, 0])),
        );
        if let Some(end) = self.end {
            let how = [0, self.ended as u64, self.status as u64];
            slots.push(note(ImageNote::Ended, self.pid, end, how));
        }
        slots
    }
}

/// The id of an image's thread. One with the number of an earlier one is taken for that.
fn thread_id(image: i64, tid: u32) -> i64 {
    ThreadId::new(ProcessId(image), tid, 0).0
}

impl Rows {
    /// What was posted of an image.
    pub(super) fn image(&mut self, slot: Fields<'_>) {
        let Some(note) = ImageNote::from_number(slot.kind()) else { return };
        let (pid, start) = (slot.fd() as u32, slot.start());
        if note == ImageNote::Watching {
            self.kernel.watching = true;
            return;
        }
        let image = self.kernel.images.entry(slot.object()).or_insert_with(|| Image::new(pid, start));
        match note {
            ImageNote::Begun => {
                (image.pid, image.start) = (pid, start);
                image.parent = (slot.pos() as u32, slot.length());
                self.totals.processes += 1;
            }
            ImageNote::Thread => image.see(pid, start, slot.end()),
            ImageNote::Ended => {
                image.end = Some(start);
                image.ended = match slot.pos() {
                    1 => Ended::Exit,
                    2 => Ended::Exec,
                    3 => Ended::Killed,
                    _ => Ended::Running,
                };
                image.status = slot.length();
            }
            ImageNote::Watching => {}
        }
    }

    /// Slots that make the same images.
    pub(super) fn carry_images(&self, units: &mut Vec<Unit>) {
        let mut slots = Vec::new();
        if self.kernel.watching {
            slots.push([u64::from(OP_IMAGE), 0, 0, 0, 0, 0, 0, 0]);
        }
        slots.extend(self.kernel.images.iter().flat_map(|(id, image)| image.slots(*id)));
        push_run(units, 0, 0, 0, &slots);
    }

    /// The image that pid was at a time, if no recorder was in it: its id and when it began.
    pub(super) fn image_at(&self, pid: u32, ts: i64) -> Option<(i64, i64)> {
        let began = |image: &Image| self.clock.ts_of_mono(image.start);
        let images = self.kernel.images.iter().filter(|(_, image)| image.pid == pid && began(image) <= ts);
        let (id, image) = images.max_by_key(|(_, image)| image.start)?;
        let over = image.end.is_some_and(|end| self.clock.ts_of_mono(end) < ts);
        (!over).then(|| (*id, began(image)))
    }

    /// The first image of a pid: what the pid did before, it did to become that.
    pub(super) fn first_image(&self, pid: u32) -> Option<i64> {
        let images = self.kernel.images.iter().filter(|(_, image)| image.pid == pid);
        images.min_by_key(|(_, image)| image.start).map(|(id, _)| *id)
    }

    /// A thread of an image, for a row.
    pub(super) fn of_image(id: i64, tid: u32) -> Whose<'static> {
        Whose { thread: thread_id(id, tid), marks: &[], image: Some(id) }
    }

    /// What is known only now of who began an image, and who posts from it.
    fn relate_images(&mut self) {
        let ids: Vec<i64> = self.kernel.images.keys().copied().collect();
        for id in ids {
            let image = &self.kernel.images[&id];
            let start = self.clock.ts_of_mono(image.start);
            let end = image.end.map_or(i64::MAX, |end| self.clock.ts_of_mono(end));
            let (pid, parent) = (image.pid, image.parent);
            let parent_id = image.parent_id.or(match parent {
                (0, _) => None,
                (pid, 0) => self.process_at(pid, start - 1).filter(|parent| {
                    let image = self.kernel.images.get(parent);
                    let began = image.map(|image| self.clock.ts_of_mono(image.start));
                    began.or_else(|| self.process_start(*parent)).is_some_and(|began| began < start)
                }),
                (_, image) => Some(image),
            });
            let posts = image.posts.or_else(|| {
                let process = self.process_at(pid, end)?;
                let began = self.process_start(process)?;
                (start <= began && began <= end).then_some(process)
            });
            let image = self.kernel.images.get_mut(&id).expect("its key is");
            (image.parent_id, image.posts) = (parent_id, posts);
        }
    }

    /// Writes calls, each with the slot that belongs to it.
    pub(super) fn write_calls(
        &mut self,
        calls: &[[Unit; 2]],
        small: &mut Small,
        sink: Sink<'_>,
    ) -> Result<(), Error> {
        self.relate_images();
        let mut units: Vec<Unit> = Vec::with_capacity(calls.len());
        let (mut files, mut syncs): (ByThread, ByThread) = (HashMap::new(), HashMap::new());
        let mut gathered = Gathered::of(Times::Monotonic);
        for [slot, more] in calls {
            let fields = Fields(slot);
            let ts = self.clock.ts_of_mono(fields.start());
            let (pid, tid) = (fields.object() as u32, (fields.object() >> 32) as u32);
            let (call, errno, image) = (more[2] & 0xffff, more[2] >> 16 & 0xff, more[3] as i64);
            let word = call | u64::from(fields.kind()) << 16 | errno << 24 | slot[0] >> 32 << 32;
            let unit = [word, slot[1], slot[2], slot[4], slot[5], slot[6], slot[7], more[1]];
            let Some(known) = Fields(&unit).known() else { continue };
            let at = units.len() as u32;
            units.push(unit);
            let (process, thread, crumb) = self.caller((pid, tid), image, &unit, ts, small);
            gathered.call(calls.len(), at, crumb);
            if fields.kind() != 0 {
                syncs.entry(thread).or_default().push(at);
                continue;
            }
            files.entry(thread).or_default().push(at);
            let slot = Fields(&unit);
            let moved = if slot.errno() == 0 && slot.finished() { slot.result().max(0) } else { 0 };
            match known.kind {
                CallKind::Read => self.totals.read = self.totals.read.saturating_add(moved as u64),
                CallKind::Write => self.totals.written = self.totals.written.saturating_add(moved as u64),
                CallKind::Map if call == Call::Mmap as u64 && moved != 0 => {
                    small.add("mapped_file", process, slot.object(), slot.length().max(0));
                }
                _ => {}
            }
        }
        self.write_file_ops(&units, files, &gathered, sink)?;
        self.write_sync_ops(&units, syncs, &gathered, sink)
    }

    /// Process, thread and breadcrumb of a call.
    fn caller(
        &mut self,
        (pid, tid): (u32, u32),
        id: i64,
        unit: &Unit,
        ts: i64,
        small: &mut Small,
    ) -> (i64, i64, i64) {
        if id == 0 {
            let found = self.whose(pid, tid, ts).map(|whose| (whose.thread, whose.crumb(ts)));
            let (thread, crumb) = found.unwrap_or_else(|| (self.stranger(pid, tid, ts, small), 0));
            return (self.process_at(pid, ts).unwrap_or(0), thread, crumb);
        }
        let image = self.kernel.images.entry(id).or_insert_with(|| Image::new(pid, unit[1]));
        if let Some(process) = image.posts
            && let Some(whose) = self.whose_of(process, tid)
        {
            return (process, whose.thread, whose.crumb(ts));
        }
        let image = self.kernel.images.get_mut(&id).expect("it was just there");
        image.see(tid, unit[1], Fields(unit).end());
        (image.posts.unwrap_or(id), thread_id(id, tid), 0)
    }

    /// Rows of images that ended some journals ago, or of all.
    pub(super) fn end_images(&mut self, sequence: u64, last: bool, small: &mut Small) {
        let mut over = Vec::new();
        for (id, image) in &mut self.kernel.images {
            if image.end.is_some() && image.ended_in == 0 {
                image.ended_in = sequence;
            }
            if last || image.ended_in != 0 && image.ended_in + 2 <= sequence {
                over.push(*id);
            }
        }
        for id in over {
            if let Some(image) = self.kernel.images.remove(&id) {
                self.image_rows(id, &image, small);
            }
        }
    }

    fn image_rows(&self, id: i64, image: &Image, small: &mut Small) {
        let ts = |mono: u64| self.clock.ts_of_mono(mono);
        for (tid, (from, until)) in &image.threads {
            let end = image.end.map(|end| ts(end.min(*until)));
            let named = self.kernel.stranger_name(image.pid, *tid);
            let process = image.posts.unwrap_or(id);
            small.thread.push(self.thread_columns(
                thread_id(id, *tid),
                (image.pid, *tid),
                process,
                named,
                ts(*from),
                end,
            ));
        }
        if image.posts.is_some() {
            return;
        }
        let [exe, cmd, cwd] = &image.texts;
        let name = exe.as_deref().map_or_else(|| "unknown".to_owned(), base_name);
        let mut columns: Vec<Value> = vec![
            self.node.as_str().into(),
            id.into(),
            i64::from(image.pid).into(),
            name.into(),
            Value::Null,
            Value::Null,
            ts(image.start).into(),
            image.end.map(ts).into(),
            image.parent_id.into(),
            exe.as_deref().map(lossy).into(),
            cmd.as_deref().map(command_line).into(),
            cwd.as_deref().map(lossy).into(),
            image.ended.name().into(),
            Some(image.status).filter(|status| *status != NONE).into(),
        ];
        columns.resize_with(iotrail_format::schema::PROCESS.columns.len(), || Value::Null);
        small.process.push(columns);
    }
}

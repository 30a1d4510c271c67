//! Columns of the two large tables, `file_op` and `sync_op`, from slots.

use arrow_array::{ArrayRef, RecordBatch, new_null_array};
use arrow_schema::DataType;
use iotrail_format::call::{Call, WaitKind};
use iotrail_format::schema::{FILE_OP, SYNC_OP};
use iotrail_format::segment::NONE;

use super::records::Gathered;
use super::slot::{Aux, Fields};
use super::{ByThread, Rows, Sink};
use crate::arrays::{Nullable, WAIT_KINDS, call_names, ints, named, repeated, wait_names};
use crate::columns::arrow_schema;
use crate::error::{ArrowContext as _, Error};
use crate::seal::view::Unit;

/// Rows that become columns at a time: so few that they are still in the processor's cache when they are encoded, and that
/// the allocator takes their memory from what the last ones left.
const ROWS_AT_A_TIME: usize = 8192;

/// Calls whose slots have the operation on a lock in place of a descriptor.
const LOCK_WINDOWS: [u16; 2] = [Call::MpiWinLock as u16, Call::MpiWinUnlock as u16];

/// Columns of `file_op` as they grow.
struct FileOps {
    ts: Vec<i64>,
    dur: Nullable,
    thread: Vec<i64>,
    crumb: Vec<i64>,
    call: Vec<i32>,
    file: Nullable,
    file2: Nullable,
    fd: Nullable,
    pos: Nullable,
    length: Nullable,
    result: Nullable,
    errno: Vec<i64>,
    flags: Nullable,
    calls: Vec<i64>,
}

impl FileOps {
    fn new(rows: usize) -> Self {
        let ints = || Vec::with_capacity(rows);
        let nullable = || Nullable::new(rows);
        Self {
            ts: ints(),
            dur: nullable(),
            thread: ints(),
            crumb: ints(),
            call: Vec::with_capacity(rows),
            file: nullable(),
            file2: nullable(),
            fd: nullable(),
            pos: nullable(),
            length: nullable(),
            result: nullable(),
            errno: ints(),
            flags: nullable(),
            calls: ints(),
        }
    }

    fn finish(self, node: &str) -> Result<RecordBatch, Error> {
        let rows = self.ts.len();
        let columns: Vec<ArrayRef> = vec![
            ints(self.ts),
            self.dur.finish(),
            repeated(node, rows),
            ints(self.thread),
            ints(self.crumb),
            named(self.call, call_names()),
            self.file.finish(),
            self.file2.finish(),
            self.fd.finish(),
            self.pos.finish(),
            self.length.finish(),
            self.result.finish(),
            ints(self.errno),
            self.flags.finish(),
            ints(self.calls),
            new_null_array(&DataType::Int64, rows),
        ];
        RecordBatch::try_new(arrow_schema(&FILE_OP), columns).when("make rows of file_op")
    }
}

/// Columns of `sync_op` as they grow.
struct SyncOps {
    ts: Vec<i64>,
    dur: Nullable,
    thread: Vec<i64>,
    crumb: Vec<i64>,
    call: Vec<i32>,
    kind: Vec<i32>,
    object: Nullable,
    peer: Nullable,
    fd: Nullable,
    length: Nullable,
    result: Nullable,
    errno: Vec<i64>,
    seq: Nullable,
    tag: Nullable,
    flags: Nullable,
}

impl SyncOps {
    fn new(rows: usize) -> Self {
        let ints = || Vec::with_capacity(rows);
        let names = || Vec::with_capacity(rows);
        let nullable = || Nullable::new(rows);
        Self {
            ts: ints(),
            dur: nullable(),
            thread: ints(),
            crumb: ints(),
            call: names(),
            kind: names(),
            object: nullable(),
            peer: nullable(),
            fd: nullable(),
            length: nullable(),
            result: nullable(),
            errno: ints(),
            seq: nullable(),
            tag: nullable(),
            flags: nullable(),
        }
    }

    fn finish(self, node: &str) -> Result<RecordBatch, Error> {
        let rows = self.ts.len();
        let columns: Vec<ArrayRef> = vec![
            ints(self.ts),
            self.dur.finish(),
            repeated(node, rows),
            ints(self.thread),
            ints(self.crumb),
            named(self.call, call_names()),
            named(self.kind, wait_names()),
            self.object.finish(),
            self.peer.finish(),
            self.fd.finish(),
            self.length.finish(),
            self.result.finish(),
            ints(self.errno),
            self.seq.finish(),
            self.tag.finish(),
            self.flags.finish(),
        ];
        RecordBatch::try_new(arrow_schema(&SYNC_OP), columns).when("make rows of sync_op")
    }
}

impl Rows {
    pub(super) fn write_file_ops(
        &mut self,
        units: &[Unit],
        slots: ByThread,
        gathered: &Gathered,
        sink: Sink<'_>,
    ) -> Result<(), Error> {
        let (mut piece, mut end_piece) = (0, 0);
        for slots in in_order(units, slots).chunks(ROWS_AT_A_TIME) {
            let mut rows = FileOps::new(slots.len());
            for (thread, index) in slots {
                let slot = Fields(&units[*index as usize]);
                let Some(known) = slot.known() else { continue };
                let start = gathered.times.ts(&self.clock, slot.start(), &mut piece);
                rows.ts.push(start);
                rows.thread.push(*thread);
                rows.crumb.push(gathered.crumb(*index));
                rows.call.push(known.name);
                rows.errno.push(slot.errno());
                let finished = slot.finished();
                let end = gathered.times.ts(&self.clock, slot.end(), &mut end_piece);
                rows.dur.push(end - start, finished);
                rows.result.push(slot.result(), finished);
                rows.file.push(slot.object(), slot.object() != 0);
                rows.fd.push(i64::from(slot.fd()), slot.fd() >= 0);
                rows.pos.push(slot.pos(), slot.pos() != NONE);
                rows.length.push(slot.length(), slot.length() != NONE);
                let aux = slot.aux();
                let given = aux != NONE;
                rows.file2.push(aux, given && known.aux == Aux::File2 && aux != 0);
                rows.flags.push(aux, given && known.aux == Aux::Flags);
                let stands_for = if given && known.aux == Aux::Calls { aux.max(1) } else { 1 };
                rows.calls.push(stands_for);
                self.totals.calls = self.totals.calls.saturating_add(stands_for as u64);
            }
            self.totals.rows += rows.ts.len() as u64;
            sink(&FILE_OP, rows.finish(&self.node)?)?;
        }
        Ok(())
    }

    pub(super) fn write_sync_ops(
        &mut self,
        units: &[Unit],
        slots: ByThread,
        gathered: &Gathered,
        sink: Sink<'_>,
    ) -> Result<(), Error> {
        let (mut piece, mut end_piece) = (0, 0);
        for slots in in_order(units, slots).chunks(ROWS_AT_A_TIME) {
            let mut rows = SyncOps::new(slots.len());
            for (thread, index) in slots {
                let slot = Fields(&units[*index as usize]);
                let Some(known) = slot.known() else { continue };
                let start = gathered.times.ts(&self.clock, slot.start(), &mut piece);
                rows.ts.push(start);
                rows.thread.push(*thread);
                rows.crumb.push(gathered.crumb(*index));
                rows.call.push(known.name);
                rows.kind.push(i32::from(slot.kind()).min(WAIT_KINDS - 1));
                rows.errno.push(slot.errno());
                let finished = slot.finished();
                let end = gathered.times.ts(&self.clock, slot.end(), &mut end_piece);
                rows.dur.push(end - start, finished);
                rows.result.push(slot.result(), finished);
                rows.object.push(slot.object(), slot.object() != 0);
                let (aux, fd) = (slot.aux(), slot.fd());
                let is = |kind: WaitKind| slot.kind() == kind as u8;
                rows.peer.push(aux, aux != NONE && !is(WaitKind::FileLock));
                // What MPI calls have in place of a descriptor is a tag, or the operation on a window's lock.
                let locks_window = LOCK_WINDOWS.contains(&slot.opcode());
                let flags = if locks_window { i64::from(fd) } else { aux };
                rows.flags.push(flags, locks_window || aux != NONE && is(WaitKind::FileLock));
                rows.fd.push(i64::from(fd), fd >= 0 && !is(WaitKind::Mpi));
                rows.tag.push(i64::from(fd), fd >= 0 && is(WaitKind::Mpi) && !locks_window);
                const NUMBERED: [WaitKind; 7] = [
                    WaitKind::FileLock,
                    WaitKind::Mpi,
                    WaitKind::Socket,
                    WaitKind::Event,
                    WaitKind::Signal,
                    WaitKind::Semaphore,
                    WaitKind::Barrier,
                ];
                let is_numbered = NUMBERED.into_iter().any(is);
                rows.seq.push(slot.pos(), slot.pos() != NONE && is_numbered);
                rows.length.push(slot.length(), slot.length() != NONE);
            }
            self.totals.rows += rows.ts.len() as u64;
            self.totals.calls += rows.ts.len() as u64;
            sink(&SYNC_OP, rows.finish(&self.node)?)?;
        }
        Ok(())
    }
}

/// The slots of each thread by start, threads by id: the order of the table.
fn in_order(units: &[Unit], slots: ByThread) -> Vec<(i64, u32)> {
    let mut threads: Vec<_> = slots.into_iter().collect();
    threads.sort_unstable_by_key(|(thread, _)| *thread);
    let mut order = Vec::with_capacity(threads.iter().map(|(_, indices)| indices.len()).sum());
    for (thread, mut indices) in threads {
        // Nearly sorted already: a ring has them by return, and few calls nest.
        indices.sort_by_key(|index| units[*index as usize][1]);
        order.extend(indices.into_iter().map(|index| (thread, index)));
    }
    order
}

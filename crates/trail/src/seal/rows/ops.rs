//! Columns of the two large tables, `file_op` and `sync_op`, from slots.

use arrow_array::{ArrayRef, RecordBatch, new_null_array};
use arrow_schema::DataType;
use iotrail_format::schema::{FILE_OP, SYNC_OP};
use iotrail_format::segment::NONE;

use super::records::Gathered;
use super::slot::{Aux, Fields};
use super::{ByThread, Rows, Sink};
use crate::arrays::{Nullable, WAIT_KINDS, call_names, ints, named, repeated, wait_names};
use crate::columns::arrow_schema;
use crate::error::{ArrowContext as _, Error};
use crate::seal::view::Unit;

impl Rows {
    pub(super) fn write_file_ops(
        &mut self,
        units: &[Unit],
        slots: ByThread,
        gathered: &Gathered,
        sink: Sink<'_>,
    ) -> Result<(), Error> {
        let (order, rows) = in_order(units, slots);
        if rows == 0 {
            return Ok(());
        }
        let mut ts = Vec::with_capacity(rows);
        let mut thread_ids = Vec::with_capacity(rows);
        let mut crumbs = Vec::with_capacity(rows);
        let mut names = Vec::with_capacity(rows);
        let mut errno = Vec::with_capacity(rows);
        let mut calls = Vec::with_capacity(rows);
        let (mut dur, mut file, mut file2, mut fd) =
            (Nullable::new(rows), Nullable::new(rows), Nullable::new(rows), Nullable::new(rows));
        let (mut pos, mut length, mut result, mut flags) =
            (Nullable::new(rows), Nullable::new(rows), Nullable::new(rows), Nullable::new(rows));
        let (mut piece, mut end_piece) = (0, 0);
        for (thread, indices) in &order {
            for index in indices {
                let slot = Fields(&units[*index as usize]);
                let Some(known) = slot.known() else { continue };
                let start = gathered.times.ts(&self.clock, slot.start(), &mut piece);
                ts.push(start);
                thread_ids.push(*thread);
                crumbs.push(gathered.crumb(*index));
                names.push(known.name);
                errno.push(slot.errno());
                let finished = slot.finished();
                let end = gathered.times.ts(&self.clock, slot.end(), &mut end_piece);
                dur.push(end - start, finished);
                result.push(slot.result(), finished);
                file.push(slot.object(), slot.object() != 0);
                fd.push(i64::from(slot.fd()), slot.fd() >= 0);
                pos.push(slot.pos(), slot.pos() != NONE);
                length.push(slot.length(), slot.length() != NONE);
                let aux = slot.aux();
                let given = aux != NONE;
                file2.push(aux, given && known.aux == Aux::File2 && aux != 0);
                flags.push(aux, given && known.aux == Aux::Flags);
                let stands_for = if given && known.aux == Aux::Calls { aux.max(1) } else { 1 };
                calls.push(stands_for);
                self.totals.calls = self.totals.calls.saturating_add(stands_for as u64);
            }
        }
        self.totals.rows += rows as u64;
        let columns: Vec<ArrayRef> = vec![
            ints(ts),
            dur.finish(),
            repeated(&self.node, rows),
            ints(thread_ids),
            ints(crumbs),
            named(names, call_names()),
            file.finish(),
            file2.finish(),
            fd.finish(),
            pos.finish(),
            length.finish(),
            result.finish(),
            ints(errno),
            flags.finish(),
            ints(calls),
            new_null_array(&DataType::Int64, rows),
        ];
        let rows = RecordBatch::try_new(arrow_schema(&FILE_OP), columns).when("make rows of file_op")?;
        sink(&FILE_OP, rows)
    }

    pub(super) fn write_sync_ops(
        &mut self,
        units: &[Unit],
        slots: ByThread,
        gathered: &Gathered,
        sink: Sink<'_>,
    ) -> Result<(), Error> {
        let (order, rows) = in_order(units, slots);
        if rows == 0 {
            return Ok(());
        }
        let mut ts = Vec::with_capacity(rows);
        let mut thread_ids = Vec::with_capacity(rows);
        let mut crumbs = Vec::with_capacity(rows);
        let mut names = Vec::with_capacity(rows);
        let mut kinds = Vec::with_capacity(rows);
        let mut errno = Vec::with_capacity(rows);
        let (mut dur, mut object, mut peer, mut fd) =
            (Nullable::new(rows), Nullable::new(rows), Nullable::new(rows), Nullable::new(rows));
        let (mut length, mut result) = (Nullable::new(rows), Nullable::new(rows));
        let (mut piece, mut end_piece) = (0, 0);
        for (thread, indices) in &order {
            for index in indices {
                let slot = Fields(&units[*index as usize]);
                let Some(known) = slot.known() else { continue };
                let start = gathered.times.ts(&self.clock, slot.start(), &mut piece);
                ts.push(start);
                thread_ids.push(*thread);
                crumbs.push(gathered.crumb(*index));
                names.push(known.name);
                kinds.push(i32::from(slot.kind()).min(WAIT_KINDS - 1));
                errno.push(slot.errno());
                let finished = slot.finished();
                let end = gathered.times.ts(&self.clock, slot.end(), &mut end_piece);
                dur.push(end - start, finished);
                result.push(slot.result(), finished);
                object.push(slot.object(), slot.object() != 0);
                peer.push(slot.aux(), slot.aux() != NONE);
                fd.push(i64::from(slot.fd()), slot.fd() >= 0);
                length.push(slot.length(), slot.length() != NONE);
            }
        }
        self.totals.rows += rows as u64;
        self.totals.calls += rows as u64;
        let columns: Vec<ArrayRef> = vec![
            ints(ts),
            dur.finish(),
            repeated(&self.node, rows),
            ints(thread_ids),
            ints(crumbs),
            named(names, call_names()),
            named(kinds, wait_names()),
            object.finish(),
            peer.finish(),
            fd.finish(),
            length.finish(),
            result.finish(),
            ints(errno),
        ];
        let rows = RecordBatch::try_new(arrow_schema(&SYNC_OP), columns).when("make rows of sync_op")?;
        sink(&SYNC_OP, rows)
    }
}

/// The slots of each thread by start, threads by id: the order of the table. Also how many.
fn in_order(units: &[Unit], slots: ByThread) -> (Vec<(i64, Vec<u32>)>, usize) {
    let mut order: Vec<_> = slots.into_iter().filter(|(_, indices)| !indices.is_empty()).collect();
    order.sort_unstable_by_key(|(thread, _)| *thread);
    for (_, indices) in &mut order {
        // Nearly sorted already: a ring has them by return, and few calls nest.
        indices.sort_by_key(|index| units[*index as usize][1]);
    }
    let rows = order.iter().map(|(_, indices)| indices.len()).sum();
    (order, rows)
}

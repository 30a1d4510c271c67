//! Columns of the two large tables, `file_op` and `sync_op`, from slots.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, DictionaryArray, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};
use iotrail_format::call::{Call, WaitKind};
use iotrail_format::schema::{FILE_OP, SYNC_OP};
use iotrail_format::segment::NONE;

use super::slot::{Aux, Fields};
use super::{Rows, Sink};
use crate::columns::arrow_schema;
use crate::error::{ArrowContext as _, Error};
use crate::seal::view::Unit;

impl Rows {
    pub(super) fn write_file_ops(
        &mut self,
        units: &[Unit],
        slots: HashMap<i64, Vec<u32>>,
        sink: Sink<'_>,
    ) -> Result<(), Error> {
        let (order, rows) = in_order(units, slots);
        if rows == 0 {
            return Ok(());
        }
        let mut ts = Vec::with_capacity(rows);
        let mut thread_ids = Vec::with_capacity(rows);
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
                let start = self.clock.ts(slot.start(), &mut piece);
                ts.push(start);
                thread_ids.push(*thread);
                names.push(known.name);
                errno.push(slot.errno());
                let finished = slot.finished();
                let end = self.clock.ts(slot.end(), &mut end_piece);
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
            ints(vec![0; rows]),
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
        ];
        let rows = RecordBatch::try_new(arrow_schema(&FILE_OP), columns).when("make rows of file_op")?;
        sink(&FILE_OP, rows)
    }

    pub(super) fn write_sync_ops(
        &mut self,
        units: &[Unit],
        slots: HashMap<i64, Vec<u32>>,
        sink: Sink<'_>,
    ) -> Result<(), Error> {
        let (order, rows) = in_order(units, slots);
        if rows == 0 {
            return Ok(());
        }
        let mut ts = Vec::with_capacity(rows);
        let mut thread_ids = Vec::with_capacity(rows);
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
                let start = self.clock.ts(slot.start(), &mut piece);
                ts.push(start);
                thread_ids.push(*thread);
                names.push(known.name);
                kinds.push(i32::from(slot.kind()).min(WAIT_KINDS - 1));
                errno.push(slot.errno());
                let finished = slot.finished();
                let end = self.clock.ts(slot.end(), &mut end_piece);
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
            ints(vec![0; rows]),
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
fn in_order(units: &[Unit], slots: HashMap<i64, Vec<u32>>) -> (Vec<(i64, Vec<u32>)>, usize) {
    let mut order: Vec<_> = slots.into_iter().filter(|(_, indices)| !indices.is_empty()).collect();
    order.sort_unstable_by_key(|(thread, _)| *thread);
    for (_, indices) in &mut order {
        // Nearly sorted already: a ring has them by return, and few calls nest.
        indices.sort_by_key(|index| units[*index as usize][1]);
    }
    let rows = order.iter().map(|(_, indices)| indices.len()).sum();
    (order, rows)
}

/// A BIGINT column with nulls. Arrow's builder branches on each value; this is a tenth of sealing.
struct Nullable {
    values: Vec<i64>,
    /// Validity of the values, 64 a word, the last word still in `word`.
    words: Vec<u64>,
    word: u64,
    nulls: usize,
}

impl Nullable {
    fn new(rows: usize) -> Self {
        let words = Vec::with_capacity(rows.div_ceil(64));
        Self { values: Vec::with_capacity(rows), words, word: 0, nulls: 0 }
    }

    #[inline(always)]
    fn push(&mut self, value: i64, valid: bool) {
        let bit = self.values.len() % 64;
        self.values.push(if valid { value } else { 0 });
        self.word |= u64::from(valid) << bit;
        self.nulls += usize::from(!valid);
        if bit == 63 {
            self.words.push(std::mem::take(&mut self.word));
        }
    }

    fn finish(mut self) -> ArrayRef {
        let rows = self.values.len();
        let nulls = (self.nulls != 0).then(|| {
            if !rows.is_multiple_of(64) {
                self.words.push(self.word);
            }
            NullBuffer::new(BooleanBuffer::new(Buffer::from_vec(self.words), 0, rows))
        });
        Arc::new(Int64Array::new(ScalarBuffer::from(self.values), nulls))
    }
}

fn ints(values: Vec<i64>) -> ArrayRef {
    Arc::new(Int64Array::from(values))
}

fn named(keys: Vec<i32>, names: StringArray) -> ArrayRef {
    let keys = Int32Array::from(keys);
    Arc::new(DictionaryArray::<Int32Type>::new(keys, Arc::new(names)))
}

fn repeated(text: &str, rows: usize) -> ArrayRef {
    named(vec![0; rows], StringArray::from(vec![text]))
}

fn call_names() -> StringArray {
    Call::ALL.iter().map(|call| Some(call.name())).collect()
}

/// Wait kinds by number, and one more for what a later recorder may add.
const WAIT_KINDS: i32 = 32;

fn wait_names() -> StringArray {
    (0..WAIT_KINDS as u8)
        .map(|number| Some(WaitKind::from_number(number).map_or("unknown", WaitKind::name)))
        .collect()
}

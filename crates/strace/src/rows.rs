//! Rows of the two large tables, collected to batches.

use arrow_array::{RecordBatch, StringArray};
use iotrail_format::call::{CALL_NUMBERS, Call, WaitKind};
use iotrail_format::schema::{FILE_OP, SYNC_OP, Table};
use iotrail_trail::arrays::{Nullable, call_names, ints, named, repeated, wait_names};
use iotrail_trail::arrow_schema;

/// Rows of a batch: some megabytes, so that what handles batches has little to do for each.
const BATCH: usize = 1 << 16;

/// Rows of a table.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The table.
    pub table: &'static Table,
    /// Its rows, of `iotrail_trail::arrow_schema(table)`.
    pub rows: RecordBatch,
}

/// A row of `file_op`. Its columns say what none means; an id of 0 is none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileOp {
    pub(crate) ts: i64,
    pub(crate) dur: Option<i64>,
    pub(crate) thread: i64,
    pub(crate) call: Call,
    pub(crate) file: i64,
    pub(crate) file2: i64,
    pub(crate) fd: Option<i64>,
    pub(crate) pos: Option<i64>,
    pub(crate) length: Option<i64>,
    pub(crate) result: Option<i64>,
    pub(crate) errno: i64,
    pub(crate) flags: Option<i64>,
    /// Row in the trace.
    pub(crate) row: i64,
}

/// A row of `sync_op`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SyncOp {
    pub(crate) ts: i64,
    pub(crate) dur: Option<i64>,
    pub(crate) thread: i64,
    pub(crate) call: Call,
    pub(crate) kind: WaitKind,
    pub(crate) object: i64,
    pub(crate) peer: Option<i64>,
    pub(crate) fd: Option<i64>,
    pub(crate) length: Option<i64>,
    pub(crate) result: Option<i64>,
    pub(crate) errno: i64,
}

/// Takes rows, gives batches.
pub(crate) struct Rows {
    node: String,
    call_names: StringArray,
    wait_names: StringArray,
    /// Position in `call_names` by number of the call.
    calls: [i32; CALL_NUMBERS],
    files: Vec<FileOp>,
    syncs: Vec<SyncOp>,
    /// Earliest start and latest end.
    pub(crate) span: Option<(i64, i64)>,
    pub(crate) ready: Vec<Batch>,
}

impl Rows {
    /// Without rows.
    pub(crate) fn new(node: String) -> Self {
        let mut calls = [0; CALL_NUMBERS];
        for (at, call) in Call::ALL.iter().enumerate() {
            calls[*call as usize] = at as i32;
        }
        Self {
            node,
            call_names: call_names(),
            wait_names: wait_names(),
            calls,
            files: Vec::with_capacity(BATCH),
            syncs: Vec::new(),
            span: None,
            ready: Vec::new(),
        }
    }

    /// Adds a row of `file_op`.
    pub(crate) fn file(&mut self, row: FileOp) {
        self.extend(row.ts, row.ts + row.dur.unwrap_or(0));
        self.files.push(row);
        if self.files.len() == BATCH {
            self.flush_files();
        }
    }

    /// Adds a row of `sync_op`.
    pub(crate) fn sync(&mut self, row: SyncOp) {
        self.extend(row.ts, row.ts + row.dur.unwrap_or(0));
        self.syncs.push(row);
        if self.syncs.len() == BATCH {
            self.flush_syncs();
        }
    }

    /// Something happened between these moments.
    pub(crate) fn extend(&mut self, first: i64, last: i64) {
        let (start, end) = self.span.unwrap_or((first, last));
        self.span = Some((start.min(first), end.max(last)));
    }

    /// Makes batches of what waits for more.
    pub(crate) fn flush(&mut self) {
        self.flush_files();
        self.flush_syncs();
    }

    fn flush_files(&mut self) {
        let rows = &self.files;
        let optional = |value: fn(&FileOp) -> Option<i64>| optional(rows.iter().map(value));
        let columns = vec![
            ints(rows.iter().map(|row| row.ts).collect()),
            optional(|row| row.dur),
            repeated(&self.node, rows.len()),
            ints(rows.iter().map(|row| row.thread).collect()),
            ints(vec![0; rows.len()]),
            named(rows.iter().map(|row| self.calls[row.call as usize]).collect(), self.call_names.clone()),
            optional(|row| id(row.file)),
            optional(|row| id(row.file2)),
            optional(|row| row.fd),
            optional(|row| row.pos),
            optional(|row| row.length),
            optional(|row| row.result),
            ints(rows.iter().map(|row| row.errno).collect()),
            optional(|row| row.flags),
            ints(vec![1; rows.len()]),
            ints(rows.iter().map(|row| row.row).collect()),
        ];
        self.files.clear();
        self.batch(&FILE_OP, columns);
    }

    fn flush_syncs(&mut self) {
        let rows = &self.syncs;
        let optional = |value: fn(&SyncOp) -> Option<i64>| optional(rows.iter().map(value));
        let columns = vec![
            ints(rows.iter().map(|row| row.ts).collect()),
            optional(|row| row.dur),
            repeated(&self.node, rows.len()),
            ints(rows.iter().map(|row| row.thread).collect()),
            ints(vec![0; rows.len()]),
            named(rows.iter().map(|row| self.calls[row.call as usize]).collect(), self.call_names.clone()),
            named(rows.iter().map(|row| row.kind as i32).collect(), self.wait_names.clone()),
            optional(|row| id(row.object)),
            optional(|row| row.peer),
            optional(|row| row.fd),
            optional(|row| row.length),
            optional(|row| row.result),
            ints(rows.iter().map(|row| row.errno).collect()),
            optional(|_| None),
            optional(|_| None),
            optional(|_| None),
        ];
        self.syncs.clear();
        self.batch(&SYNC_OP, columns);
    }

    fn batch(&mut self, table: &'static Table, columns: Vec<arrow_array::ArrayRef>) {
        let rows = RecordBatch::try_new(arrow_schema(table), columns).expect("columns are the table's");
        if rows.num_rows() != 0 {
            self.ready.push(Batch { table, rows });
        }
    }
}

fn id(id: i64) -> Option<i64> {
    (id != 0).then_some(id)
}

fn optional(values: impl ExactSizeIterator<Item = Option<i64>>) -> arrow_array::ArrayRef {
    let mut column = Nullable::new(values.len());
    values.for_each(|value| column.push(value.unwrap_or(0), value.is_some()));
    column.finish()
}

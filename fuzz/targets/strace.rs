//! The reader of strace's output on any bytes: it never panics, and what it makes of them is a trail that
//! hangs together, however the bytes come in pieces.
//!
//! The input's first byte says how: whether it stops at what it doesn't understand, and where pieces end. A
//! byte 0 in the rest ends a file, as strace prints none.

#![no_main]

use std::collections::HashSet;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, RecordBatch};
use iotrail_strace::{Batch, Reader};
use libfuzzer_sys::fuzz_target;

/// Times beyond it are garbage; a call that began before may take 31 years.
const LAST: i64 = (1 << 62) + 1_000_000_000_000_000_000;

fuzz_target!(|input: &[u8]| {
    let Some((&how, text)) = input.split_first() else { return };
    let mut reader = Reader::new("fuzz", how & 1 == 1);
    let mut batches: Vec<Batch> = Vec::new();
    for (number, file) in text.split(|byte| *byte == 0).enumerate() {
        reader.begin(number as u32);
        for piece in file.chunks(usize::from(how) + 1) {
            reader.feed(piece);
            batches.extend(reader.batches());
        }
    }
    let summary = reader.finish();
    batches.extend(reader.batches());

    assert!(summary.skipped.count <= summary.lines);
    assert!(summary.skipped.first.len() as u64 <= summary.skipped.count);
    let rows = |table: &'static str| batches.iter().filter(move |b| b.table.name == table).map(|b| &b.rows);
    let threads: HashSet<i64> = rows("thread").flat_map(|rows| ints(rows, "thread")).collect();
    let processes: HashSet<i64> = rows("process").flat_map(|rows| ints(rows, "process")).collect();
    let mut calls = 0;
    for rows in rows("file_op").chain(rows("sync_op")) {
        calls += rows.num_rows() as u64;
        assert!(ints(rows, "thread").all(|thread| threads.contains(&thread)), "a call's thread has a row");
        assert!(ints(rows, "dur").all(|dur| dur >= 0), "nothing takes less than no time");
        let (first, last) = summary.span.expect("calls have times");
        assert!(0 <= first && last < LAST);
        assert!(ints(rows, "ts").all(|ts| (first..=last).contains(&ts)), "a call is within the span");
    }
    assert!(calls <= summary.lines, "a line is one call at most");
    for rows in rows("thread") {
        assert!(ints(rows, "process").all(|process| processes.contains(&process)), "a thread's process has a row");
        assert!(ints(rows, "start_ts").zip(ints(rows, "end_ts")).all(|(start, _)| start >= 0));
    }
    for rows in rows("process") {
        assert!(ints(rows, "start_ts").zip(ints(rows, "end_ts")).all(|(start, end)| start <= end));
    }
});

/// The values of a column that aren't null.
fn ints<'a>(rows: &'a RecordBatch, column: &str) -> impl Iterator<Item = i64> + 'a {
    let values = rows.column_by_name(column).expect("a column of the table").as_primitive::<Int64Type>();
    (0..values.len()).filter(|row| values.is_valid(*row)).map(|row| values.value(row))
}

//! What an agent sends, as an Arrow IPC stream, on any bytes: rows or a refusal, never a panic or a loop.
//!
//! The input's first byte chooses a table and whether the rest is the stream, or is laid over a valid one of that table:
//! three bytes a piece, where and the byte that stands there.

#![no_main]

use bytes::Bytes;
use iotrail_collector::rows::{Rows, from_ipc, quiet_decoder};
use iotrail_format::schema::{ColumnType, TABLES};
use iotrail_trail::arrays::{Value, batch};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    // Arrow's own panics are caught where they happen; all others end the fuzzer.
    quiet_decoder();
    let Some((choice, rest)) = input.split_first() else { return };
    let table = &TABLES[usize::from(choice >> 1) % TABLES.len()];
    let stream = if choice & 1 == 0 {
        rest.to_vec()
    } else {
        let row = |at: i64| {
            let value = |column: &iotrail_format::schema::Column| match column.ty {
                _ if column.nullable && at == 1 => Value::Null,
                ColumnType::Text => ["one", "two", "two"][at as usize].into(),
                _ => at.into(),
            };
            table.columns.iter().map(value).collect()
        };
        let Ok(rows) = batch(table, (0..3).map(row).collect()) else { return };
        let mut stream: Vec<u8> =
            Rows::of(table, rows).expect("it is of the table").ipc.iter().flatten().copied().collect();
        for piece in rest.chunks_exact(3) {
            let at = usize::from(u16::from_le_bytes([piece[0], piece[1]])) % stream.len();
            stream[at] = piece[2];
        }
        stream
    };
    if let Ok(rows) = from_ipc(table, Bytes::from(stream), 64 << 20) {
        assert_eq!(rows.num_columns(), table.columns.len());
    }
});

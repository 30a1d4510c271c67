//! The snapshot reader on any bytes: it accepts or refuses, and never panics.

#![no_main]

use std::path::Path;

use iotrail_trail::Snapshot;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &[u8]| {
    if let Ok(snapshot) = Snapshot::parse(text, Path::new("fuzz.trail/snapshots/00000001.json")) {
        // What was accepted can be asked.
        let rows: u64 = snapshot.tables.keys().map(|table| snapshot.rows(table)).fold(0, u64::wrapping_add);
        std::hint::black_box(rows);
    }
});

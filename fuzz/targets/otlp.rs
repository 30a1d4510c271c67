//! What an OpenTelemetry exporter sends, on any bytes: rows of the tables or a refusal, never a panic.
//!
//! The input's first byte chooses JSON or protobuf.

#![no_main]

use iotrail_collector::otlp::{decode, measure, spans::convert};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((choice, body)) = input.split_first() else { return };
    let json = choice & 1 == 0;
    // As a collector with messages of 16 MiB.
    if measure(json, body, 128 << 20).is_err() {
        return;
    }
    if let Ok(request) = decode(json, body) {
        convert(&request, "peer").expect("rows fit their tables");
    }
});

//! The reader of journals and carries on any bytes: it never panics, and what it makes of them are
//! rows that fit their tables.

#![no_main]

use std::collections::HashSet;

use iotrail_format::segment::PAGE;
use iotrail_trail::seal::clock::Clock;
use iotrail_trail::seal::journal::Left;
use iotrail_trail::seal::rows::Rows;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    // The input's first 48 bytes are the header's words, the rest its units.
    let (header, units) = input.split_at(input.len().min(48));
    let mut bytes = header.to_vec();
    bytes.resize(PAGE, 0);
    bytes[..16].copy_from_slice(b"IOTRJNL1\x01\0\0\0\0\0\0\0");
    bytes.extend_from_slice(units);
    let Some(left) = Left::parse(&bytes) else { return };
    let mut rows = Rows::new("fuzz-1".into(), Clock::new(0), HashSet::new());
    rows.apply(&left.units, left.sequence, &mut |_, _| Ok(())).expect("rows fit their tables");
    let carry = rows.carry();
    let mut again = Rows::new("fuzz-1".into(), Clock::new(0), HashSet::new());
    again.apply(&carry, left.sequence, &mut |_, _| Ok(())).expect("a carry is a journal");
});

//! Device files of any bytes: refused, or a device that serves requests. No file makes one that needs more memory or time than
//! its cost says, loses a request, or never comes to rest.
//!
//! An input is a file, or after a byte 0 which one of [`BASES`], and numbers that replace some of its own: nine bytes each, which of
//! them and a number.

#![no_main]

use iotrail_sim::file::{Cost, DeviceFile, SHIPPED};
use iotrail_sim::{Completion, Device, Id, Nanos, Op, Request};
use libfuzzer_sys::fuzz_target;

/// Small devices, one of each kind, and what they are made of.
const BASES: [&str; 4] = [
    SHIPPED[1].1,
    include_str!("../seeds/device/array.toml"),
    include_str!("../seeds/device/ssd.toml"),
    include_str!("../seeds/device/cached.toml"),
];
/// Costlier devices are refused here, so that one fits half a GiB and a second.
const MOST: Cost = Cost { table_bytes: 64 << 20, filling_steps: 1 << 22 };
const REQUESTS: u64 = 300;
/// A request is a page or a sector at a time to some devices, which may be one byte long.
const LONGEST: u64 = 4096;
/// Steps in virtual time after which a device should have come to rest.
const MOST_EVENTS: u64 = 20_000_000;

fuzz_target!(|input: &[u8]| {
    let text = match input.split_first() {
        Some((0, rest)) => changed(rest),
        _ => String::from_utf8_lossy(input).into_owned(),
    };
    let Ok(file) = DeviceFile::parse(&text) else { return };
    let cost = file.device.cost();
    if cost.table_bytes > MOST.table_bytes || cost.filling_steps > MOST.filling_steps {
        return;
    }
    let mut device = file.build();
    assert_eq!(device.capacity(), file.device.capacity());
    serve(&mut *device);
});

/// A base with other numbers.
fn changed(input: &[u8]) -> String {
    let Some((&base, changes)) = input.split_first() else { return String::new() };
    let mut parts: Vec<String> = BASES[usize::from(base) % BASES.len()].split(' ').map(str::to_owned).collect();
    let is_number = |part: &String| part.trim_end_matches([',', ']']).parse::<f64>().is_ok();
    let numbers: Vec<usize> = (0..parts.len()).filter(|at| is_number(&parts[*at])).collect();
    for change in changes.chunks_exact(9) {
        let bits = u64::from_le_bytes(change[1..].try_into().expect("eight bytes"));
        let float = f64::from_bits(bits);
        // Small numbers are more often valid than any bits.
        let number = match bits & 3 {
            0 => (bits >> 2 & 0xff).to_string(),
            1 => (bits >> 2 & 0xf_ffff).to_string(),
            2 => (bits >> 2).to_string(),
            _ => format!("{float:?}").replace("NaN", "nan"),
        };
        let part = &mut parts[numbers[usize::from(change[0]) % numbers.len()]];
        let end: String = part.chars().filter(|end| [',', ']'].contains(end)).collect();
        *part = number + &end;
    }
    parts.join(" ")
}

/// Requests of all kinds; each is completed once, after it was issued, and the device comes to rest.
fn serve(device: &mut dyn Device) {
    let capacity = device.capacity();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64 ^ capacity;
    let mut random = move |bound: u64| {
        // xorshift64 (Marsaglia, 2003)
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % bound.max(1)
    };
    let mut arrivals: Vec<Option<Nanos>> = Vec::new();
    let mut completions: Vec<Completion> = Vec::new();
    let mut now = 0;
    for id in 0..REQUESTS {
        now += [0, 1_000, 100_000, 20_000_000][random(4) as usize];
        device.advance(now, &mut completions);
        check(&mut arrivals, &mut completions);
        let op = [Op::Read, Op::Read, Op::Write, Op::Write, Op::Write, Op::Flush, Op::Trim][random(7) as usize];
        let length = if op == Op::Flush { 0 } else { 1 + random(LONGEST.min(capacity)) };
        // Half of them near the start, so that caches have something to do.
        let places = if random(2) == 0 { capacity - length + 1 } else { (capacity - length + 1).min(1 << 16) };
        let pos = if op == Op::Flush { 0 } else { random(places) };
        arrivals.push(Some(now));
        device.submit(now, Id(id), Request { op, pos, length });
    }
    let mut events = 0;
    while let Some(next) = device.next_event() {
        device.advance(next, &mut completions);
        check(&mut arrivals, &mut completions);
        events += 1;
        assert!(events < MOST_EVENTS, "it never comes to rest");
        now = now.max(next);
    }
    assert_eq!(arrivals.iter().flatten().count(), 0, "requests that are never completed");
    assert!(device.energy(now).is_none_or(|joules| joules >= 0.0));
}

/// Takes the arrivals of requests that were completed.
fn check(arrivals: &mut [Option<Nanos>], completions: &mut Vec<Completion>) {
    for Completion { id, issued, done, .. } in completions.drain(..) {
        let arrival = arrivals[id.0 as usize].take().expect("one completion for each request");
        assert!(arrival <= issued && issued <= done, "{arrival} {issued} {done}");
    }
}
